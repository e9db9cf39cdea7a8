"""``hdrl report``: one HTML file about runs and comparisons."""

from __future__ import annotations

from pathlib import Path

import click

from hdrl.launcher.completion import files_or
from hdrl.launcher.trust import load_files, trust_option


@click.command()
@click.argument("folders", nargs=-1, required=True, metavar="RUN_OR_COMPARISON...", shell_complete=files_or())
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    default=Path("report.html"),
    show_default=True,
    help="The file to write.",
)
@click.option(
    "--metric",
    metavar="NAME",
    help="The metric of the verdict; default: the setting's, or the comparison's.",
)
@click.option(
    "--setting",
    metavar="FILE",
    help="Python file of the setting, if the runs are of a custom one.",
    shell_complete=files_or("settings"),
)
@click.option("--question", metavar="TEXT", help="The question that the report answers, instead of a generated one.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@trust_option
def report(
    folders: tuple[str, ...],
    out: Path,
    metric: str | None,
    setting: str | None,
    question: str | None,
    *,
    force: bool,
    trust: bool,
) -> None:
    """Write one HTML file with the verdict, tables and figures; it needs no other file and no network.

    Each RUN_OR_COMPARISON is the folder of a run, of an experiment with several runs, or of a comparison.
    """
    from hdrl.report.page import write_report

    load_files(setting, folders, trust=trust)
    file = write_report(folders, out, metric=metric, question=question, force=force)
    click.echo(f"{file}: {file.stat().st_size / 1e6:.1f} MB")
