"""``hdrl runs``: list the runs in a folder and their results."""

from __future__ import annotations

import click

from hdrl.launcher.completion import files_or


@click.command()
@click.argument("folder", default="runs", shell_complete=files_or())
def runs(folder: str) -> None:
    """List the runs, trainings and comparisons in FOLDER (default runs), the newest last."""
    from hdrl.experiment.run.listing import list_runs

    found = list_runs(folder)
    if not found:
        click.echo(f"{folder}: no runs")
    for one in found:
        state = "" if one.is_complete else " (not finished: --resume continues it)"
        click.echo(
            f"{one.when:%Y-%m-%d %H:%M}  {one.folder}: {one.kind}{state}" + (f": {one.result}" if one.result else "")
        )
