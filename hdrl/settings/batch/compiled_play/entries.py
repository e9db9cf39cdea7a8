"""The face of playing in compiled code: the function that Python calls."""

from __future__ import annotations

from collections.abc import Callable

from hdrl.compiled.borrow import take_as
from hdrl.compiled.cache import compile_once
from hdrl.compiled.jit import jit
from hdrl.compiled.lend import Lent, Places
from hdrl.settings.batch.compiled_play import rules
from hdrl.settings.batch.compiled_play.jit import CACHE_FOLDER, entry
from hdrl.settings.batch.compiled_play.network import best_action, lay_out, note_hold
from hdrl.settings.batch.compiled_play.rules import show, write_legal
from hdrl.settings.batch.compiled_play.state import Play, small_play
from hdrl.settings.batch.identical_cores.observe import forget_shown


@jit
def _note(play, action):
    s = play.pick.scalars[0]
    play.pick.actions[s.n_actions] = action
    s.n_actions += 1
    play.kernel.scalars[0].n_decisions += 1


@jit
def _act(play, action, stage):
    """Carry out an action; return whether more may be decided at this date."""
    max_jobs = play.pool.settings[0].max_jobs
    play.pick.scalars[0].is_judged = 0
    if action == max_jobs * (1 + play.pool.settings[0].may_hold):
        return False
    if action >= max_jobs:
        rules.hold(play, action - max_jobs)
        note_hold(play.pick)
    else:
        rules.pick(play, action, stage)
    return True


@jit
def _decide(play):
    """Make all decisions of one date."""
    if play.pick.scalars[0].date == 0:
        forget_shown(play.pool)
        lay_out(play.pick)
    rules.see(play)
    while play.pool.scalars[0].n_waiting > 0:
        stage = rules.next_stage(play)
        if stage == rules.WAIT:
            break
        if play.pick.scalars[0].is_judged == 0:
            show(play)
        if not write_legal(play, stage):
            break
        action = best_action(play)
        _note(play, action)
        if not _act(play, action, stage):
            break


_taken = take_as(small_play)


@entry
def _call(places: Places) -> None:
    _decide(_taken(places))


def decide(lent: Lent[Play]) -> None:
    """Make all decisions of one date, of which the kernel has just told, and write them into its answer.

    Parameters
    ----------
    lent
        The arrays; `compiled_play.state` makes them.
    """
    _call(lent.places)


def warm_up(message: Callable[[str], None] | None = None) -> None:
    """Compile what plays models if it has never been compiled here; later processes load it from the cache.

    Parameters
    ----------
    message
        Told what is going on before anything takes long; ``None``: whoever listens to what is compiled.
    """
    text = "compiling what plays models of JobPick (the first time only, about ten seconds)"
    compile_once(CACHE_FOLDER, "compiled", text, _decide_once, message)


def _decide_once() -> None:
    """Decide about nothing: no job waits at date 0."""
    play = Lent(small_play())  # its arrays must outlive the call
    decide(play)
