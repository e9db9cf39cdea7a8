"""The Trace of an episode: it is simulated again, by the actions that were taken, with all logs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import SimulationError
from hdrl.compiled.counts import new_counts
from hdrl.compiled.fields import alone, copied
from hdrl.compiled.lend import Lent
from hdrl.compiled.serving import RESET, STEP
from hdrl.compiled.team import new_team
from hdrl.envs.episodes import Window
from hdrl.settings.batch.envs.policy_pair_rows import JobTable
from hdrl.settings.batch.kernel import codes, episodes
from hdrl.settings.batch.kernel.episodes import Episodes
from hdrl.settings.batch.kernel.observe import MINIMAL, N_QUEUE_VALUES, N_SUMS, Watch
from hdrl.settings.batch.kernel.rule import NO_RULE, Rule
from hdrl.settings.batch.kernel.state import State
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.simulation.answer import grown_for, with_room_for_decisions
from hdrl.settings.batch.simulation.collect import collect_trace
from hdrl.settings.batch.simulation.embedded import first_state
from hdrl.settings.batch.simulation.trace import Trace
from hdrl.settings.batch.simulators import HDEEPRM
from hdrl.settings.batch.workload.model import Workload


class _Replay:
    """One environment with logs, stepped as a batch of one row."""

    def __init__(self, platform: Platform, workload: Workload, state: State, watch: Watch, n_actions: int) -> None:
        self.platform, self.workload, self.state, self.watch = platform, workload, state, watch
        jobs = JobTable(platform, [workload])
        origin = jobs.origin(1)
        jobs.choose(origin, 0, Window(0, 0, workload.n_jobs))
        observations = np.zeros((1, N_QUEUE_VALUES), dtype=np.float32)
        self._lent = Lent(Episodes(alone(state), watch, copied(state), origin, np.zeros((1, 1)), observations))
        counts = new_counts(1, n_actions)
        counts.masks[:] = 1  # the actions were legal
        self._counts = Lent(counts)

    def play(self, request: int, action: int) -> None:
        """Carry out one request, enlarging the logs as often as it takes."""
        self._go_on_with(with_room_for_decisions(self.state, self.platform, self.workload))
        one = np.ones(1, dtype=np.bool_)
        if request == RESET:
            episodes.SERVED.reset(self._lent, new_team(1), one, self._counts)
        else:
            episodes.SERVED.step(self._lent, self._counts, new_team(1), one, np.array([action]))
        while int(self.watch.rows["status"][0, 0]) == codes.GROW:
            self._go_on_with(grown_for(self.state, self.platform, self.workload))
            episodes.SERVED.ask(self._lent, episodes.RESUME, one, counts=self._counts)

    def _go_on_with(self, state: State) -> None:
        if state is not self.state:
            self.state, self._lent = state, Lent(self._lent.arrays._replace(state=alone(state)))


def replay(
    platform: Platform,
    workload: Workload,
    actions: NDArray[np.int16],
    watches: Watch,
    row: int,
    *,
    seed: int,
    energy: bool,
    compatibility: str | None,
) -> Trace:
    """Return the Trace of an episode.

    Raises
    ------
    SimulationError
        If the episode took more actions than are kept.
    """
    n_kept = watches.history.shape[1]
    if len(actions) > n_kept:
        raise SimulationError(f"row {row}: the episode took {len(actions)} actions, of which {n_kept} are kept")
    switches = np.any(watches.pairs[:, 3] >= 0) or np.any(watches.off_after_s < np.inf)
    rule = Rule(node_rule=codes.NODES_BY_NUMBER) if switches else NO_RULE
    state = first_state(platform, workload, seed=seed, energy=energy, compatibility=compatibility, rule=rule)
    state.scalars["decides_idle"] = rule != NO_RULE
    if compatibility == HDEEPRM:
        state = state._replace(pool=np.zeros(len(state.pool) + platform.n_cores, dtype=np.int32))
    rows = watches.rows[row : row + 1].copy()
    rows["detail"] = MINIMAL
    rows["n_jobs"] = workload.n_jobs
    watch = watches._replace(
        rows=rows,
        ordered=np.zeros((1, watches.ordered.shape[1], workload.n_jobs)),
        history=np.zeros((1, n_kept), dtype=np.int16),
        sums=np.zeros((1, N_SUMS)),
    )
    again = _Replay(platform, workload, state, watch, len(watches.pairs) + 1)
    again.play(RESET, 0)
    for action in actions.tolist():
        again.play(STEP, action)
    return collect_trace(platform, workload, again.state, compatibility)
