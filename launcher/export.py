"""``hdrl workload export-swf``: the schedule of a run as a log."""

from __future__ import annotations

import click

from hdrl.launcher.completion import files_or


@click.command("export-swf")
@click.argument("run", shell_complete=files_or())
@click.option("--out", "-o", required=True, metavar="FILE", help="File to write: .swf, optionally with .gz.")
@click.option("--workload", metavar="FILE", help="Workload of the run, if it is not where the options say.")
@click.option("--whole-seconds", is_flag=True, help="Round all dates, for programs that only read whole seconds.")
def export_swf(run: str, out: str, workload: str | None, *, whole_seconds: bool) -> None:
    """Write the schedule of the run folder RUN as a log. It is in the Standard Workload Format."""
    from hdrl.settings.batch.report.export import export_swf as export

    log = export(run, out, workload=workload, whole_seconds=whole_seconds)
    click.echo(f"{out}: {log.n_rows:,} jobs")
