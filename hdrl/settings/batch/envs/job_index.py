"""``hdrl/JobIndex-v0``: weights of an index of jobs are the action, and whole windows of logs judge them.

What follows from one action is simulated by the kernel from the first to the last job of every window, in compiled
code; there are no further decisions. It is for agents that search weights (`hdrl.learn.evolution`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from hdrl.base import elementary
from hdrl.base.cores import usable_cores
from hdrl.base.errors import OptionsError
from hdrl.envs.episodes import Length, Part, Start
from hdrl.envs.index import Floats, IndexEnv, IndexPlayer, IndexVectorEnv
from hdrl.envs.requests import checked_count
from hdrl.settings.batch.envs.machines import WorkloadLike, pool_inputs
from hdrl.settings.batch.envs.window_judge import ADDED, JudgedLog, judge
from hdrl.settings.batch.metrics import compute_metrics
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.policies.indexed import LARGEST_WEIGHT, IndexKind
from hdrl.settings.batch.policies.simulation import simulate
from hdrl.settings.batch.simulation.trace import BatchTrace
from hdrl.settings.batch.workload.fit import check_fits
from hdrl.settings.batch.workload.model import Workload

DEFAULT_N_JOBS = 1024
DEFAULT_N_WINDOWS = 6

NO_CHOICE: Mapping[str, Any] = MappingProxyType({})
"""No simulator is chosen: the embedded one simulates."""


class JobIndexVectorEnv(IndexVectorEnv):
    """A batch of environments in which weights of an index and a gate are judged by whole windows of logs.

    **Description.** The action is an index of waiting jobs and a gate that holds jobs back (`kernel.keys`): EASY with
    that order. It is simulated on windows of one log or several, all rows on the same windows.

    **Action space.** ``Box(-50, 50, (24,))``, or ``(144,)`` with ``form="network"``: by how much the weights differ
    from those by hand.

    **Observation space.** ``Box(0, 1, (1,))``: nothing is seen, 0.

    **Rewards.** Minus the mean over logs of the mean over windows of log(objective / that of the log's best classic),
    which is found among all priorities x orders of EASY on windows of the part; with ``tail``, plus ``tail`` times the
    same of the 99th percentile of the waiting times.

    **Episode end.** After the first action. ``info["results"]`` tells the geometric mean of the objective
    (``objective``) and of its ratio to the best classic's (``ratio``).

    Parameters
    ----------
    workload, platform
        The first log and its machine, as in `JobPickVectorEnv`.
    n_procs
        The number of processors instead of a platform.
    more_logs
        Further logs, each on identical processors, as many as its header says.
    n_jobs
        Jobs of a window; ``"all"``: the whole part.
    start, part
        Windows are drawn from this part, of further logs from the same shares of their jobs; ``start`` may be
        ``"random"`` alone.
    objective
        A name of `OBJECTIVES`; less is better.
    tail
        Weight of the 99th percentile of waiting times beside the objective; 0: none.
    reference
        ``"best"``, or the policy that the ratio refers to.
    form, gate, predictor, backfilling, core_selection
        See `policies.indexed.IndexKind`.
    autoreset_mode
        ``NEXT_STEP`` or ``SAME_STEP``.
    n_threads
        Number of threads that simulate; ``None``: one for each core. Results do not depend on it.

    Raises
    ------
    HdrlError
        If an argument is wrong, or a log cannot be read.
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        workload: WorkloadLike | None = None,
        platform: Platform | str | Path | None = None,
        n_procs: int | None = None,
        more_logs: Sequence[str] = (),
        n_jobs: Length = DEFAULT_N_JOBS,
        start: Start = "random",
        part: Part = "all",
        n_windows: int = DEFAULT_N_WINDOWS,
        objective: str = "mean_bounded_slowdown",
        tail: float = 0.0,
        reference: str = "best",
        form: str = "linear",
        gate: bool = True,
        predictor: str = "geo",
        backfilling: str = "easy_priority",
        core_selection: str = "high_gflops",
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        n_threads: int | None = None,
        render_mode: None = None,
    ) -> None:
        if not isinstance(n_jobs, (int, str)):
            raise OptionsError(f"n_jobs is {n_jobs!r}, expected one number: candidates are judged on equal windows")
        if not tail >= 0:
            raise OptionsError(f"tail is {tail}, expected a number, at least 0")
        self.kind = IndexKind(form, gate, predictor, backfilling, core_selection)
        super().__init__(
            num_envs,
            self.kind.n_weights,
            LARGEST_WEIGHT,
            n_windows=n_windows,
            start=start,
            autoreset_mode=autoreset_mode,
            render_mode=render_mode,
        )
        self._n_threads = usable_cores() if n_threads is None else checked_count("n_threads", n_threads)
        self._tail = float(tail)
        given = [pool_inputs(workload, platform, n_procs, needs_identical=False)]
        given += [pool_inputs(one, None, None) for one in more_logs]
        self.logs = tuple(
            JudgedLog.of(
                one.platform,
                one.workloads[0],
                n_jobs=n_jobs,
                part=part,
                first_n_jobs=given[0].workloads[0].n_jobs,
                objective=objective,
                reference=reference,
                n_threads=self._n_threads,
            )
            for one in given
        )

    @classmethod
    def unsupported_reason(cls, machine: Platform, load: Workload) -> str | None:
        """Return ``None``: it runs on the simulator that policies run on."""
        del machine, load
        return None

    def judge(self, offsets: Floats, draw: tuple[int, int]) -> tuple[Floats, Mapping[str, Floats]]:
        """Judge candidates by windows of the logs: see `IndexVectorEnv.judge`."""
        candidates = [self.kind.policy(row) for row in offsets]
        judged = judge(self.logs, candidates, self.n_windows, draw, n_threads=self._n_threads)
        rewards = -(judged.log_ratios + self._tail * judged.log_tail_ratios)
        return rewards, {
            "objective": elementary.exp(judged.log_values) - ADDED.get(self.logs[0].objective, 0.0),
            "ratio": elementary.exp(judged.log_ratios),
        }


class JobIndexEnv(IndexEnv):
    """One environment in which weights are judged: see `JobIndexVectorEnv`."""

    batch: JobIndexVectorEnv
    batch_class = JobIndexVectorEnv


class JobIndexPlayer(IndexPlayer):
    """One environment whose only action, weights, is simulated on a whole workload as any policy is.

    - ``energy``: whether energy is accounted for; ``None``: if the platform says what its hosts draw.
    - ``simulator``: the arguments of `policies.simulate` with the simulator and its settings.
    - ``**arguments``: fields of `policies.indexed.IndexKind`; others concern trainings alone.
    """

    def __init__(
        self,
        *,
        platform: Platform,
        workload: Workload,
        energy: bool | None = None,
        simulator: Mapping[str, Any] = NO_CHOICE,
        **arguments: Any,
    ) -> None:
        self.kind = IndexKind.of(arguments)
        self.platform, self.workload = platform, check_fits(workload, platform)
        self._energy = platform.has_power if energy is None else energy
        self._simulator = simulator
        objective = str(arguments.get("objective", "mean_bounded_slowdown"))
        super().__init__(
            self.kind.n_weights, LARGEST_WEIGHT, self._simulated, lambda trace: compute_metrics(trace)[objective]
        )

    def _simulated(self, offsets: NDArray[Any], seed: int) -> BatchTrace:
        policy = self.kind.policy(offsets)
        return simulate(self.platform, self.workload, policy, seed=seed, energy=self._energy, **self._simulator)
