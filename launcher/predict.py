"""``hdrl predict``: how well run times can be predicted, and networks that learn it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hdrl.base.files import check_new
from hdrl.launcher.completion import files_or
from hdrl.launcher.groups import CommandGroup
from hdrl.launcher.numbers import IntRange, shares

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hdrl.settings.batch.predict.evaluation import Evaluation


@click.group(cls=CommandGroup)
def predict() -> None:
    """Evaluate predictors of run times, train networks."""


@predict.command()
@click.argument("log", shell_complete=files_or("workloads"))
@click.option("--range", "part", default="0.7:1", show_default=True, metavar="FROM:TO", help="Part for the evaluation.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE", help="Draw the calibration (PNG, SVG, PDF).")
def evaluate(log: str, part: str, *, as_json: bool, plot: Path | None) -> None:
    """Measure the accuracy of each predictor on LOG, an SWF file, with only the jobs that had ended each time."""
    from hdrl.settings.batch.platform.reader import read_platform
    from hdrl.settings.batch.predict.evaluation import as_rows, evaluate_predictors, has_users
    from hdrl.settings.batch.workload.read import read_workload

    # A machine of one core: only its speed counts here.
    workload = read_workload(log, read_platform("homogeneous:1"), bandwidth="none", memory="none")
    found = evaluate_predictors(workload, shares(part))
    if not has_users(workload):
        click.echo(f"{workload.name} names no users: predictions use requests and sizes alone", err=True)
    if plot is not None:
        from hdrl.settings.batch.predict.figure import draw_calibration

        draw_calibration(found, workload.name, plot)
    if as_json:
        click.echo(json.dumps(as_rows(found), indent=2))
        return
    _show(found, workload.name)


@predict.command()
@click.argument("logs", nargs=-1, required=True, metavar="LOG...", shell_complete=files_or("workloads"))
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), required=True, metavar="FILE", help="File to write (.json)."
)
@click.option("--range", "part", default="0:0.6", show_default=True, metavar="FROM:TO", help="Part for the training.")
@click.option("--seed", type=IntRange(min=0), default=0, show_default=True, help="Seed of the training.")
@click.option("--names", "by_name", is_flag=True, help="Group jobs by name (field 14), as geo_name does.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
def train(logs: tuple[str, ...], out: Path, part: str, seed: int, *, by_name: bool, force: bool, quiet: bool) -> None:
    """Train a network that predicts run times on LOGs, SWF files; policies use it as 'sjf+easy@FILE'."""
    from hdrl.settings.batch.platform.reader import read_platform
    from hdrl.settings.batch.predict.network import write_network
    from hdrl.settings.batch.predict.training import train_network
    from hdrl.settings.batch.workload.read import read_workload

    check_new(out, force=force)
    machine = read_platform("homogeneous:1")
    read = [read_workload(log, machine, bandwidth="none", memory="none") for log in logs]
    with _bar(quiet=quiet) as show:
        network = train_network(read, shares(part), seed=seed, by_name=by_name, progress=show)
    write_network(out, network, force=force)
    click.echo(out)


@contextlib.contextmanager
def _bar(*, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Show the number of finished epochs."""
    from rich.console import Console
    from rich.progress import Progress as Bar

    console = Console(stderr=True, highlight=False, quiet=quiet)
    with Bar(console=console, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task("epochs", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _show(found: Sequence[Evaluation], name: str) -> None:
    from hdrl.launcher.bars import new_table, print_table

    title = f"{name}: {found[0].n_jobs:,} jobs predicted when they were submitted"
    numbers = ["R2 of log run", "gamma deviance", "too short", "median of prediction / run"]
    table = new_table(["predictor"], numbers, title)
    for one in found:
        table.add_row(
            one.predictor,
            f"{one.r2_log:.2f}",
            f"{one.gamma_deviance:.3g}",
            f"{one.too_short:.0%}",
            f"{one.median_ratio:.2f}",
        )
    print_table(table)
