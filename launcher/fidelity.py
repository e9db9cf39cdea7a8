"""``hdrl fidelity``: how far policies are from recorded runs of a real Slurm."""

from __future__ import annotations

from pathlib import Path

import click

from hdrl.launcher.completion import files_or


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), shell_complete=files_or())
@click.option(
    "--policies", metavar="NAME,NAME", help="Policies to compare; default: slurm,fcfs+easy,fcfs+conservative."
)
def fidelity(runs: tuple[Path, ...], policies: str | None) -> None:
    """Compare policies with recorded RUNS of a real Slurm: order of starts and waits.

    RUNS are folders of runs with --simulator slurm, or of other recordings in their format. Two runs of the same jobs
    also show how far Slurm is from itself.
    """
    from hdrl.slurm import fidelity as measured
    from hdrl.slurm.recorded import read_run

    names = measured.POLICIES if policies is None else tuple(filter(None, policies.split(",")))
    read = [read_run(run) for run in runs]
    found = measured.fidelity(read, names, lambda text: click.echo(text, err=True))
    click.echo(measured.fidelity_text(found))
