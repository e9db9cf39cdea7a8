"""``hdrl/PipelinesIndex-v0``: weights of an index of kernels are the action, and windows of sets judge them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from hdrl.base.cores import usable_cores
from hdrl.base.errors import OptionsError
from hdrl.base.seeding import stream
from hdrl.envs.episodes import Part, Start, Window, part_bounds
from hdrl.envs.index import Floats, IndexEnv, IndexPlayer, IndexVectorEnv
from hdrl.envs.requests import check_choice, check_texts, checked_count
from hdrl.settings.pipelines.envs.options import OBJECTIVES
from hdrl.settings.pipelines.inputs import LoadLike, read_loads
from hdrl.settings.pipelines.loads.load import PipelineLoad, check_runs_on
from hdrl.settings.pipelines.machine import Units, machine_of
from hdrl.settings.pipelines.metrics import compute_metrics
from hdrl.settings.pipelines.simulation.index import INDEX_CODES, LARGEST_WEIGHT, NAMES, IndexedLoads, weights_of
from hdrl.settings.pipelines.simulation.policies import BY_HAND, RULES, STATIC, index_rule, read_policy, simulate_rule
from hdrl.settings.pipelines.simulation.trace import PipelineTrace

DEFAULT_N_JOBS = 100
DEFAULT_N_WINDOWS = 32

SMALLEST_REFERENCE = 1e-3
"""Smallest divisor for objectives, used where the reference misses nothing."""

_SIGNED = ("mean_lateness_s",)


class PipelinesIndexVectorEnv(IndexVectorEnv):
    """A batch of environments in which weights of an index of ready kernels are judged by windows of sets of pipelines.

    **Description.** The action is an index that says what is started, and which kernels wait for a busy unit
    (`hdrl.settings.pipelines.kernel.index`). It is simulated on windows of sets, all rows on the same windows.

    **Action space.** ``Box(-50, 50, (17,))``: by how much the weights differ from those by hand, those of the policy
    ``doomed_last+fusion``.

    **Observation space.** ``Box(0, 1, (1,))``: nothing is seen, 0.

    **Rewards.** Minus the mean of the objective over the windows, divided by that of the reference on the same ones;
    with ``tardiness``, less ``tardiness`` times the same of the mean tardiness.

    **Episode end.** After the first action. ``info["results"]`` holds the mean of the objective (``objective``) and
    what it is divided by that of the reference (``ratio``).

    Parameters
    ----------
    machine, load
        See `hdrl.settings.pipelines.envs.env.PipelinesVectorEnv`; each configuration of a load is a set.
    n_jobs
        Instances of a window; sets with fewer, and ``"all"``: the whole set.
    start, part
        Windows are drawn from this part, and within it from sets as evenly as may be; ``start`` may be ``"random"``
        alone.
    objective
        A name of `OBJECTIVES` that is never negative; less is better.
    tardiness
        Weight of the mean tardiness beside the objective; 0: none.

    Raises
    ------
    HdrlError
        If an argument is wrong, or a load cannot be read.
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        machine: Units | str | Path = "1cpu+1gpu",
        load: LoadLike | Sequence[LoadLike] | None = None,
        n_jobs: int | str = DEFAULT_N_JOBS,
        start: Start = "random",
        part: Part = "all",
        n_windows: int = DEFAULT_N_WINDOWS,
        objective: str = "miss_ratio",
        tardiness: float = 0.0,
        reference: str = BY_HAND,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        n_threads: int | None = None,
        render_mode: None = None,
    ) -> None:
        check_choice("objective", objective, [name for name in OBJECTIVES if name not in _SIGNED])
        check_texts(reference=reference)
        if not isinstance(tardiness, (int, float)) or not 0.0 <= tardiness < math.inf:
            raise OptionsError(f"tardiness is {tardiness!r}, expected a number, at least 0")
        self.reference = read_policy(reference)
        if self.reference == STATIC:
            raise OptionsError(f"reference is {reference!r}, which follows a plan of each set; expected another policy")
        super().__init__(
            num_envs,
            len(NAMES),
            LARGEST_WEIGHT,
            n_windows=n_windows,
            start=start,
            autoreset_mode=autoreset_mode,
            render_mode=render_mode,
        )
        self.machine = machine_of(machine)
        self.indexed = IndexedLoads(self.machine, read_loads(load, self.machine))
        self.objective, self._tardiness = objective, float(tardiness)
        self._n_threads = usable_cores() if n_threads is None else checked_count("n_threads", n_threads)
        length = 0 if n_jobs == "all" else checked_count("n_jobs", n_jobs)
        self._sets = [
            one for number, each in enumerate(self.indexed.loads) for one in _sets_of(each, number, length, part)
        ]

    def draw(self, draw: tuple[int, int]) -> list[Window]:
        """Return the windows of an episode."""
        seed, number = draw
        random = stream(seed, f"windows of sets, {number}")
        order = np.concatenate(
            [random.permutation(len(self._sets)) for _ in range(-(-self.n_windows // len(self._sets)))]
        )[: self.n_windows]
        return [
            Window(load, int(random.integers(first, end - length + 1)), length)
            for load, first, end, length in (self._sets[position] for position in order.tolist())
        ]

    def judge(self, offsets: Floats, draw: tuple[int, int]) -> tuple[Floats, Mapping[str, Floats]]:
        """Judge candidates by windows of sets: see `IndexVectorEnv.judge`."""
        windows, rule = self.draw(draw), RULES[self.reference]
        weights = np.array([rule.weights]) if rule.weights else None
        reference = self.indexed.run(windows, rule.codes, weights, n_threads=self._n_threads).mean(axis=2)
        means = self.indexed.run(windows, INDEX_CODES, weights_of(offsets), n_threads=self._n_threads).mean(axis=2)
        ratios = means / np.maximum(reference, SMALLEST_REFERENCE)
        number = OBJECTIVES[self.objective]
        rewards = -ratios[number]
        if self._tardiness > 0.0:
            rewards = rewards - self._tardiness * ratios[OBJECTIVES["mean_tardiness_s"]]
        return rewards, {"objective": means[number], "ratio": ratios[number]}


def _sets_of(load: PipelineLoad, number: int, length: int, part: Part) -> list[tuple[int, int, int, int]]:
    """Return the windows of a part of a load: the load, the first position, the one after the last, the length."""
    low, high = part_bounds(part, load.n_items, name=load.name)
    found = []
    for first, end in itertools.pairwise((*load.first_items, load.n_items)):
        if first >= low and end <= high:
            found.append((number, first, end, min(length or end - first, end - first)))
    if found:
        return found
    if length > high - low:
        raise OptionsError(f"n_jobs is {length}, but the part of {load.name} holds {high - low} instances and no set")
    return [(number, low, high, length or high - low)]


class PipelinesIndexEnv(IndexEnv):
    """One environment in which weights are judged: see `PipelinesIndexVectorEnv`."""

    batch: PipelinesIndexVectorEnv
    batch_class = PipelinesIndexVectorEnv


class PipelinesIndexPlayer(IndexPlayer):
    """One environment whose only action, weights, is simulated on a whole load as any policy is."""

    def __init__(self, *, machine: Units, load: PipelineLoad, objective: str = "miss_ratio") -> None:
        check_runs_on(load, machine)
        self.machine, self.load = machine, load
        super().__init__(len(NAMES), LARGEST_WEIGHT, self._simulated, lambda trace: compute_metrics(trace)[objective])

    def _simulated(self, offsets: NDArray[Any], seed: int) -> PipelineTrace:
        return simulate_rule(self.machine, self.load, "index", index_rule(weights_of(offsets)), seed=seed)
