"""The index of pipelines: names of its weights, where evolution begins, what it has found, and whole runs of it.

Its features are worked out in `hdrl.settings.pipelines.kernel.index`; here they have their names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdrl.base.errors import OptionsError
from hdrl.base.weights import bounded_weights, sparse_weights
from hdrl.compiled.borrowed import Borrowed
from hdrl.settings.pipelines.kernel import codes, entries, index
from hdrl.settings.pipelines.kernel.state import new_state, set_episode
from hdrl.settings.pipelines.loads.load import PipelineLoad, check_runs_on
from hdrl.settings.pipelines.machine import Units
from hdrl.settings.pipelines.simulation.tables import shared_tables

if TYPE_CHECKING:
    from hdrl.envs.episodes import Window

Floats = NDArray[np.float64]

NAMES: Mapping[str, str] = MappingProxyType(
    {
        "slack": "slack that is left if this is done and the rest on best units, in periods, from -1 to 1",
        "is_late": "1 if that is below 0",
        "is_doomed": "1 if no row of the kernel has slack: its instance is lost already",
        "time": "worst-case time of it on the unit, in periods",
        "backlog": "time until the unit is free, in periods",
        "after": "longest path that follows, on best units, in periods",
        "regret": "slack that the kernel's best row has more than this one, in periods, at most 2",
        "saved": "what fusing saves, as a share of the kernels one by one",
        "is_idle": "1 if the unit is idle",
        "other_kind": "from -1 (far slower than on the other kind) to 1 (far faster, or nowhere else)",
        "share_done": "share of the instance's kernels that are left which it does",
        "log_time": "logarithm of the time, in microseconds plus 1000, less 10",
        "log_due": "logarithm of the time to the deadline, in microseconds plus 1000, less 12",
        "share_left": "share of the pipeline's kernels that are left",
        "kills": "other instances that would be lost by taking the idle unit now, at most 3",
        "hopeless": "how far below 0 the slack of a doomed kernel is, in periods, at most 3",
        "future": "of the next 6 instances, those that would be late if they waited for the unit, taken now",
    }
)
"""The weights by name, in their order, and what each weighs."""

SIGMA = 0.4
"""Standard deviation of the first candidates of an evolution."""

LARGEST_WEIGHT = 50.0
"""Weights beyond it say nothing more."""

INDEX_CODES = (codes.BY_INDEX, codes.ON_INDEXED, codes.INDEXED)
"""Order, unit and fusion of the policy that follows an index."""


def start_weights() -> Floats:
    """Return the weights by hand: small regret and early deadlines first, what is lost last."""
    return sparse_weights(len(NAMES), _BY_HAND)


_BY_HAND = {
    index.REGRET: 2.0,
    index.LOG_DUE: 1.0,
    index.IS_DOOMED: 2.0,
    index.SAVED: -0.5,
    index.KILLS: 0.3,
    index.FUTURE: 0.1,
}


def weights_of(offsets: ArrayLike) -> Floats:
    """Return the weights that differ by offsets from those by hand, of one candidate or several."""
    return checked_weights(start_weights() + np.asarray(offsets, dtype=np.float64))


def checked_weights(weights: ArrayLike) -> Floats:
    """Return weights clipped to `LARGEST_WEIGHT`; raise OptionsError for another shape, or numbers not finite."""
    return bounded_weights(weights, len(NAMES), LARGEST_WEIGHT)


class IndexedLoads:
    """Loads in which whole episodes are run under candidates of an index, or a classic rule, in compiled code alone.

    Raise WorkloadError if a load can never run on the machine.
    """

    def __init__(self, machine: Units, loads: Sequence[PipelineLoad]) -> None:
        for load in loads:
            check_runs_on(load, machine)
        self.machine, self.loads = machine, tuple(loads)
        self._shared = shared_tables(machine, loads)
        self._firsts = np.cumsum([0, *(one.n_items for one in loads)])

    @property
    def whole(self) -> list[Window]:
        """All of each load."""
        from hdrl.envs.episodes import Window  # environments load Gymnasium, which classic runs do without

        return [Window(number, 0, load.n_items) for number, load in enumerate(self.loads)]

    def run(
        self,
        windows: Sequence[Window],
        rule: tuple[int, int, int],
        candidates: Floats | None = None,
        *,
        n_threads: int = 1,
    ) -> Floats:
        """Run windows of loads under a rule (order, unit and fusion, which need no plan).

        Candidates of an index have weights of shape ``(n_candidates, 17)``; without them there is one candidate. Return
        all objectives by number, shape ``(n_objectives, n_candidates, n_windows)``. Results do not depend on
        ``n_threads``.
        """
        weights = np.zeros((1, len(NAMES))) if candidates is None else candidates
        cut = [self.loads[one.workload].window(one.start, one.n_jobs) for one in windows]
        most_kernels = max(int(one.first_kernels[-1]) for one in cut)
        state = new_state(len(weights) * len(cut), max(one.n_jobs for one in windows), most_kernels, self._shared)
        shares = [load.shares() for load in cut]
        for row in range(len(state.scalars)):
            window = windows[row % len(cut)]
            first = int(self._firsts[window.workload]) + window.start
            set_episode(state, row, first, window.n_jobs, shares[row % len(cut)])
        state.weights[:] = np.repeat(weights, len(cut), axis=0)
        batch, rows = Borrowed(state), np.arange(len(state.scalars))
        results = np.zeros((codes.N_OBJECTIVES, len(rows)))

        def run_share(member: int) -> None:
            chosen = rows % n_threads == member
            results[:, chosen] = entries.run_policy(batch, rule, chosen)[:, chosen]

        if n_threads == 1:
            run_share(0)
        else:
            with ThreadPoolExecutor(n_threads) as pool:
                list(pool.map(run_share, range(n_threads)))
        return results.reshape(codes.N_OBJECTIVES, len(weights), len(cut))


def run_index(
    machine: Units,
    loads: Sequence[PipelineLoad],
    weights: ArrayLike,
    *,
    objective: int = codes.MISS_RATIO,
    n_threads: int = 1,
) -> Floats:
    """Run whole loads under candidates of an index, ``(n_candidates, 17)``, all in compiled code.

    Return the objective, shape ``(n_candidates, n_loads)``. Results do not depend on ``n_threads``.
    """
    indexed = IndexedLoads(machine, loads)
    candidates = np.atleast_2d(checked_weights(weights))
    found: Floats = indexed.run(indexed.whole, INDEX_CODES, candidates, n_threads=n_threads)[objective]
    return found


_SHIPPED = Path(__file__).parents[1] / "data"


@cache
def shipped_indices() -> tuple[str, ...]:
    """Return the names of the policies that evolution has found and hdrl ships."""
    return tuple(sorted(path.stem for path in _SHIPPED.glob("*.json")))


def shipped_weights(name: str) -> Floats:
    """Return the weights of a policy that is shipped."""
    return checked_weights(list(_data(name)["weights"].values()))


@cache
def _data(name: str) -> Any:
    data = json.loads((_SHIPPED / f"{name}.json").read_text(encoding="utf-8"))
    if list(data["weights"]) != list(NAMES):
        raise OptionsError(f"{name}: its weights are {', '.join(data['weights'])}, expected {', '.join(NAMES)}")
    return data
