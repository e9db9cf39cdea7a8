"""The machine that runs this, and how long training takes on it: the content of a table of times."""

from __future__ import annotations

import os
import platform
import statistics
import time
from typing import Any

import torch
from torch import nn

from hdrl.learn.threads import torch_threads
from hdrl.settings.adaptation.live.clocks import network_key
from hdrl.settings.adaptation.live.data import read_data
from hdrl.settings.adaptation.live.network import build
from hdrl.settings.adaptation.models import reachable
from hdrl.settings.adaptation.ownmodels import read_model

N_STEPS = 40
"""Steps of training whose median is taken, behind a few that are not looked at."""

N_WARM_UP = 5


def measure_times(model: str, data: str, machine: str, n_decisions: int, batch_size: int = 64) -> dict[str, Any]:
    """Train every network that a job can become for some steps, with one thread, and return how long an example takes.

    Parameters
    ----------
    model, data
        See `hdrl.settings.adaptation.live.making.TablePlan`.
    n_decisions
        Number of decisions of a job about deepening.

    Returns
    -------
    dict
        What `hdrl.settings.adaptation.live.clocks.MeasuredClock` reads: ``machine``, ``torch``, ``batch_size`` and
        ``example_s``, seconds of an example by network.
    """
    learned = read_data(data, 0)
    examples, labels = (part[:batch_size] for part in learned.train)
    found = {}
    with torch_threads(1):
        for one in reachable(read_model(model, learned.shape, learned.n_classes), n_decisions):
            network = build(one, 0).train()
            optimizer = torch.optim.Adam(network.parameters())
            took_s = []
            for _ in range(N_WARM_UP + N_STEPS):
                begin_s = time.perf_counter()
                optimizer.zero_grad(set_to_none=True)
                loss = nn.functional.cross_entropy(network(examples), labels)
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                took_s.append(time.perf_counter() - begin_s)
            found[network_key(one, learned.shape)] = statistics.median(took_s[N_WARM_UP:]) / len(labels)
    return {"machine": machine, "torch": torch.__version__, "batch_size": batch_size, "example_s": found}


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
