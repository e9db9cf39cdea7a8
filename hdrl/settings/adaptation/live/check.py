"""What live jobs would run on."""

from __future__ import annotations

import os
import platform

import torch


def describe_machine() -> dict[str, str]:
    """Return versions, threads and GPUs by name."""
    found = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "machine": platform.platform(),
        "cores": str(os.cpu_count()),
        "torch threads": f"{torch.get_num_threads()} (live jobs take one)",
        "cuda": str(torch.version.cuda or "torch was built without"),
    }
    gpus = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    found["gpus"] = ", ".join(gpus) if gpus else "none"
    return found
