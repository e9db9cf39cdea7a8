"""Compiling what plays models ahead of its first use."""

from __future__ import annotations

from collections.abc import Callable

from hdrl.compiled.cache import compile_once
from hdrl.compiled.lend import Lent
from hdrl.settings.batch.compiled_play.entries import decide
from hdrl.settings.batch.compiled_play.jit import CACHE_FOLDER
from hdrl.settings.batch.compiled_play.making import small_play


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
