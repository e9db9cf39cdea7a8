"""``hdrl predict``: how well run times can be predicted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hdrl.errors import OptionsError
from hdrl.launcher.errors import CleanErrors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hdrl.settings.batch.predict.evaluation import Evaluation


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def predict() -> None:
    """Evaluate predictors of run times."""


@predict.command(cls=CleanErrors)
@click.argument("log")
@click.option("--range", "part", default="0.7:1", show_default=True, metavar="FROM:TO", help="Part that is judged.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE", help="Draw the calibration (PNG, SVG, PDF).")
def evaluate(log: str, part: str, *, as_json: bool, plot: Path | None) -> None:
    """Tell how well each predictor would have done on LOG, an SWF file, from the jobs that had ended each time."""
    import json

    from hdrl.settings.batch.platform.reader import read_platform
    from hdrl.settings.batch.predict.evaluation import as_rows, evaluate_predictors, has_users
    from hdrl.settings.batch.workload.read import read_workload

    # A machine of one core: only its speed counts here.
    workload = read_workload(log, read_platform("homogeneous:1"), bandwidth="none", memory="none")
    found = evaluate_predictors(workload, _shares(part))
    if not has_users(workload):
        click.echo(f"{workload.name} names no users: predictions go by requests and sizes alone", err=True)
    if plot is not None:
        from hdrl.settings.batch.predict.figure import draw_calibration

        draw_calibration(found, workload.name, plot)
    if as_json:
        click.echo(json.dumps(as_rows(found), indent=2))
        return
    _show(found, workload.name)


def _shares(text: str) -> tuple[float, float]:
    first, colon, last = text.partition(":")
    try:
        if not colon:
            raise ValueError
        return float(first), float(last)
    except ValueError:
        raise OptionsError(f"--range {text}: expected two shares with ':' between them, such as 0.7:1") from None


def _show(found: Sequence[Evaluation], name: str) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{name}: {found[0].n_jobs:,} jobs predicted when they were submitted", title_justify="left")
    table.add_column("predictor")
    for title in ("R2 of log run", "gamma deviance", "too short", "median of prediction / run"):
        table.add_column(title, justify="right")
    for one in found:
        table.add_row(
            one.predictor,
            f"{one.r2_log:.2f}",
            f"{one.gamma_deviance:.3g}",
            f"{one.too_short:.0%}",
            f"{one.median_ratio:.2f}",
        )
    console = Console(highlight=False)
    console.print(table)
