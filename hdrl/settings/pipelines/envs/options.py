"""The arguments of Pipelines by name, checked, and their numbers in the compiled simulator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from hdrl.base.errors import OptionsError
from hdrl.envs.requests import check_choice, checked_count, chosen_errors
from hdrl.envs.row_pick import RowLayout
from hdrl.settings.pipelines.kernel import codes
from hdrl.settings.pipelines.kernel.observe import N_FEATURES, N_LOOKAHEAD
from hdrl.settings.pipelines.kernel.state import SETTINGS_DTYPE
from hdrl.settings.pipelines.loads.load import PipelineLoad
from hdrl.settings.pipelines.loads.pipeline import NEVER
from hdrl.settings.pipelines.machine import CPU, GPU, KINDS, Units

OBJECTIVES: Mapping[str, int] = {
    "miss_ratio": codes.MISS_RATIO,
    "mean_tardiness_s": codes.MEAN_TARDINESS,
    "mean_lateness_s": codes.MEAN_LATENESS,
    "max_tardiness_s": codes.MAX_TARDINESS,
    "makespan_s": codes.MAKESPAN,
}
"""Objectives by the names of metrics; all are to be small."""

REWARDS: Mapping[str, int] = {
    "shaped": codes.R_METRIC,
    "slack": codes.R_SLACK,
    "outcome": codes.R_OUTCOME,
    "rlschedsim": codes.R_RLSCHEDSIM,
}
"""Rewards: minus what a step adds to the objective; for each instance that has ended its slack in periods, from -1 to
1; +1 if it ended in time, else -1; the same times the decisions that it took: what rlschedsim credits them with."""

MAX_CHAIN_US = 2**31
"""Longest pipeline where times within groups are distinguished, in microseconds: products of two times stay exact."""

COMPATIBILITY = "rlschedsim"
"""The compatibility mode."""

ERRORS = ("late_releases", "whole_running_times", "worst_queued_times")
"""Errors of rlschedsim: instances are released when a kernel ends, or when nothing is left to do, so that units stay
idle; a running kernel counts with all of its time in the state, not with what is left; a queued kernel that is not
fused counts with its time on the slower kind."""


MAX_MS = 1e12
"""Times in rlschedsim's state are below it."""

WAIT = "wait"
"""The action that starts nothing until the next event."""


class OneRow(RowLayout):
    """rlschedsim's table: one row, the kernel that is next, as a flat vector; an action says kind of unit and depth."""

    __slots__ = ()

    @property
    def n_actions(self) -> int:
        """Number of actions: they are the extra ones."""
        return len(self.extra_actions)

    @property
    def observation_space(self) -> spaces.Box:
        """The space of one environment's observation: float32, shape ``(n_columns,)``."""
        return spaces.Box(self.low, self.high, (self.n_columns,), np.float32)

    def action(self, name: str) -> int:
        """Return the number of an action such as ``"gpu+2"``; raise OptionsError if there is none of that name."""
        return RowLayout.action(self, name) - self.n_rows

    def name_of(self, action: int) -> str | None:
        """Return the name of an action."""
        return self.extra_actions[action]


@dataclass(frozen=True, slots=True)
class PipelinesOptions:
    """Options for decisions, observations and rewards."""

    # see `hdrl.settings.pipelines.envs.env.PipelinesVectorEnv`; all of them chosen
    max_ready: int
    n_depths: int
    has_wait: bool
    has_lookahead: bool
    objective: str
    reward: str
    compatibility: str | None
    errors: tuple[str, ...]
    n_jobs: int  # pipelines of a set

    @property
    def is_fixed_task(self) -> bool:
        """True if the next kernel is fixed, and an action chooses only kind of unit and depth."""
        return self.compatibility is not None

    def layout(self, n_units: int) -> RowLayout:
        """Return the layout of an environment's table."""
        if self.is_fixed_task:
            actions = tuple(f"{kind}+{depth}" for kind in KINDS for depth in range(self.n_depths))
            return OneRow(1, 2 + 2 * self.n_jobs, actions, -MAX_MS, MAX_MS)
        extra = (WAIT,) if self.has_wait else ()
        n_columns = N_FEATURES + N_LOOKAHEAD * self.has_lookahead
        return RowLayout(self.max_ready * n_units * self.n_depths, n_columns, extra, -1.0, 1.0)

    def settings(self) -> NDArray[np.void]:
        """Return the settings of the compiled simulator, an array of one `SETTINGS_DTYPE`."""
        result = np.zeros(1, dtype=SETTINGS_DTYPE)
        s = result[0]
        s["compatibility"] = codes.RLSCHEDSIM if "late_releases" in self.errors else codes.PLAIN
        s["is_fixed_task"] = self.is_fixed_task
        s["counts_whole_times"] = "whole_running_times" in self.errors
        s["counts_worst_times"] = "worst_queued_times" in self.errors
        s["max_ready"] = self.max_ready
        s["n_depths"] = self.n_depths
        s["has_wait"] = self.has_wait
        s["has_lookahead"] = self.has_lookahead
        s["n_jobs"] = self.n_jobs
        s["reward"] = REWARDS[self.reward]
        s["objective"] = OBJECTIVES[self.objective]
        return result


def pipelines_options(
    machine: Units,
    loads: Sequence[PipelineLoad],
    *,
    max_ready: int,
    n_depths: int | None,
    wait: bool,
    lookahead: bool,
    objective: str,
    reward: str | None,
    compatibility: str | None,
    errors: Iterable[str] | None,
) -> PipelinesOptions:
    """Check the arguments and fill in what depends on the load and on the compatibility mode.

    Raise OptionsError if one is unknown, or some contradict each other.
    """
    is_compatible = compatibility is not None
    if is_compatible:
        check_choice("compatibility", compatibility, (COMPATIBILITY,))
    if reward is None:
        reward = COMPATIBILITY if is_compatible else "slack"
    check_choice("objective", objective, OBJECTIVES)
    check_choice("reward", reward, REWARDS)
    chosen = _errors(errors, is_compatible=is_compatible)
    if n_depths is None:
        n_depths = max(len(one) for load in loads for pipeline in load.pipelines for one in pipeline.choices)
    n_jobs = max(len(load.pipelines) for load in loads)
    if is_compatible:
        _check_compatible(machine, loads, wait=wait, lookahead=lookahead)
    return PipelinesOptions(
        max_ready=checked_count("max_ready", max_ready),
        n_depths=checked_count("n_depths", n_depths),
        has_wait=bool(wait),
        has_lookahead=bool(lookahead),
        objective=objective,
        reward=reward,
        compatibility=compatibility,
        errors=chosen,
        n_jobs=n_jobs,
    )


def _errors(errors: Iterable[str] | None, *, is_compatible: bool) -> tuple[str, ...]:
    names = chosen_errors(errors, ERRORS, ERRORS if is_compatible else ())
    if names and not is_compatible:
        raise OptionsError(f"errors are those of compatibility {COMPATIBILITY!r}, which is not chosen")
    return names


def _check_compatible(machine: Units, loads: Sequence[PipelineLoad], *, wait: bool, lookahead: bool) -> None:
    if machine.kinds != (CPU, GPU):
        raise OptionsError(
            f"compatibility {COMPATIBILITY!r} needs one CPU and one GPU, the machine is {machine.name!r}"
        )
    if wait or lookahead:
        raise OptionsError(f"compatibility {COMPATIBILITY!r} has no action that waits, and no lookahead")
    if len({len(load.pipelines) for load in loads}) > 1:
        raise OptionsError(f"compatibility {COMPATIBILITY!r} needs the same number of pipelines in all loads")
    for load in loads:
        for pipeline in load.pipelines:
            if sum(max(kernel.times_us) for kernel in pipeline.kernels) > MAX_CHAIN_US:
                raise OptionsError(
                    f"compatibility {COMPATIBILITY!r}: pipeline {pipeline.name!r} takes longer than {MAX_CHAIN_US} us"
                )
            if any(NEVER in option.times_us for option in pipeline.options) or pipeline.ecu > 0:
                raise OptionsError(
                    f"compatibility {COMPATIBILITY!r} needs kernels and groups that run everywhere, those of pipeline"
                    f" {pipeline.name!r} do not"
                )
