"""A bar that moves while nothing is counted."""

import io
import threading

from rich.console import Console
from rich.progress import TextColumn

from hdrl.launcher.bars import StageBar


def test_it_never_stands_at_none_of_how_many() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100)
    with StageBar(console, TextColumn("{task.fields[numbers]}")) as bar:
        bar._bar.refresh()
        before = out.getvalue()
        bar.show("jobs", 3, 12)
        bar._bar.refresh()
        bar.show("iterations", 1, 2, numbers="loss 0.5")
    assert "preparing" in before
    assert "/?" not in out.getvalue()
    for text in ("3/12", "iterations", "1/2", "loss 0.5"):
        assert text in out.getvalue()
    assert all(task.started for task in bar._bar.tasks), "it moves, and the clock runs"


def test_it_shows_nothing_where_nobody_looks() -> None:
    out = io.StringIO()
    with StageBar(Console(file=out)) as bar:
        bar.show("jobs", 1, 1)
    assert out.getvalue() == ""


def test_while_it_is_paused_there_is_no_other_thread() -> None:
    out = io.StringIO()
    n_before = threading.active_count()
    with StageBar(Console(file=out, force_terminal=True, width=100)) as bar:
        assert threading.active_count() == n_before + 1
        with bar.paused():
            assert threading.active_count() == n_before
        bar.show("simulations", 3, 12)
        assert threading.active_count() == n_before + 1
    assert "3/12" in out.getvalue()


def test_nothing_is_paused_where_nobody_looks() -> None:
    out = io.StringIO()
    with StageBar(Console(file=out)) as bar, bar.paused():
        pass
    assert out.getvalue() == ""
