"""Python entries of compiled play: all decisions of a date by a network, or one action after the other."""

from __future__ import annotations

from collections.abc import Callable

from hdrl.compiled.borrow import take_as
from hdrl.compiled.borrowed import Addresses, Borrowed
from hdrl.compiled.cache import compile_once
from hdrl.compiled.codes import UNKNOWN_CODE, CodeTable
from hdrl.compiled.jit import jit
from hdrl.settings.batch.compiled_play import rules
from hdrl.settings.batch.compiled_play.jit import CACHE_FOLDER, entry
from hdrl.settings.batch.compiled_play.network import best_action, lay_out, note_hold
from hdrl.settings.batch.compiled_play.rules import show as write_shown
from hdrl.settings.batch.compiled_play.rules import write_legal
from hdrl.settings.batch.compiled_play.state import Play, small_play
from hdrl.settings.batch.identical_cores.observe import invalidate_observation

DECIDE, SEE, ACT, SHOW = REQUESTS = CodeTable("request", range(4))


@jit
def _see(play):
    """Take in what the message says; return the stage of the choice that is due, `rules.WAIT` if none is."""
    if play.pick.scalars[0].date == 0:
        invalidate_observation(play.pool)
        lay_out(play.pick)
    rules.see(play)
    return _to_choice(play)


@jit
def _to_choice(play):
    """Start the committed jobs, show the remaining ones, and return the stage of the choice that is due."""
    if play.pool.scalars[0].n_waiting == 0:
        return rules.WAIT
    stage = rules.next_stage(play)
    if stage == rules.WAIT:
        return rules.WAIT
    if play.pick.scalars[0].is_judged == 0:
        write_shown(play)
    return stage if write_legal(play, stage) else rules.WAIT


@jit
def _act(play, action, stage):
    """Carry out an action; return the stage of the choice that is due at the same date."""
    s, max_jobs = play.pick.scalars[0], play.pool.settings[0].max_jobs
    play.pick.actions[s.n_actions] = action
    s.n_actions += 1
    play.kernel.scalars[0].n_decisions += 1
    s.is_judged = 0
    if action == max_jobs * (1 + play.pool.settings[0].may_hold):
        return rules.WAIT
    if action >= max_jobs:
        rules.hold(play, action - max_jobs)
        note_hold(play.pick)
    else:
        rules.pick(play, action, stage)
    return _to_choice(play)


@jit
def _decide(play):
    """Make all decisions of one date as the network finds best; return `rules.WAIT`."""
    stage = _see(play)
    while stage != rules.WAIT:
        stage = _act(play, best_action(play), stage)
    return stage


@jit
def _serve(play):
    """Carry out the request of the scalars; return the stage that it leads to, `UNKNOWN_CODE` for no known request."""
    s = play.pick.scalars[0]
    if s.request == DECIDE:
        s.stage = _decide(play)
    elif s.request == SEE:
        s.stage = _see(play)
    elif s.request == ACT:
        s.stage = _act(play, s.action, s.stage)
    elif s.request == SHOW:
        write_shown(play)
    else:
        return UNKNOWN_CODE
    return s.stage


_taken = take_as(small_play)


@entry
def _call(addresses: Addresses) -> int:
    return _serve(_taken(addresses))


def _run_request(borrowed: Borrowed[Play], request: int) -> int:
    borrowed.arrays.pick.scalars["request"] = request
    return _call(borrowed.addresses)


def decide(borrowed: Borrowed[Play]) -> None:
    """Make all decisions of one date, at which a message has arrived, and write them into the kernel's answer."""
    _run_request(borrowed, DECIDE)


def see(borrowed: Borrowed[Play]) -> int:
    """Take in a message of the kernel; return the stage of the choice that is due, `rules.WAIT` if none is."""
    return _run_request(borrowed, SEE)


def act(borrowed: Borrowed[Play], action: int) -> int:
    """Carry out a legal action at the stage that was returned last; return the next stage at the same date."""
    borrowed.arrays.pick.scalars["action"] = action
    return _run_request(borrowed, ACT)


def show(borrowed: Borrowed[Play]) -> None:
    """Write the present observation, whether a choice is due or not."""
    _run_request(borrowed, SHOW)


def warm_up(message: Callable[[str], None] | None = None) -> None:
    """Compile the code that plays models if it has never been compiled here; later processes load it from the cache."""
    text = "compiling what plays models of JobPick (the first time only, about ten seconds)"
    compile_once(CACHE_FOLDER, "compiled", text, _decide_once, message)


def _decide_once() -> None:
    """Decide about nothing: no job waits at date 0."""
    play = Borrowed(small_play())  # its arrays must outlive the call
    decide(play)
