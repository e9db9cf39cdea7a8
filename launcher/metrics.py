"""``hdrl metrics``: metrics of runs side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hdrl.base.files import without_nan
from hdrl.launcher.completion import files_or
from hdrl.launcher.trust import load_files, trust_option

if TYPE_CHECKING:
    from hdrl.metrics.side_by_side import SideBySide


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, shell_complete=files_or())
@click.option("--name", "-n", "names", multiple=True, help="A name for each run, in their order.")
@click.option("-n1", "first_name", metavar="TEXT", help="A name for the first of two runs, as in HDeepRM.")
@click.option("-n2", "second_name", metavar="TEXT", help="A name for the second of two runs.")
@click.option("--metric", "-m", "chosen", multiple=True, help="A metric to show, instead of the usual ones.")
@click.option("--all", "show_all", is_flag=True, help="Show all metrics.")
@click.option(
    "--save",
    "-s",
    "out",
    metavar="FILE",
    help="Picture to write or replace: .png, .svg or .pdf.",
    shell_complete=files_or(),
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option(
    "--setting",
    metavar="FILE",
    help="Python file of the setting, if the runs are of a custom one.",
    shell_complete=files_or("settings"),
)
@trust_option
def metrics(
    runs: tuple[str, ...],
    names: tuple[str, ...],
    first_name: str | None,
    second_name: str | None,
    chosen: tuple[str, ...],
    out: str | None,
    setting: str | None,
    *,
    as_json: bool,
    show_all: bool,
    trust: bool,
) -> None:
    """Show the metrics of each RUN, a run folder or an out_schedule.csv, side by side; with --save also as bars."""
    if first_name or second_name:
        if names or len(runs) != 2:
            raise click.UsageError(f"-n1 and -n2 name two runs, without --name; number of runs: {len(runs)}")
        names = (first_name or "", second_name or "")
    load_files(setting, [run for run in runs if Path(run).is_dir()], trust=trust)
    table = _table(runs, names, None if show_all else chosen)
    if out is not None:
        from hdrl.figures.metrics_bars import save_bars

        save_bars(table, out)
    if as_json:
        # JSON has neither NaN, which stands for a metric that a run lacks, nor infinity
        rows = {
            name: without_nan(dict(zip(table.runs, numbers, strict=True))) for name, numbers in table.values.items()
        }
        click.echo(json.dumps(rows, indent=2))
    else:
        _show(table)
    if out is not None:
        click.echo(out)


def _table(runs: tuple[str, ...], names: tuple[str, ...], chosen: tuple[str, ...] | None) -> SideBySide:
    """Read the metrics; those of batch jobs may be in files of other programs, too."""
    from hdrl.report import side_by_side
    from hdrl.report.runs import setting_of
    from hdrl.setting import BATCH
    from hdrl.settings.batch.metrics import METRICS
    from hdrl.settings.batch.report import side_by_side as of_batch

    if any(Path(run).is_dir() and setting_of(run).name != BATCH for run in runs):
        return side_by_side.side_by_side(runs, names=names, metrics=chosen)
    return of_batch.side_by_side(
        runs, names=names, metrics=tuple(METRICS) if chosen is None else chosen or of_batch.USUAL
    )


def _show(table: SideBySide) -> None:
    from rich.markup import escape
    from rich.table import Table

    from hdrl.figures.numbers import metric_form
    from hdrl.launcher.bars import print_table, print_text

    best, is_pair = table.best, len(table.runs) == 2
    drawn = Table(caption="bold: the best" if any(best.values()) else None, caption_justify="left")
    drawn.add_column("metric", no_wrap=True)
    for run in table.runs:
        drawn.add_column(escape(run), justify="right", overflow="fold")
    if is_pair:
        drawn.add_column("2nd / 1st", justify="right")
    drawn.add_column("unit")
    for name, numbers in table.values.items():
        form = metric_form(name, table.infos[name], numbers)
        texts = [
            f"[bold]{form.number(number)}[/bold]" if place in best[name] else form.number(number)
            for place, number in enumerate(numbers)
        ]
        quotient = [_quotient(*numbers)] if is_pair else []
        drawn.add_row(name, *texts, *quotient, form.unit)
    print_table(drawn)
    for sentence in table.differences:
        print_text(f"note: {sentence}")


def _quotient(first: float, second: float) -> str:
    from hdrl.figures.numbers import MISSING

    return f"{second / first:.3f}" if first and second == second and first == first else MISSING
