"""What batch jobs can be simulated by, and in whose way: names that options take and that users can add to.

This is the one door to `hdrl.batsim` and to `hdrl.slurm`, which are loaded when one of their simulators is used.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hdrl.base.registry import Registry

HDEEPRM = "hdeeprm-0.3.1"
IRMASIM = "irmasim"

FREE_ENDPOINT = "tcp://127.0.0.1:*"
"""A free port that only this machine can reach."""

COMPATIBILITY_MODES = (HDEEPRM, IRMASIM)
"""Names of the systems whose numbers can be reproduced, their errors included."""


@dataclass(frozen=True, slots=True)
class SimulatorKind:
    """Who can simulate.

    Attributes
    ----------
    maker
        What makes a simulator of a platform and a workload, with the keywords ``seed``, ``energy``, ``compatibility``,
        ``folder``, ``platform_file`` and ``batsim`` of `policies.simulate`; or its place, as
        ``"module:function"``, which is imported when it is first used.
    writes_files
        Whether it leaves Batsim's files in the folder itself.
    own_policies
        Names of the policies by which it schedules, if it decides itself; empty: it carries out any policy's decisions.
    follows_site_rules
        Whether jobs start there by the rules of the site that a machine may have.
    floor
        How far two equal runs of it are from each other, a sentence; empty: they are the same.
    """

    maker: Callable[..., Any] | str
    writes_files: bool = False
    own_policies: tuple[str, ...] = ()
    follows_site_rules: bool = False
    floor: str = ""

    def make(self, *arguments: Any, **keywords: Any) -> Any:
        """Return a simulator."""
        maker = self.maker if callable(self.maker) else _imported(self.maker)
        return maker(*arguments, **keywords)


def _imported(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


@dataclass(frozen=True, slots=True)
class BatsimProgram:
    """A policy that is a scheduler in C++ which speaks Batsim's protocol, given by its one source file.

    Attributes
    ----------
    source
        The file; it is compiled when the policy is first used in a process.
    """

    source: Path

    def play(self, simulator: Any) -> None:
        """Simulate under the scheduler (`hdrl.batsim.program.play`)."""
        _imported("hdrl.batsim.program:play")(self.source, simulator)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatsimSettings:
    """How Batsim is run.

    Attributes
    ----------
    endpoint
        Where the decision system listens; ``*`` as port stands for a free one.
    executable
        The command to start, looked for on ``PATH``.
    arguments
        Further arguments of it.
    timeout_s
        How long Batsim may be silent, in wall-clock seconds, before it is given up.
    wait_for
        ``"start"``: Batsim is started; ``"connect"``: it is started by somebody else, and connects.
    folder
        Folder that is shared with a Batsim that connects from elsewhere: its platform and workload are written
        there, and its files are expected there, named ``out_jobs.csv`` and so on.
    protocol
        4 for Batsim 3.1 to 4.2, 5 for Batsim 5 (v5.0.0-rc2).
    """

    endpoint: str = FREE_ENDPOINT
    executable: str = "batsim"
    arguments: tuple[str, ...] = ()
    timeout_s: float = 60.0
    wait_for: Literal["start", "connect"] = "start"
    folder: Path | None = None
    protocol: Literal[4, 5] = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSettings:
    """How a real Slurm is run.

    Attributes
    ----------
    conf
        ``slurm.conf`` of an administrator, whose lines about scheduling count; ``None``: Slurm's defaults.
    speed
        How many times faster than real time its clock goes.
    daemons
        How many slurmd may run, at least one for each kind of node; a larger machine has its equal nodes put together.
    timeout_s
        How long Slurm may do nothing that it should do, in wall-clock seconds, before it is given up.
    max_overhead_s
        Largest mean time that launching and ending may add to the run time of a job, in simulated seconds.
    """

    conf: Path | None = None
    speed: float = 40.0
    daemons: int = 8
    timeout_s: float = 60.0
    max_overhead_s: float = 10.0


SIMULATORS: Registry[SimulatorKind] = Registry("simulator")
"""Who may simulate: the compiled kernel, the exact engine, Batsim itself, a real Slurm, or what a user adds."""

SIMULATORS.register("embedded")(SimulatorKind("hdrl.settings.batch.policies.simulation:embedded_simulator"))
SIMULATORS.register("site")(
    SimulatorKind("hdrl.settings.batch.site_rules.simulator:site_simulator", follows_site_rules=True)
)
SIMULATORS.register("exact")(SimulatorKind("hdrl.batsim.simulators:exact_simulator", writes_files=True))
SIMULATORS.register("batsim")(SimulatorKind("hdrl.batsim.real:batsim_simulator", writes_files=True))
SIMULATORS.register("slurm")(
    SimulatorKind(
        "hdrl.slurm.simulator:slurm_simulator",
        own_policies=("slurm",),
        floor=(
            "two equal runs of a real Slurm start up to 0.5 % of the pairs of jobs in another order and differ by some "
            "2 % in their mean waits: smaller differences say nothing."
        ),
    )
)


def floor_of(simulator: object) -> str:
    """Return how far two equal runs of a simulator are from each other; empty if they are the same."""
    return SIMULATORS[simulator].floor if isinstance(simulator, str) and simulator in SIMULATORS else ""
