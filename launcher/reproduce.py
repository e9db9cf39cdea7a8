"""``hdrl reproduce``: run an experiment of ours again and say what differs from what we claim."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hdrl.base.errors import HdrlError, OptionsError
from hdrl.base.files import expanded
from hdrl.launcher.numbers import IntRange
from hdrl.launcher.trust import trust_option

if TYPE_CHECKING:
    from hdrl.experiment.reproduce.claims import NullTest
    from hdrl.experiment.reproduce.recipe import Experiment
    from hdrl.experiment.reproduce.reproduce import Reproduced

MOST_ROWS = 40
"""Rows of a table that are shown; the file has all."""

MOST_COLUMNS = 7
"""Columns of it."""


@click.command()
@click.argument("name", required=False)
@click.option("--list", "is_listing", is_flag=True, help="List the experiments, what they claim, and missing traces.")
@click.option(
    "--null",
    "is_null",
    is_flag=True,
    help="Run nothing; check that each effect fails if the baseline replaces its policy.",
)
@click.option("--all", "is_all", is_flag=True, help="All experiments that come with hdrl and whose traces are at hand.")
@click.option("--record", "is_recording", is_flag=True, help="Write a new reference.csv of your own experiment.")
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), help="Folder for the results; default runs/<time>-<NAME>."
)
@click.option(
    "--traces",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder with traces that cannot be shipped; repeatable. HDRL_TRACES names more; fetched logs are found.",
)
@click.option("-j", "--jobs", "n_workers", type=IntRange(1), help="Processes; by default one per core.")
@click.option("--quiet", is_flag=True, help="Print the answer only.")
@trust_option
def reproduce(
    name: str | None,
    out: Path | None,
    traces: tuple[Path, ...],
    n_workers: int | None,
    *,
    is_listing: bool,
    is_null: bool,
    is_all: bool,
    is_recording: bool,
    quiet: bool,
    trust: bool,
) -> None:
    """Run the experiment NAME (or a folder with experiment.json) again.

    The exit code is 0 if all claims hold; otherwise it is 1, with a table of the differences. With --null nothing
    runs: the baseline replaces every claimed policy, and the exit code is 0 if every effect fails. With --all, long
    experiments come last, and each prints one line.
    """
    _check_words(name if is_listing else None, traces)
    if is_listing:
        _list(traces)
        return
    from hdrl.experiment.reproduce.recipe import read_experiment, shipped_experiments

    message = None if quiet else lambda text: click.echo(text, err=True)
    if is_all:
        if name is not None or is_recording:
            raise OptionsError("--all runs every shipped experiment; leave out NAME and --record")
        shipped = [read_experiment(one) for one in shipped_experiments()]
        if is_null:
            _null(shipped)
        else:
            _reproduce_all(shipped, out or _default_folder("all"), traces, n_workers, message)
        return
    if name is None:
        raise OptionsError("no experiment named; hdrl reproduce --list names them")
    experiment = read_experiment(name)
    if is_null:
        _null([experiment])
        return
    from hdrl.experiment.reproduce.reproduce import check_recording, record
    from hdrl.experiment.reproduce.reproduce import reproduce as run

    if is_recording:
        check_recording(experiment)
    result = run(
        experiment,
        out=out if out is not None else _default_folder(experiment.name),
        traces=traces,
        n_workers=n_workers,
        message=message,
        trust=trust,
    )
    if not quiet:
        _show_results(result, experiment.recipe.title)
        click.echo(f"results in {result.folder}")
    if is_recording:
        _record(experiment, result, record(experiment, result))
    else:
        _answer(experiment.name, result)


def _check_words(listed: str | None, traces: Sequence[Path]) -> None:
    if listed is not None:
        raise OptionsError("--list lists every experiment; leave out NAME")
    for folder in map(expanded, traces):
        if not folder.is_dir():
            problem = "is a file, expected a folder" if folder.exists() else "no such folder"
            raise OptionsError(f"--traces {folder}: {problem}")


def _answer(name: str, result: Reproduced) -> None:
    """Say whether all is as claimed, and end with 1 if not."""
    if not result.claims:
        click.echo(f"{name}: nothing is claimed; {len(result.results)} numbers are in {result.folder / 'results.csv'}")
        return
    if not result.is_same:
        _show_differences(result)
        click.echo(f"{name}: {_differ_words(result)}")
        raise click.exceptions.Exit(1)
    n_more = len(result.results.keys() - {one.place for one in result.claims})
    more = f"; {n_more} more numbers are in results.csv" if n_more else ""
    click.echo(f"{name}: {_hold_words(result)}{more}")


def _n_claimed(result: Reproduced) -> int:
    from hdrl.experiment.reproduce.claims import counts

    return sum(counts(result.claims).values())


def _differ_words(result: Reproduced) -> str:
    return f"{len(result.differences):,} of {_n_claimed(result):,} claims do not hold"


def _hold_words(result: Reproduced) -> str:
    from hdrl.experiment.reproduce.claims import count_words

    return f"all {_n_claimed(result):,} claims hold: {count_words(result.claims)}"


def _reproduce_all(
    experiments: Sequence[Experiment],
    out: Path,
    traces: Sequence[Path],
    n_workers: int | None,
    message: Callable[[str], None] | None,
) -> None:
    """Run all experiments whose traces are at hand, quick ones first; end with 1 if one does not hold."""
    from hdrl.experiment.reproduce.recipe import missing_traces, trace_folders
    from hdrl.experiment.reproduce.reproduce import reproduce as run

    folders = trace_folders(traces)
    missing = {one.name: missing_traces(one, folders) for one in experiments}
    left_out = {name: names for name, names in missing.items() if names}
    for name, names in left_out.items():
        click.echo(f"{name}: left out, needs {_first_of(names)}")
    chosen = sorted((one for one in experiments if one.name not in left_out), key=lambda one: one.recipe.is_long)
    n_held = 0
    for number, one in enumerate(chosen, start=1):
        if message is not None:
            message(f"{number} of {len(chosen)}: {one.name}")
        try:
            result = run(one, out=out / one.name, traces=traces, n_workers=n_workers, message=message)
        except HdrlError as error:
            click.echo(f"{one.name}: did not run: {error}")
            continue
        n_held += result.is_same
        click.echo(f"{one.name}: {_hold_words(result) if result.is_same else _differ_words(result)}")
    click.echo(f"{n_held} of {len(chosen)} experiments hold, {len(left_out)} left out; results in {out}")
    if n_held < len(chosen):
        raise click.exceptions.Exit(1)


def _record(experiment: Experiment, before: Reproduced, after: Reproduced) -> None:
    """Report what was recorded, the effects whose side has changed, and the published numbers that differ."""
    from hdrl.experiment.reproduce.claims import count_words, sign_words

    earlier = {one.place: one for one in before.claims if one.sign is not None}
    for one in after.claims:
        old = earlier.get(one.place)
        if old is not None and one.sign is not None and sign_words(old) != sign_words(one):
            click.echo(f"{one.row}, {one.column}: was {sign_words(old)}, is {sign_words(one)}")
    if after.differences:
        _show_differences(after)
    click.echo(f"{experiment.name}: {experiment.folder / 'reference.csv'} claims {count_words(after.claims)}")


def _null(experiments: Sequence[Experiment]) -> None:
    """Report the effects that fail where there are none, and end with 1 if some do not."""
    from hdrl.experiment.reproduce.claims import null_test
    from hdrl.launcher.bars import new_table, print_table

    tests = {one.name: null_test(one.claims()) for one in experiments}
    if len(tests) > 1:
        table = new_table(["name"], ["effects", "fail", "by sign alone", "no difference", "other numbers"])
        for name, test in tests.items():
            numbers = test.n_effects, test.n_effects - len(test.passing), test.by_sign_alone, test.n_same
            table.add_row(name, *(f"{one:,}" for one in (*numbers, test.n_numbers)))
        print_table(table)
    for name, test in tests.items():
        for claim in test.passing[:MOST_ROWS]:
            click.echo(f"{name}: {claim.row}, {claim.column} would be found without any effect")
    click.echo(_null_words(tests))
    if any(one.passing for one in tests.values()):
        raise click.exceptions.Exit(1)


def _null_words(tests: Mapping[str, NullTest]) -> str:
    n_effects = sum(one.n_effects for one in tests.values())
    n_passing = sum(len(one.passing) for one in tests.values())
    name = next(iter(tests)) if len(tests) == 1 else f"{len(tests)} experiments"
    if n_passing:
        return f"{name}: {n_passing:,} of {n_effects:,} claimed effects would be found without any"
    return f"{name}: without any effect all {n_effects:,} claimed effects fail"


def _default_folder(name: str) -> Path:
    return Path("runs") / f"{datetime.now():%Y%m%d-%H%M%S}-{name}"


def _list(traces: tuple[Path, ...]) -> None:
    from hdrl.experiment.reproduce.claims import counts
    from hdrl.experiment.reproduce.recipe import missing_traces, read_experiment, shipped_experiments, trace_folders
    from hdrl.launcher.bars import new_table, print_table

    table = new_table(
        ["name", "kind", "what it shows", "values", "spreads", "signs", "published", "trace that is missing"]
    )
    folders = trace_folders(traces)
    for name in shipped_experiments():
        experiment = read_experiment(name)
        recipe = experiment.recipe
        kind = f"{recipe.kind}, long" if recipe.is_long else recipe.kind
        claims = experiment.claims()
        published = [one for one in claims if one.source == "published"]
        numbers = [*counts(claims).values(), sum(counts(published).values())]
        missing = _first_of(missing_traces(experiment, folders))
        table.add_row(name, kind, recipe.title, *(f"{n:,}" if n else "" for n in numbers), missing)
    print_table(table)


def _first_of(names: Sequence[str]) -> str:
    """Return the first of some names, and how many more there are: the error of the experiment names all."""
    return "" if not names else names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _show_results(result: Reproduced, title: str) -> None:
    """Print the numbers as the table that they are."""
    from hdrl.launcher.bars import new_table, print_table

    columns = list(dict.fromkeys(column for _, column in result.results if not column.startswith("ratio of ")))
    columns, left_out = columns[:MOST_COLUMNS], len({column for _, column in result.results}) - MOST_COLUMNS
    rows = list(dict.fromkeys(row for row, _ in result.results))
    table = new_table([""], columns, title)
    for row in rows[:MOST_ROWS]:
        found = [result.results.get((row, column)) for column in columns]
        table.add_row(row, *(_number(None if one is None else one.value) for one in found))
    if len(rows) > MOST_ROWS or left_out > 0:
        table.caption = "more in results.csv"
    print_table(table)


def _show_differences(result: Reproduced) -> None:
    from hdrl.launcher.bars import new_table, print_table

    numbers = ["claimed", "found", "difference", "allowed"]
    table = new_table(["row", "column", "kind"], numbers, "Not as claimed")
    for one in result.differences[:MOST_ROWS]:
        gap = "" if one.gap is None else f"{one.gap:+.3g}"
        allowed = "" if math.isinf(one.allowed) else f"{one.allowed:.3g}"
        table.add_row(one.row, one.column, one.kind, one.claimed, one.found, gap, allowed)
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
