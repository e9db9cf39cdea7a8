"""``hdrl deploy``: a policy orders the queue of a real Slurm."""

from __future__ import annotations

from pathlib import Path

import click

from hdrl.base.errors import OptionsError
from hdrl.launcher.completion import files_or
from hdrl.launcher.groups import CommandGroup
from hdrl.launcher.numbers import FloatRange, IntRange


@click.group(cls=CommandGroup)
def deploy() -> None:
    """Order the queue of a real Slurm by a policy: write the files, run the daemon, revert."""


@deploy.command("slurm")
@click.argument("policy", shell_complete=files_or())
@click.option("--site", type=click.Path(path_type=Path), required=True, metavar="FOLDER", help="An imported site.")
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, metavar="FOLDER", help="Folder to create.")
@click.option(
    "--bound",
    default=14.0,
    show_default=True,
    type=FloatRange(0.01, 60),
    metavar="DAYS",
    help="A job that has waited longer is first.",
)
@click.option(
    "--interval",
    default=30.0,
    show_default=True,
    type=FloatRange(1, 3600),
    metavar="SECONDS",
    help="Interval between two passes of the daemon.",
)
@click.option(
    "--place",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Path of the folder on the machine of slurmctld, if it differs from the current one.",
)
@click.option("-j", "--jobs", "n_workers", type=IntRange(1), help="Processes; by default one per core.")
def slurm_command(
    policy: str,
    site: Path,
    out: Path,
    bound: float,
    interval: float,
    place: Path | None,
    n_workers: int | None,
) -> None:
    """Write the files that make Slurm follow POLICY (a name, or an evolved model), and the simulated promise."""
    from hdrl.deploy import DeployChoices, export
    from hdrl.experiment.compare.comparison import CompareProgress

    if place is not None and not place.is_absolute():
        raise OptionsError(f"--place is {str(place)!r}, expected an absolute path")
    progress = CompareProgress(message=lambda text: click.echo(text, err=True))
    choices = DeployChoices(bound * 86400, interval, place)
    deployment = export(policy, site, out, choices, n_workers=n_workers, progress=progress)
    click.echo(deployment.promise.verdict)
    click.echo(f"{out}: read {out / 'README.md'} before you install anything")


@deploy.command("run")
@click.argument("folder", type=click.Path(path_type=Path), shell_complete=files_or())
@click.option("--act", is_flag=True, help="Write to Slurm; otherwise only record decisions (shadow mode).")
@click.option("--once", is_flag=True, help="Run a single pass, then end.")
@click.option(
    "--timeout",
    default=60.0,
    show_default=True,
    type=FloatRange(1),
    metavar="SECONDS",
    help="Time limit for an answer of Slurm.",
)
def run_command(folder: Path, timeout: float, *, act: bool, once: bool) -> None:
    """Run the daemon of the deployment in FOLDER: read the queue of Slurm at regular intervals."""
    from hdrl.deploy import run

    run(folder, acts=act, once=once, timeout_s=timeout, print_line=click.echo)


@deploy.command("undo")
@click.argument("folder", type=click.Path(path_type=Path), shell_complete=files_or())
def undo_command(folder: Path) -> None:
    """Return the queue to Slurm: set SiteFactors to 0, release held jobs, stop daemon and Lua."""
    from hdrl.deploy import undo

    n_jobs = undo(folder, print_line=lambda text: click.echo(text, err=True))
    click.echo(f"{n_jobs:,} waiting jobs given back; {folder / 'undone'} keeps daemon and Lua from writing")
