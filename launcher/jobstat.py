"""``hdrl jobstat``: one number about the jobs of a workload, as hdeeprm-jobstat prints it."""

from __future__ import annotations

import click

from hdrl.launcher.completion import files_or
from hdrl.launcher.workload import FIELDS, STATISTICS, platform_option, stat


@click.command()
@click.argument("workload", shell_complete=files_or("workloads"))
@click.argument("field", type=click.Choice(FIELDS))
@click.argument("statistic", type=click.Choice(STATISTICS))
@platform_option
@click.option("--jobs", "-n", "n_jobs", type=int, help="Number of jobs to look at.")
@click.pass_context
def jobstat(
    ctx: click.Context, workload: str, field: str, statistic: str, platform: str | None, n_jobs: int | None
) -> None:
    """Print a STATISTIC of a FIELD over the jobs of a WORKLOAD: a file in Batsim's JSON or SWF, or a shipped one."""
    ctx.invoke(stat, file=workload, field=field, statistic=statistic, platform=platform, n_jobs=n_jobs)
