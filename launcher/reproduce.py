"""``hdrl reproduce``: run an experiment of ours again and say what differs from what we claim."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hdrl.errors import OptionsError
from hdrl.launcher.errors import CleanErrors
from hdrl.launcher.trust import trust_option

if TYPE_CHECKING:
    from hdrl.experiment.reproduce.reproduce import Reproduced

MOST_ROWS = 40
"""Rows of a table that are shown; the file has all."""

MOST_COLUMNS = 7
"""Columns of it."""


@click.command(cls=CleanErrors, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name", required=False)
@click.option("--list", "is_listing", is_flag=True, help="List the experiments, and which lack a trace.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for the results; default runs/<time>-<NAME>.")
@click.option(
    "--traces",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder with traces that cannot be shipped; repeatable. HDRL_TRACES names more; fetched logs are found.",
)
@click.option("-j", "--jobs", "n_workers", type=click.IntRange(1), help="Processes; by default one per core.")
@click.option("--quiet", is_flag=True, help="Print the answer only.")
@trust_option
def reproduce(
    name: str | None,
    out: Path | None,
    traces: tuple[Path, ...],
    n_workers: int | None,
    *,
    is_listing: bool,
    quiet: bool,
    trust: bool,
) -> None:
    """Run the experiment NAME (or a folder with experiment.json) again.

    The exit code is 0 if all claims hold; otherwise it is 1, with a table of the differences.
    """
    if is_listing:
        _list(traces)
        return
    if name is None:
        raise OptionsError("no experiment named; hdrl reproduce --list names them")
    from hdrl.experiment.reproduce.recipe import read_experiment
    from hdrl.experiment.reproduce.reproduce import reproduce as run

    experiment = read_experiment(name)
    result = run(
        experiment,
        out=out if out is not None else _default_folder(experiment.name),
        traces=traces,
        n_workers=n_workers,
        message=None if quiet else lambda text: click.echo(text, err=True),
        trust=trust,
    )
    if not quiet:
        _show_results(result, experiment.recipe.title)
        click.echo(f"results in {result.folder}")
    _answer(experiment.name, result)


def _answer(name: str, result: Reproduced) -> None:
    """Say whether all is as claimed, and end with 1 if not."""
    n_numbers, n_claimed = len(result.results), result.n_claimed
    if n_claimed == 0:
        click.echo(f"{name}: nothing is claimed; {n_numbers} numbers are in {result.folder / 'results.csv'}")
        return
    if not result.is_same:
        _show_differences(result)
        click.echo(f"{name}: {len(result.differences)} of {n_claimed} claimed numbers differ")
        raise click.exceptions.Exit(1)
    more = f"; {n_numbers - n_claimed} more are in results.csv" if n_numbers > n_claimed else ""
    click.echo(f"{name}: all {n_claimed} numbers are as claimed{more}")


def _default_folder(name: str) -> Path:
    from datetime import datetime

    return Path("runs") / f"{datetime.now():%Y%m%d-%H%M%S}-{name}"


def _list(traces: tuple[Path, ...]) -> None:
    from rich.table import Table

    from hdrl.experiment.reproduce.recipe import missing_traces, read_experiment, shipped_experiments, trace_folders
    from hdrl.launcher.bars import print_table

    table = Table()
    for title in ("name", "kind", "what it shows", "trace that is missing"):
        table.add_column(title, overflow="fold")
    folders = trace_folders(traces)
    for name in shipped_experiments():
        experiment = read_experiment(name)
        recipe = experiment.recipe
        kind = f"{recipe.kind}, long" if recipe.is_long else recipe.kind
        table.add_row(name, kind, recipe.title, _first_of(missing_traces(experiment, folders)))
    print_table(table)


def _first_of(names: Sequence[str]) -> str:
    """Return the first of some names, and how many more there are: the error of the experiment names all."""
    return "" if not names else names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _show_results(result: Reproduced, title: str) -> None:
    """Print the numbers as the table that they are."""
    from rich.table import Table

    from hdrl.launcher.bars import print_table

    columns = list(dict.fromkeys(column for _, column in result.results if not column.startswith("ratio of ")))
    columns, left_out = columns[:MOST_COLUMNS], len({column for _, column in result.results}) - MOST_COLUMNS
    rows = list(dict.fromkeys(row for row, _ in result.results))
    table = Table(title=title, title_justify="left")
    table.add_column("", overflow="fold")
    for column in columns:
        table.add_column(column, justify="right", overflow="fold")
    for row in rows[:MOST_ROWS]:
        table.add_row(row, *(_number(result.results.get((row, column))) for column in columns))
    if len(rows) > MOST_ROWS or left_out > 0:
        table.caption = "more in results.csv"
    print_table(table)


def _show_differences(result: Reproduced) -> None:
    from rich.table import Table

    from hdrl.launcher.bars import print_table

    table = Table(title="Not as claimed", title_justify="left")
    for title in ("row", "column"):
        table.add_column(title, overflow="fold")
    for title in ("claimed", "found", "difference", "allowed"):
        table.add_column(title, justify="right", overflow="fold")
    for one in result.differences[:MOST_ROWS]:
        gap = None if one.found is None else one.found - one.reference
        table.add_row(
            one.row,
            one.column,
            _exact(one.reference),
            _exact(one.found),
            "" if gap is None else f"{gap:+.3g}",
            f"{one.tolerance:.3g}",
        )
    if len(result.differences) > MOST_ROWS:
        table.caption = f"{len(result.differences) - MOST_ROWS} more in differences.csv"
    print_table(table)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    if math.isnan(value):
        return "-"
    if value == int(value) and abs(value) < 1e9:
        return f"{int(value):,}"
    return f"{value:.4g}" if abs(value) >= 1e9 or abs(value) < 1e-3 else f"{value:,.4f}"


def _exact(value: float | None) -> str:
    return "-" if value is None else f"{value:.10g}"
