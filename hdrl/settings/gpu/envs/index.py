"""``hdrl/GpuIndex-v0``: weights of an index of jobs are the action, and windows of loads judge them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from hdrl.base import elementary
from hdrl.base.cores import usable_cores
from hdrl.base.errors import OptionsError
from hdrl.base.seeding import stream
from hdrl.envs.arguments import taken
from hdrl.envs.episodes import Part, Start, part_bounds
from hdrl.envs.index import Floats, IndexEnv, IndexPlayer, IndexVectorEnv
from hdrl.envs.requests import check_choice, check_texts, checked_count, checked_numbers
from hdrl.settings.gpu.cluster.machine import GpuCluster, cluster_of
from hdrl.settings.gpu.envs.env import Loads, NamedRules, policy_without_shares
from hdrl.settings.gpu.envs.loads import loads_of
from hdrl.settings.gpu.loads.load import GpuLoad, check_runs_on
from hdrl.settings.gpu.metrics import compute_metrics
from hdrl.settings.gpu.policies.rules import Rules
from hdrl.settings.gpu.policies.weights import LARGEST_WEIGHT, NAMES, weights_of
from hdrl.settings.gpu.simulation.events import simulate
from hdrl.settings.gpu.simulation.index import INDEX, OBJECTIVES, index_policy, play
from hdrl.trace.model import TaskTrace

DEFAULT_N_JOBS = 600
DEFAULT_N_WINDOWS = 5


class GpuIndexVectorEnv(IndexVectorEnv):
    """A batch of environments in which weights of an index of jobs are judged by windows of loads.

    **Description.** The action is an index that says which job is next, which running jobs give way, and which type of
    GPUs a job tries first (`hdrl.settings.gpu.kernel.index`). It estimates durations from the jobs that have
    ended before. It is simulated on windows of loads, all rows on the same windows.

    **Action space.** ``Box(-50, 50, (20,))``: by how much the weights differ from those by hand, those of the policy
    ``steady-gittins``.

    **Observation space.** ``Box(0, 1, (1,))``: nothing is seen, 0.

    **Rewards.** Minus the mean logarithm of the objective over that of the reference, window by window.

    **Episode end.** After the first action. ``info["results"]`` holds the mean of the objective (``objective``) and
    the geometric mean of what it is divided by that of the reference (``ratio``).

    Parameters
    ----------
    machine, load
        See `hdrl.settings.gpu.envs.env.GpuClusterVectorEnv`.
    n_jobs
        Jobs of a window; ``"all"``: a whole load.
    start, part
        Windows are drawn from this part of each load; ``start`` may be ``"random"`` alone.
    n_windows
        Number of windows that an episode draws.
    offered
        Each window is judged at each of these offered loads, to which the arrivals of its load are stretched; none:
        as they are.
    objective
        A metric over all jobs of a window, see `hdrl.settings.gpu.simulation.index.OBJECTIVES`; less is better.
    reference
        A policy.
    restart_s, checkpoint_s, tie, node_order, levels
        See `hdrl.settings.gpu.policies.rules.Rules`.

    Raises
    ------
    HdrlError
        If an argument is wrong, or a load cannot be read or run.
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        machine: GpuCluster | str | Path = "drl-gpu",
        load: Loads = None,
        n_jobs: int | str = DEFAULT_N_JOBS,
        start: Start = "random",
        part: Part = "all",
        n_windows: int = DEFAULT_N_WINDOWS,
        offered: Sequence[float] = (),
        objective: str = "mean_jct_s",
        reference: str = "las-2d",
        restart_s: Sequence[float] = Rules().restart_s,
        checkpoint_s: float = Rules().checkpoint_s,
        tie: str = Rules().tie,
        node_order: str = Rules().node_order,
        levels: Sequence[float] = Rules().levels,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        n_threads: int | None = None,
        render_mode: None = None,
    ) -> None:
        check_choice("objective", objective, OBJECTIVES)
        check_texts(reference=reference)
        super().__init__(
            num_envs,
            len(NAMES),
            LARGEST_WEIGHT,
            n_windows=n_windows,
            start=start,
            autoreset_mode=autoreset_mode,
            render_mode=render_mode,
        )
        self.machine = cluster_of(machine)
        self.reference, self.objective = policy_without_shares(reference), objective
        named = {"restart_s": restart_s, "checkpoint_s": checkpoint_s, "tie": tie}
        self.rules = taken(NamedRules(), {**named, "node_order": node_order, "levels": levels}).rules()
        self._n_threads = usable_cores() if n_threads is None else checked_count("n_threads", n_threads)
        self.loads = [
            [one.scaled(self.machine, each) for each in checked_numbers("offered", offered)] or [one]
            for one in loads_of(load, self.machine)
        ]
        length = 0 if n_jobs == "all" else checked_count("n_jobs", n_jobs)
        self._parts = []
        for one, *_ in self.loads:
            low, high = part_bounds(part, one.n_items, name=one.name)
            if length > high - low:
                raise OptionsError(f"n_jobs is {length}, but the part of {one.name} holds {high - low} jobs")
            self._parts.append((low, high, length or high - low))

    def draw(self, draw: tuple[int, int]) -> list[GpuLoad]:
        """Return the windows of an episode: windows of loads in turn, each at all offered loads before the next one."""
        seed, number = draw
        random = stream(seed, f"windows of loads, {number}")
        found = []
        for position in range(self.n_windows):
            chosen = position % len(self.loads)
            low, high, length = self._parts[chosen]
            first = int(random.integers(low, high - length + 1))
            found += [one.window(first, length) for one in self.loads[chosen]]
        return found

    def judge(self, offsets: Floats, draw: tuple[int, int]) -> tuple[Floats, Mapping[str, Floats]]:
        """Judge candidates by windows: see `IndexVectorEnv.judge`."""
        windows = self.draw(draw)
        same: dict[str, Any] = {"rules": self.rules, "n_threads": self._n_threads}
        reference = play(self.machine, windows, self.reference, **same).objective(self.objective)
        values = play(self.machine, windows, INDEX, weights_of(offsets), **same).objective(self.objective)
        log_ratios = elementary.log(values / reference).mean(axis=1)
        return -log_ratios, {"objective": values.mean(axis=1), "ratio": elementary.exp(log_ratios)}


class GpuIndexEnv(IndexEnv):
    """One environment in which weights are judged: see `GpuIndexVectorEnv`."""

    batch: GpuIndexVectorEnv
    batch_class = GpuIndexVectorEnv


class GpuIndexPlayer(IndexPlayer):
    """One environment whose only action, weights, is simulated on a whole load as any policy is."""

    def __init__(
        self, *, machine: GpuCluster, load: GpuLoad, rules: Rules | None = None, objective: str = "mean_jct_s"
    ) -> None:
        check_runs_on(load, machine)
        self.machine, self.load, self.rules = machine, load, rules
        super().__init__(len(NAMES), LARGEST_WEIGHT, self._simulated, lambda trace: compute_metrics(trace)[objective])

    def _simulated(self, offsets: NDArray[Any], seed: int) -> TaskTrace:
        return simulate(self.machine, self.load, index_policy(weights_of(offsets)), seed=seed, rules=self.rules)
