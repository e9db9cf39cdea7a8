"""Episodes: a whole batch of environments goes on to its next decisions in one compiled call.

An agent chooses a policy pair, or nothing (void), at each *decision point*: a message that says that jobs came or
ended, while jobs wait. An episode is the flow of decisions from one point to the next, until all jobs have ended.

Void waits for the next submission or end of a job. Where neither can come any more (no job runs and none is to be
submitted), void is not legal. In HDeepRM's mode the agent is asked again at once after a void when no more jobs come,
and void is not legal after `MAX_VOIDS` of them in a row (HDeepRM ends with an error about then); should it be chosen
all the same, the first pair is carried out in its place.
"""

from __future__ import annotations

import numpy as np

from hdrl.compiled.borrow import borrow
from hdrl.compiled.codes import CodeTable
from hdrl.compiled.counts import ALL_LEGAL, NO_ACTION, counts_at, keep_count, take_actions
from hdrl.compiled.fields import first_row_of, repeated
from hdrl.compiled.jit import jit
from hdrl.compiled.lend import take_as
from hdrl.compiled.rows import moved_to
from hdrl.compiled.team import LEADER, enter_round, leave_round, request_of, take_row
from hdrl.settings.batch.kernel import codes, decide, engine, observe, reward
from hdrl.settings.batch.kernel.cluster import add_pstate_ops
from hdrl.settings.batch.kernel.jit import entry
from hdrl.settings.batch.kernel.observe import Watch, new_watches
from hdrl.settings.batch.kernel.origin import Origin, Section, bring_back, new_origin
from hdrl.settings.batch.kernel.refusal import refuse_code
from hdrl.settings.batch.kernel.state import State, small_state

BEGIN, STEP, RESUME = REQUESTS = CodeTable("request", range(3))
"""What a call does with a row: begin its episode anew, carry out an action, go on after its logs have been enlarged."""

MAX_VOIDS = 10_000
"""How often in a row HDeepRM's mode takes void when it is asked again at once."""

_BUDGET = 1 << 30


@jit
def _void_is_legal(state, watch):
    s = state.scalars[0]
    w = watch.rows[0]
    if s.compatible == 1:
        return w.n_voids < MAX_VOIDS
    return s.n_running > 0 or s.n_submitted < w.n_jobs


@jit
def _take_in(state, watch):
    """Follow what the last answer did and what the message tells, before the decision system hears it."""
    s = state.scalars[0]
    reward.count_starts_of_answer(state, watch)
    n_queue = s.n_queue
    for i in range(s.n_events):
        event = state.events[i]
        if event.kind == codes.TOLD_SUBMITTED:
            observe.see_arrival(state, watch, event.subject, n_queue)
            n_queue += 1
            reward.count_submission(state, watch, event.subject)
        elif event.kind == codes.TOLD_COMPLETED:
            reward.count_end(state, watch, event.subject)


@jit
def _pay_present(state, watch):
    """Pay the last action by the present moment, once."""
    w = watch.rows[0]
    if w.acted == 1:
        w.acted = 0
        if w.instantaneous == reward.PRESENT:
            reward.pay_present(state, watch)
        elif w.instantaneous == reward.PRESENT_0_1:
            reward.pay_present_0_1(state, watch)


@jit
def _is_asked_again(state, watch):
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
        due = decide.hear(state)
        if state.scalars[0].ended == 0:
            _pay_present(state, watch)
        is_answered = False
        if due and state.scalars[0].news == codes.NEWS_OF_NODES and watch.rows[0].last_action >= 0:
            # The last decision holds for what it has booted.
            _start_jobs(state, watch, watch.rows[0].last_action)
        elif due or _is_asked_again(state, watch):
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
            observe.see_departure(state, watch, state.ops[i].subject, n_queue)
            n_queue -= 1


@jit
def _carry_out(state, watch, action):
    """Carry out an action at a decision point; return whether the agent is asked again at once."""
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
    if not _is_asked_again(state, watch):
        return False
    add_pstate_ops(state)
    _pay_present(state, watch)
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
    if request == BEGIN:
        _begin(state, watch)
    if request != STEP or not _carry_out(state, watch, action):
        w.status = _go_on(state, watch, request != STEP)
    # What there was before the first decision is paid with it: the rewards then add up to the objective.
    if request == STEP and w.instantaneous == reward.GROWTH:
        reward.pay_growth(state, watch, w.status == codes.ENDED)


_first_state = first_row_of(State)
_first_watch = first_row_of(Watch)


@jit
def _write_mask(state, watch, masks, row, ended):
    """Write which actions are legal; after the end, action 0 alone."""
    for action in range(masks.shape[1]):
        masks[row, action] = 0 if ended and action > 0 else 1
    void_action = watch.rows[0].void_action
    if void_action > 0 and not ended and not _void_is_legal(state, watch):
        masks[row, void_action] = 0


@jit
def _play_row(state, watch, request, row, action, observations, masks, results):
    """Bring a row to its next decision point, or to its end; return the reward and whether it has ended."""
    _play(state, watch, request, action)
    ended = watch.rows[0].status != codes.MESSAGE
    _write_mask(state, watch, masks, row, ended)
    observe.write_observation(state, watch, observations[row])
    if ended or watch.rows[0].objective == reward.OWN:
        for objective in range(results.shape[1]):
            results[row, objective] = reward.objective_so_far(state, watch, objective, ended)
    return watch.rows[0].reward, ended


@jit
def _play_rows(batch, watches, beginning, origin, counts, team, member, chosen, observations, results):
    """Bring chosen rows to their next decision points, or to their ends, as long as there are any to take."""
    request = request_of(team)
    state, watch = borrow(_first_state(batch)), borrow(_first_watch(watches))
    row = take_row(team, member)
    while row >= 0:
        if chosen[row]:
            state, watch = moved_to(state, batch, row), moved_to(watch, watches, row)
            if request == BEGIN:
                bring_back(state, beginning, origin, row)
            action = counts.actions[row]
            paid, ended = _play_row(state, watch, request, row, action, observations, counts.masks, results)
            if request != BEGIN:  # in the step in which an episode ends and the next begins, the reward stays
                counts.rewards[row], counts.terminations[row] = paid, ended
        row = take_row(team, member)


@jit
def _first_that_stopped(watches, chosen):
    """Return the first chosen row that is neither at a decision nor at its end, -1 if there is none."""
    for row in range(len(chosen)):
        status = watches.rows[row, 0].status
        if chosen[row] and status != codes.MESSAGE and status != codes.ENDED:
            return row
    return -1


def _small_origin() -> Origin:
    return new_origin([Section(small_state().jobs, np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))], 1)


_batch_at = take_as(lambda: repeated(small_state(), 1))
_watches_at = take_as(lambda: new_watches(1, 1, 1, 1))
_beginning_at = take_as(small_state)
_origin_at = take_as(_small_origin)


@entry
def play(batch, watches, beginning, origin, counts, team, request, member, chosen, given, observations, results):
    """Bring the chosen rows to their next decision points, or to their ends; or help who does so.

    Parameters
    ----------
    batch
        Places (`hdrl.compiled.lend.Lent`) of the arrays of `State` with a leading axis.
    watches
        Places of what accompanies them: `Watch`.
    beginning
        Places of the arrays of a `State` at date 0, of one environment: the machine that they begin with.
    origin
        Places of the jobs that they begin with: `kernel.origin.Origin`.
    counts
        Places of what is kept of the steps: `hdrl.compiled.counts.Counts`.
    team
        Who shares the rows, see `hdrl.compiled.team`.
    request
        ``BEGIN``, ``STEP`` or ``RESUME``; who helps does what who leads was asked for.
    member
        ``LEADER``, or the number of who helps.
    chosen
        Which of all rows.
    given
        What each row is to carry out, for ``STEP``; who helps looks at the counts instead.
    observations
        What is written, besides the counts: float32 ``(n_rows, n_values)``.
    results
        Every objective so far, in the order of their numbers, float64 ``(n_rows, n_objectives)``; of rows that end, or
        of all if the objective is the user's own.

    Returns
    -------
    tuple
        The first chosen row whose action is illegal (nothing has happened then), the first that could be brought to
        neither a decision nor its end, each -1 if there is none; and the number of episodes that a step has ended.

    Raises
    ------
    ValueError
        If the request is none of these.
    """
    if request not in REQUESTS:
        raise ValueError("the request is none of BEGIN, STEP and RESUME")
    lent, lent_watches = _batch_at(batch), _watches_at(watches)
    lent_beginning, lent_origin, lent_counts = _beginning_at(beginning), _origin_at(origin), counts_at(counts)
    leads_step = member == LEADER and request == STEP
    if leads_step:
        # In HDeepRM's mode void where it is not legal counts as action 0: agents without masks choose it.
        is_compatible = lent.scalars[0, 0].compatible == 1
        excused = lent_watches.rows[0, 0].void_action if is_compatible else NO_ACTION
        illegal = take_actions(lent_counts, chosen, given, excused)
        if illegal != ALL_LEGAL:
            return illegal, -1, 0
    is_on = enter_round(team, request, member)
    while is_on:
        _play_rows(
            lent, lent_watches, lent_beginning, lent_origin, lent_counts, team, member, chosen, observations, results
        )
        is_on = leave_round(team, member)
    n_ended = keep_count(lent_counts, chosen) if leads_step else 0
    return ALL_LEGAL, _first_that_stopped(lent_watches, chosen), n_ended
