"""Simulators of batch jobs and compatibility modes: names that options take and that users can extend.

This is the one door to `hdrl.batsim`, `hdrl.slurm` and `hdrl.deploy`, which are loaded when one of them is used.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
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
    """A simulator that options can name."""

    # maker of a simulator of a platform and a workload, with the keywords ``seed``, ``energy``, ``compatibility``,
    # ``folder``, ``platform_file`` and ``batsim`` of `policies.simulate`; or its place, as ``"module:function"``, which
    # is imported when it is first used
    maker: Callable[..., Any] | str
    writes_files: bool = False  # True if it leaves Batsim's files in the folder itself
    # names of the policies by which it schedules, if it decides itself; empty: it carries out any policy's decisions
    own_policies: tuple[str, ...] = ()
    # given a policy that is not its own, returns what makes it follow that policy, given the platform, the workload and
    # its settings; or the path of that function. Empty: nothing makes it
    deploys: Callable[..., Any] | str = ""
    supports_networks: bool = False  # True if it has the method ``decisions``, so that networks can choose policy pairs
    follows_site_rules: bool = False  # True if jobs start there by the rules of the site that a machine may have
    floor: str = ""  # difference between two equal runs of it, a sentence; empty: they are the same

    def make(self, *arguments: Any, **keywords: Any) -> Any:
        """Return a simulator."""
        return _imported(self.maker)(*arguments, **keywords)

    def deployed(self, policy: object) -> Any:
        """Return the function that makes it follow a policy, see `deploys`; ``None`` for its own ones.

        Raises
        ------
        HdrlError
            If it cannot follow the policy.
        """
        return None if policy in self.own_policies else _imported(self.deploys)(policy)


def _imported(function: Callable[..., Any] | str) -> Callable[..., Any]:
    if not isinstance(function, str):
        return function
    module, _, name = function.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


def policy_of_model(path: Path) -> Any:
    """Return the policy of a model file whose weights evolved (`hdrl.deploy.policy.index_of_model`); it needs torch."""
    return _imported("hdrl.deploy.policy:index_of_model")(path)


@dataclass(frozen=True, slots=True)
class BatsimProgram:
    """A policy that is a scheduler in C++ which speaks Batsim's protocol, given by its one source file."""

    source: Path  # it is compiled when the policy is first used in a process

    def play(self, simulator: Any) -> None:
        """Simulate under the scheduler (`hdrl.batsim.program.play`)."""
        _imported("hdrl.batsim.program:play")(self.source, simulator)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatsimSettings:
    """Settings of Batsim."""

    endpoint: str = FREE_ENDPOINT  # address at which the decision system listens; ``*`` as port stands for a free one
    executable: str = "batsim"  # the command to start, looked for on ``PATH``
    arguments: tuple[str, ...] = ()  # further arguments of it
    timeout_s: float = 60.0  # longest silence of Batsim, in wall-clock seconds, before it is given up
    # ``"start"``: Batsim is started; ``"connect"``: it is started elsewhere, and connects
    wait_for: Literal["start", "connect"] = "start"
    # folder that is shared with a Batsim that connects from elsewhere: its platform and workload are written there, and
    # its files are expected there, named ``out_jobs.csv`` and so on
    folder: Path | None = None
    protocol: Literal[4, 5] = 4  # 4 for Batsim 3.1 to 4.2, 5 for Batsim 5 (v5.0.0-rc2)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSettings:
    """Settings of a real Slurm."""

    # ``slurm.conf`` of an administrator, whose lines about scheduling count; ``None``: Slurm's defaults
    conf: Path | None = None
    speed: float = 40.0  # speed of its clock relative to real time
    # largest number of slurmd, at least one for each kind of node; a larger machine has its equal nodes put together
    daemons: int = 8
    # longest time in which Slurm may miss what it should do, in wall-clock seconds, before it is given up
    timeout_s: float = 60.0
    # largest mean time that launching and ending may add to the run time of a job, in simulated seconds
    max_overhead_s: float = 10.0
    max_minutes: float = 240.0  # time limit of a run, in minutes of the real clock
    lua: bool = True  # True if a policy that is not Slurm's orders jobs when they are submitted, besides the daemon
    interval_s: float = 30.0  # time between two looks of that daemon, in simulated seconds


SIMULATORS: Registry[SimulatorKind] = Registry("simulator")
"""Simulators: the compiled kernel, the exact engine, Batsim itself, a real Slurm, or what a user adds."""


def make_simulator(simulator: Mapping[str, Any], platform: Any, workload: Any, **common: Any) -> Any:
    """Return the simulator that arguments of `policies.simulate` name, the embedded one by default."""
    choices = {"simulator": "embedded", "batsim": None, "folder": None, "platform_file": None, **simulator}
    return SIMULATORS[choices.pop("simulator")].make(platform, workload, compatibility=None, **choices, **common)


SIMULATORS.register("embedded")(
    SimulatorKind("hdrl.settings.batch.policies.simulation:embedded_simulator", supports_networks=True)
)
SIMULATORS.register("site")(
    SimulatorKind("hdrl.settings.batch.site_rules.simulator:site_simulator", follows_site_rules=True)
)
SIMULATORS.register("exact")(
    SimulatorKind("hdrl.batsim.simulators:exact_simulator", writes_files=True, supports_networks=True)
)
SIMULATORS.register("batsim")(
    SimulatorKind("hdrl.batsim.real:batsim_simulator", writes_files=True, supports_networks=True)
)
SIMULATORS.register("slurm")(
    SimulatorKind(
        "hdrl.slurm.simulator:slurm_simulator",
        own_policies=("slurm",),
        deploys="hdrl.deploy.trial:deployed_in_slurm",
        floor=(
            "two equal runs of a real Slurm start up to 0.5 % of the pairs of jobs in another order and differ by some "
            "2 % in their mean waits: smaller differences say nothing."
        ),
    )
)


def floor_of(simulator: object) -> str:
    """Return the difference between two equal runs of a simulator, in words; empty if they are the same."""
    return SIMULATORS[simulator].floor if isinstance(simulator, str) and simulator in SIMULATORS else ""
