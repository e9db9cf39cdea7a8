"""``hdrl/AdaptationIndex-v0``: weights of an index over the blocks of a network are the action, and jobs judge them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from hdrl.base.seeding import stream
from hdrl.envs.episodes import EpisodePlan, Part, Start, Window, plan_episodes
from hdrl.envs.index import Floats, IndexEnv, IndexPlayer, IndexVectorEnv
from hdrl.envs.requests import check_choice
from hdrl.settings.adaptation.env import OUTCOMES, Loads, check_loads, device_of, loads_of, worth_of
from hdrl.settings.adaptation.index import LARGEST_WEIGHT, NAMES, IndexedTables, start_weights, weights_of
from hdrl.settings.adaptation.load import Jobs
from hdrl.settings.adaptation.machine import Device
from hdrl.settings.adaptation.metrics import compute_metrics
from hdrl.settings.adaptation.policies import index_advisor
from hdrl.settings.adaptation.simulation import simulate
from hdrl.trace.model import OutcomeTrace

DEFAULT_N_JOBS = 128
DEFAULT_N_WINDOWS = 4

SMALLEST_REFERENCE = 1e-3
"""Smallest divisor for shares of wrong answers, used where the reference has none."""


class AdaptationIndexVectorEnv(IndexVectorEnv):
    """A batch of environments in which weights of an index over a network's blocks are judged by windows of jobs.

    **Description.** The action is an index that says at each decision which block is deepened, or that none is
    (`hdrl.settings.adaptation.index`). It decides about windows of jobs, all rows about the same ones.

    **Action space.** ``Box(-50, 50, (15,))``: by how much the weights differ from those by hand, those of the policy
    ``last-while-half``.

    **Observation space.** ``Box(0, 1, (1,))``: nothing is seen, 0.

    **Rewards.** Minus the share of wrong answers on the validation parts, divided by that of the weights by hand.

    **Episode end.** After the first action. ``info["results"]`` holds the mean validation accuracy (``objective``) and
    the quotient of the wrong answers (``ratio``).

    Parameters
    ----------
    machine, load, outcome
        See `hdrl.settings.adaptation.env.AdaptationVectorEnv`.
    n_jobs
        Jobs of a window; ``"all"``: a whole load.
    start, part
        Windows are drawn from this part of each load; ``start`` may be ``"random"`` alone.
    n_windows
        Number of windows that an episode draws.

    Raises
    ------
    HdrlError
        If an argument is wrong, or a load cannot be read.
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        machine: Device | str | None = None,
        load: Loads = None,
        n_jobs: int | str = DEFAULT_N_JOBS,
        start: Start = "random",
        part: Part = "all",
        n_windows: int = DEFAULT_N_WINDOWS,
        outcome: str = "drawn",
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: None = None,
    ) -> None:
        check_choice("outcome", outcome, OUTCOMES)
        super().__init__(
            num_envs,
            len(NAMES),
            LARGEST_WEIGHT,
            n_windows=n_windows,
            start=start,
            autoreset_mode=autoreset_mode,
            render_mode=render_mode,
        )
        self.loads = loads_of(load)
        self.machine = device_of(machine, self.loads[0])
        check_loads(self.loads, self.machine)
        sizes, names = [one.n_items for one in self.loads], [one.name for one in self.loads]
        how = "consecutive" if n_jobs == "all" else "random"
        self.plan: EpisodePlan = plan_episodes(sizes, n_jobs=n_jobs, start=how, part=part, names=names)
        tables = [table for one in self.loads for table in one.tables]
        self._indexed = IndexedTables(tables)
        self._worth = worth_of(tables, mean=outcome == "mean")
        self._offsets = np.cumsum([0] + [len(one.tables) for one in self.loads])

    def draw(self, draw: tuple[int, int]) -> list[Window]:
        """Return the windows of an episode, each of any load; whole loads in turn."""
        seed, number = draw
        bits = stream(seed, f"windows of jobs, {number}").integers(2**64, size=self.n_windows, dtype=np.uint64)
        return [self.plan.window(position, one) for position, one in enumerate(bits.tolist())]

    def judge(self, offsets: Floats, draw: tuple[int, int]) -> tuple[Floats, Mapping[str, Floats]]:
        """Judge candidates by windows: see `IndexVectorEnv.judge`."""
        tables, draws = self._jobs(self.draw(draw))
        sequences = self._indexed.sequences(np.array([start_weights(), *weights_of(offsets)]))
        reference, *values = [self._worth[tables, one[tables], draws].mean() for one in sequences]
        objective = np.array(values)
        ratios = (1.0 - objective) / max(1.0 - float(reference), SMALLEST_REFERENCE)
        return -ratios, {"objective": objective, "ratio": ratios}

    def _jobs(self, windows: list[Window]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the tables and the trainings of the jobs of windows."""
        cut = [(one.workload, slice(one.start, one.start + one.n_jobs)) for one in windows]
        tables = [self.loads[number].table[part] + self._offsets[number] for number, part in cut]
        return np.concatenate(tables), np.concatenate([self.loads[number].draw[part] for number, part in cut])


class AdaptationIndexEnv(IndexEnv):
    """One environment in which weights are judged: see `AdaptationIndexVectorEnv`."""

    batch: AdaptationIndexVectorEnv
    batch_class = AdaptationIndexVectorEnv


class AdaptationIndexPlayer(IndexPlayer):
    """One environment whose only action, weights, decides about a whole load as any policy does."""

    def __init__(self, *, machine: Device, load: Jobs) -> None:
        self.machine, self.load = machine, load
        super().__init__(
            len(NAMES),
            LARGEST_WEIGHT,
            self._simulated,
            lambda trace: compute_metrics(trace)["mean_validation_accuracy"],
        )

    def _simulated(self, offsets: NDArray[Any], seed: int) -> OutcomeTrace:
        del seed
        return simulate(self.machine, self.load, index_advisor(weights_of(offsets)))
