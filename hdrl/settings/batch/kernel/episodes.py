"""Episodes: a whole batch of environments goes on to its next decisions in one compiled call.

An agent chooses a policy pair, or nothing (void), at each *decision point*: a message that says that jobs came or
ended, while jobs wait. An episode is the flow of decisions from one point to the next, until all jobs have ended.

Void waits for the next submission or end of a job. Where neither can come any more (no job runs and none is to be
submitted), void is not legal. In HDeepRM's mode the agent decides again at once after a void when no more jobs come,
and void is not legal after `MAX_VOIDS` of them in a row (HDeepRM ends with an error about then); should it be chosen
all the same, the first pair is carried out in its place.

An episode begins with the machine of date 0 and the jobs of a window. Episodes begin often, in many environments at
once. What they begin with is kept once, the machine in a state at date 0 and the jobs in an *origin*, and copied by
compiled code, by the threads that share the environments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled.codes import CodeTable
from hdrl.compiled.counts import NO_ACTION
from hdrl.compiled.fields import Role, own, repeated, restoring
from hdrl.compiled.jit import jit
from hdrl.compiled.records import record_dtype
from hdrl.compiled.rows import copy_rows
from hdrl.compiled.serving import RESET, STEP, serving
from hdrl.settings.batch.kernel import codes, decide, engine, observe, reward
from hdrl.settings.batch.kernel.cluster import add_pstate_ops
from hdrl.settings.batch.kernel.codes import refuse_code
from hdrl.settings.batch.kernel.jit import entry
from hdrl.settings.batch.kernel.observe import Watch, new_watches
from hdrl.settings.batch.kernel.state import BatchState, small_state

WINDOW_DTYPE = record_dtype([("section", np.int64), ("start", np.int64), ("n_jobs", np.int64), ("is_shifted", np.int8)])
"""Jobs with which an environment begins.

They are ``n_jobs`` rows of `Origin` from ``start`` on, counted from where their ``section`` begins; ``is_shifted``:
the first one is to be submitted at date 0.
"""


class Origin(NamedTuple):
    """The jobs that environments begin with; none of it changes but for ``windows``.

    A section holds the jobs of a workload; ranks, and jobs by rank, are counted from where it begins.
    """

    jobs: NDArray[np.void]  # (n,) JOB_STATE_DTYPE, at date 0
    sources: NDArray[np.int64]  # (n,) the source of each job
    ranks: NDArray[np.int64]  # (n,) its position in Batsim's order of submission
    by_rank: NDArray[np.int64]  # (n,) the jobs in that order
    windows: NDArray[np.void]  # (n_environments,) WINDOW_DTYPE


class Section(NamedTuple):
    """The jobs of a workload, in an order in which windows are cut out of it."""

    jobs: NDArray[np.void]  # rows of `kernel.state.JOB_STATE_DTYPE` at date 0
    sources: NDArray[np.int64]  # the source of each
    by_rank: NDArray[np.int64]  # the jobs in Batsim's order of submission


def new_origin(sections: Sequence[Section], n_environments: int) -> Origin:
    """Return the jobs that environments begin with; the windows are still to be chosen."""
    return Origin(
        jobs=np.concatenate([one.jobs for one in sections]),
        sources=np.concatenate([one.sources for one in sections]).astype(np.int64),
        ranks=np.concatenate([np.argsort(one.by_rank) for one in sections]),
        by_rank=np.concatenate([one.by_rank for one in sections]).astype(np.int64),
        windows=np.zeros(n_environments, dtype=WINDOW_DTYPE),
    )


_restore = restoring(BatchState)
"""Bring the machine back to date 0: ``_restore(state, beginning)``."""


@jit
def _take_jobs(state, origin, window):
    """Take the jobs of a window."""
    copy_rows(state.jobs, origin.jobs, window.section + window.start, window.n_jobs)
    first_submit_s = np.inf
    for job in range(window.n_jobs):
        first_submit_s = min(first_submit_s, state.jobs[job].submit_s)
    shift_s = first_submit_s if window.is_shifted == 1 else 0.0
    for job in range(window.n_jobs):
        state.jobs[job].submit_s -= shift_s
    state.scalars[0].first_submit_s = first_submit_s - shift_s


@jit
def _assign_to_submitters(state, origin, window):
    """Let each submitter submit the jobs of its source, in Batsim's order."""
    first, n_jobs = window.section + window.start, window.n_jobs
    for submitter in range(len(state.submitters)):
        state.submitters[submitter].end = 0
    lowest, highest = origin.ranks[first], origin.ranks[first]
    for job in range(n_jobs):
        state.submitters[origin.sources[first + job]].end += 1
        lowest, highest = min(lowest, origin.ranks[first + job]), max(highest, origin.ranks[first + job])
    n_before = 0
    for submitter in range(len(state.submitters)):
        row = state.submitters[submitter]
        row.next = row.batch = n_before
        n_before += row.end
        row.end = n_before
        row.woke_s = 0.0
        row.phase = 0
    for rank in range(lowest, highest + 1):
        job = origin.by_rank[window.section + rank] - window.start
        if 0 <= job < n_jobs:  # others share a date with the first or the last job of the window
            row = state.submitters[origin.sources[first + job]]
            state.order[row.batch] = job
            row.batch += 1
    for submitter in range(len(state.submitters)):
        state.submitters[submitter].batch = state.submitters[submitter].next


@jit
def bring_back(state, beginning, origin, environment):
    """Bring one environment of a batch back to date 0: the machine of a state, and the jobs of its window."""
    window = origin.windows[environment]
    _restore(state, beginning)
    _take_jobs(state, origin, window)
    _assign_to_submitters(state, origin, window)


REQUESTS = CodeTable("request", range(5))
"""Requests to `SERVED`.

`RESUME` goes on after the logs of an environment have been enlarged. `SHOW` and `START` are for jobs that run in a
simulator outside: they show the decision that is due there, and start jobs by an action.
"""

RESUME, SHOW, START = REQUESTS[2:]

MAX_VOIDS = 10_000
"""Largest number of voids in a row in HDeepRM's mode, in which the agent decides again at once."""

_BUDGET = 1 << 30


@jit
def _void_is_legal(state, watch):
    s = state.scalars[0]
    w = watch.rows[0]
    if s.compatible == 1:
        return w.n_voids < MAX_VOIDS
    return s.n_expected > 0 or s.n_submitted < w.n_jobs


@jit
def _take_in(state, watch):
    """Process the effects of the last answer and the news of the message, before the decision system takes it in."""
    s = state.scalars[0]
    reward.count_starts_of_answer(state, watch)
    n_queue = s.n_queue
    for i in range(s.n_events):
        event = state.events[i]
        if event.kind == codes.EVENT_SUBMITTED:
            observe.add_arrival(state, watch, event.subject, n_queue)
            n_queue += 1
            reward.count_submission(state, watch, event.subject)
        elif event.kind == codes.EVENT_COMPLETED:
            reward.count_end(state, watch, event.subject)


@jit
def _add_present_reward(state, watch):
    """Pay the last action by the present moment, once."""
    w = watch.rows[0]
    if w.acted == 1:
        w.acted = 0
        if w.instantaneous == reward.PRESENT:
            reward.add_present_reward(state, watch)
        elif w.instantaneous == reward.PRESENT_0_1:
            reward.add_present_reward_0_1(state, watch)


@jit
def _decides_again(state, watch):
    """Tell whether HDeepRM would ask without any news: after a void, when no more jobs come."""
    s = state.scalars[0]
    return s.compatible == 1 and s.no_more_jobs == 1 and watch.rows[0].n_voids > 0 and s.n_queue > 0


@jit
def _go_on(state, watch, is_answered):
    """Answer, and simulate until a decision is due; return ``MESSAGE`` then, or what the simulation stopped for."""
    while True:
        if not is_answered:
            decide.answer(state)
        is_answered = True
        status = engine.advance(state, _BUDGET)
        if status == codes.PAUSED:
            continue
        if status != codes.MESSAGE:
            return status
        _take_in(state, watch)
        due = decide.take_events(state)
        if state.scalars[0].ended == 0:
            _add_present_reward(state, watch)
        is_answered = False
        if due and state.scalars[0].news == codes.NEWS_OF_NODES and watch.rows[0].last_action >= 0:
            # The last decision holds for what it has booted.
            _start_jobs(state, watch, watch.rows[0].last_action)
        elif due or _decides_again(state, watch):
            return codes.MESSAGE


@jit
def _start_jobs(state, watch, action):
    """Start jobs by the policy pair of an action."""
    s = state.scalars[0]
    first_op, n_queue = s.n_ops, s.n_queue
    if watch.pairs[action, 3] >= 0:
        s.node_rule, s.n_wanted_on = codes.NODES_BY_NUMBER, watch.pairs[action, 3]
        s.sleep_state = watch.pairs[action, 4]
    elif watch.off_after_s[action] < np.inf:
        s.node_rule, s.off_after_s = codes.NODES_BY_TIMEOUT, watch.off_after_s[action]
        s.sleep_state = watch.pairs[action, 4]
    decide.schedule(state, watch.pairs[action, 0], watch.pairs[action, 1], watch.pairs[action, 2])
    for i in range(first_op, s.n_ops):
        if state.ops[i].kind == codes.EXECUTE:
            observe.remove_departure(state, watch, state.ops[i].subject, n_queue)
            n_queue -= 1


@jit
def _carry_out(state, watch, action):
    """Carry out an action at a decision point; return whether the agent decides again at once."""
    s = state.scalars[0]
    w = watch.rows[0]
    if action == w.void_action and not _void_is_legal(state, watch):
        action = 0
    if w.n_actions < len(watch.history):
        watch.history[w.n_actions] = action
    w.n_actions += 1
    w.acted = 1
    w.last_action = -1 if action == w.void_action else action
    if action != w.void_action:
        w.n_voids = 0
        _start_jobs(state, watch, action)
        return False
    s.n_decisions += 1
    s.news = codes.NO_NEWS
    w.n_voids += 1
    if not _decides_again(state, watch):
        return False
    add_pstate_ops(state)
    _add_present_reward(state, watch)
    return True


@jit
def _begin(state, watch):
    w = watch.rows[0]
    reward.forget(watch)
    w.n_actions = w.n_voids = w.n_queue_seen = 0
    w.acted = w.has_shown = 0
    w.last_action = -1
    engine.begin(state)
    if w.detail not in observe.DETAILS:
        refuse_code(state, w.detail)
    elif w.objective not in reward.OBJECTIVES:
        refuse_code(state, w.objective)
    elif w.instantaneous not in reward.PAYMENTS:
        refuse_code(state, w.instantaneous)


@jit
def _play(state, watch, request, action):
    """Bring one row to its next decision point, or to its end."""
    w = watch.rows[0]
    w.reward = 0.0
    w.status = codes.MESSAGE
    if request == RESET:
        _begin(state, watch)
    if request != STEP or not _carry_out(state, watch, action):
        w.status = _go_on(state, watch, request != STEP)
    # What there was before the first decision is paid with it: the rewards then add up to the objective.
    if request == STEP and w.instantaneous == reward.GROWTH:
        reward.add_growth_reward(state, watch, w.status == codes.ENDED)


class EpisodeArrays(NamedTuple):
    """The arrays of a batch: machines and jobs, what accompanies them, and what they begin with."""

    state: BatchState
    watch: Watch
    beginning: Annotated[BatchState, Role.SHARED]  # the machine at date 0, of one environment
    origin: Annotated[Origin, Role.SHARED]  # the jobs
    # Every objective so far, in the order of their numbers: of episodes that end, or of all if the objective is the
    # user's own
    objectives: Annotated[NDArray[np.float64], own(np.float64, "n_objectives", is_output=True)]
    observations: Annotated[NDArray[np.float32], own(np.float32, "n_values", is_output=True)]


@jit
def _write_mask(state, watch, mask, ended):
    """Write the legal actions; after the end, action 0 alone."""
    for action in range(len(mask)):
        mask[action] = 0 if ended and action > 0 else 1
    void_action = watch.rows[0].void_action
    if void_action > 0 and not ended and not _void_is_legal(state, watch):
        mask[void_action] = 0


@jit
def _serve_row(batch, counts, request, row, numbers, results):  # noqa: ARG001
    """Bring an environment, which is a row of its batch, to its next decision point, or to its end."""
    state, watch = batch.state, batch.watch
    if request == START:
        _carry_out(state, watch, counts.actions[row])
        return
    if request == SHOW:
        watch.rows[0].status = codes.MESSAGE
        observe.rebuild_attributes(state, watch)
    else:
        if request == RESET:
            bring_back(state, batch.beginning, batch.origin, row)
        _play(state, watch, request, counts.actions[row])
    ended = watch.rows[0].status != codes.MESSAGE
    _write_mask(state, watch, counts.masks[row], ended)
    observe.write_observation(state, watch, batch.observations)
    if ended or watch.rows[0].objective == reward.OWN:
        for objective in range(len(batch.objectives)):
            batch.objectives[objective] = reward.objective_so_far(state, watch, objective, ended)
    if request != RESET:  # in the step in which an episode ends and the next begins, the reward stays
        counts.rewards[row], counts.terminations[row] = watch.rows[0].reward, ended


@jit
def _is_valid_request(batch, request, numbers):  # noqa: ARG001 - the state refuses what it does not know
    """Return whether a request is known."""
    return request in REQUESTS


@jit
def _tolerated(batch):
    """Return that void counts as action 0 in HDeepRM's mode where it is not legal: agents without masks choose it."""
    is_compatible = batch.state.scalars[0, 0].compatible == 1
    return batch.watch.rows[0, 0].void_action if is_compatible else NO_ACTION


def small_episodes() -> EpisodeArrays:
    """Return a batch of one environment with one job; its arrays are of the types of all batches'."""
    state = small_state()
    origin = new_origin([Section(state.jobs, np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))], 1)
    empty = np.zeros((1, 0))
    watches = new_watches(1, 1, 1, 1)
    return EpisodeArrays(repeated(state, 1), watches, state, origin, empty, empty.astype(np.float32))


SERVED = serving(
    entry,
    EpisodeArrays,
    small_episodes,
    serve_row=_serve_row,
    is_valid=_is_valid_request,
    requests=REQUESTS,
    module=__name__,
    tolerated=_tolerated,
)
"""Batches of environments, whose rows go on to their next decision points, or to their ends."""


def first_stopped_row(batch: EpisodeArrays, chosen: NDArray[np.bool_]) -> int | None:
    """Return the first chosen row that is neither at a decision nor at its end, if there is one."""
    status = batch.watch.rows["status"][:, 0]
    stopped = np.flatnonzero(chosen & (status != codes.MESSAGE) & (status != codes.ENDED))
    return int(stopped[0]) if len(stopped) else None
