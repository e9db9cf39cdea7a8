"""``hdrl clean``: delete results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hdrl.launcher.completion import files_or

if TYPE_CHECKING:
    from hdrl.experiment.run.clean import CleanPlan


@click.command()
@click.argument("folders", metavar="FOLDER...", nargs=-1, required=True, shell_complete=files_or())
@click.option(
    "--soft", "-s", is_flag=True, help="Keep the options and the provenance, so that the run can be repeated."
)
@click.option("--dry-run", is_flag=True, help="Only print the files that would be deleted.")
def clean(folders: tuple[str, ...], *, soft: bool, dry_run: bool) -> None:
    """Delete the files that hdrl wrote into each FOLDER of results; foreign and changed files stay."""
    from hdrl.experiment.run.clean import clean_plans, clean_runs

    plans = clean_plans(folders, soft=soft)
    if not dry_run:
        clean_runs(plans)
    for plan in plans:
        _print(plan, "would be deleted" if dry_run else "deleted")


def _print(plan: CleanPlan, done: str) -> None:
    number = f"{len(plan.files)} file{'s' * (len(plan.files) != 1)}"
    click.echo(f"{plan.folder}: {'the folder and its ' * plan.removes_folder}{number} {done}")
    for name, reason in plan.kept.items():
        click.echo(f"  {name} stays: {reason}")
