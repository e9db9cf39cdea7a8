"""The claimed experiments that come with hdrl: a folder each, and a function of each that is more than one comparison.

A module is loaded on request for one of its protocols.
"""

from __future__ import annotations

from importlib import import_module

from hdrl.base.errors import UnknownName
from hdrl.base.registry import Registry
from hdrl.experiments.findings import ReproduceProtocol

PROTOCOLS: Registry[ReproduceProtocol] = Registry("protocol")
"""Protocols that have been loaded. Files with settings of users add their own."""

HOMES = {
    "hdrl.experiments.adaptation": (
        "adaptation-tables",
        "adaptation-ranks",
        "adaptation-transfer",
        "adaptation-unseen",
    ),
    "hdrl.experiments.adaptation_index": ("adaptation-index",),
    "hdrl.experiments.batch": (
        "rlscheduler-lublin1",
        "rlscheduler-corrected",
        "lublin1-easy",
        "lublin1-models",
    ),
    "hdrl.experiments.batch_dissertation": (
        "dissertation-sdsc-blue",
        "dissertation-hpc2n",
        "dissertation-held-out",
    ),
    "hdrl.experiments.batch_evolution": (
        "es-held-out",
        "es-generalist",
    ),
    "hdrl.experiments.batch_learned": ("ppo-held-out-logs",),
    "hdrl.experiments.batch_names": ("es-names",),
    "hdrl.experiments.batch_overload": ("es-overload",),
    "hdrl.experiments.batch_overfit": ("bench-overfit",),
    "hdrl.experiments.batch_slurm": ("slurm-fidelity",),
    "hdrl.experiments.batch_waits": ("wait-coverage",),
    "hdrl.deploy.proof": ("slurm-deploy",),
    "hdrl.experiments.gpu": (
        "gpu-fgd",
        "gpu-fgd-ties",
        "gpu-gavel-fifo",
        "gpu-seed",
        "gpu-gavel-jct",
        "gpu-gavel-makespan",
    ),
    "hdrl.experiments.gpu_history": ("gpu-history",),
    "hdrl.experiments.gpu_index": ("gpu-index",),
    "hdrl.experiments.gpu_learned": ("gpu-seed-agents",),
    "hdrl.experiments.pipelines": ("adas-worlds",),
    "hdrl.experiments.pipelines_index": ("pipelines-index",),
    "hdrl.experiments.pipelines_limits": ("pipelines-limits", "pipelines-tardiness"),
}
"""Modules of protocols that have not been loaded."""


def find_protocol(name: str) -> ReproduceProtocol:
    """Return a protocol; it is loaded if need be.

    Raises
    ------
    UnknownName
        If there is no such protocol.
    """
    for module, names in HOMES.items():
        if name in names:
            import_module(module)
    if name not in PROTOCOLS:
        raise UnknownName("protocol", name, [*(one for names in HOMES.values() for one in names), *PROTOCOLS])
    return PROTOCOLS[name]
