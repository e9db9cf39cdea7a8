"""A bar that moves while nothing is counted."""

import io
import re
import threading

import pytest
from rich.console import Console
from rich.progress import TextColumn
from rich.table import Table

from hdrl.launcher.bars import StageBar, new_table, print_table


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


def wide_table() -> Table:
    table = Table(title="numbers")
    table.add_column("field", overflow="fold")
    for column in range(9):
        table.add_column(f"column {column}", justify="right")
    table.add_row("a name that may be folded wherever it has to be", *(f"{column}37,688,123.5" for column in range(9)))
    return table


def test_no_number_is_cut_where_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    print_table(wide_table())
    lines = capsys.readouterr().out.splitlines()
    (numbers,) = [line for line in lines if "37,688" in line]
    assert all(f"{column}37,688,123.5" in numbers for column in range(9))
    assert "\N{HORIZONTAL ELLIPSIS}" not in "".join(lines)


@pytest.mark.parametrize("variables", [{}, {"COLUMNS": "80", "FORCE_COLOR": "1"}])
def test_long_heads_leave_room_for_names(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    heads = [f"mean completion time, relative to policy {number}" for number in range(6)]
    table = new_table([""], heads)
    table.add_row("srsf", *["0.9571"] * len(heads))
    print_table(table)
    text = capsys.readouterr().out
    assert "srsf" in text
    assert all(head in text for head in heads)


@pytest.mark.parametrize("variables", [{"FORCE_COLOR": "1"}, {}])
@pytest.mark.parametrize("width", [48, 80, 120])
def test_a_narrow_terminal_or_pipe_shows_columns_one_table_after_the_other(
    width: int, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in ({"COLUMNS": str(width)} | variables).items():
        monkeypatch.setenv(name, value)
    print_table(wide_table())
    text = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)
    assert max(map(len, text.splitlines())) <= width
    for column in range(9):
        assert text.count(f"{column}37,688,123.5") == 1
        assert text.count(f"column {column}") == 1
    assert text.count("field") > 1, "each table begins with the first column"
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
