"""``hdrl plot``: pictures of runs."""

from __future__ import annotations

import click

from hdrl.launcher.completion import figures_only, files_or
from hdrl.launcher.trust import load_files, trust_option


class PlotCommand(click.Command):
    """A command whose help lists the kinds of pictures."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the kinds of pictures below the options."""
        del ctx
        from hdrl.report.drawing import all_figures

        figures = all_figures()
        with formatter.section("Kinds"):
            formatter.write_dl([(name, figure.help) for name, figure in figures.items()])
        for option in ("by", "of"):
            values = dict.fromkeys(value for figure in figures.values() for value in figure.choices.get(option, ()))
            formatter.write_paragraph()
            formatter.write_text(f"--{option} takes: {', '.join(values)}")


@click.command(cls=PlotCommand)
@click.argument("kind", shell_complete=figures_only)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, shell_complete=files_or())
@click.option(
    "--save",
    "-s",
    "out",
    metavar="FILE",
    help="File to write or replace: .png, .svg or .pdf.",
    shell_complete=files_or(),
)
@click.option("--name", "-n", "names", multiple=True, help="A name for each run, in their order.")
@click.option(
    "--setting",
    metavar="FILE",
    help="Python file of the setting, if the runs are of a custom one.",
    shell_complete=files_or("settings"),
)
@click.option("--by", help="Meaning of colours (gantt) or groups (groups).")
@click.option("--of", help="Quantity of each job (slowdown_cdf, groups), or metric (comparison).")
@click.option(
    "--workload",
    metavar="FILE",
    help="Workload of the runs, for the user, ... of each job.",
    shell_complete=files_or("workloads"),
)
@trust_option
def plot(
    kind: str,
    runs: tuple[str, ...],
    out: str | None,
    names: tuple[str, ...],
    setting: str | None,
    by: str | None,
    of: str | None,
    workload: str | None,
    *,
    trust: bool,
) -> None:
    """Draw a picture of each RUN, the folder of a run, a training or a comparison.

    Without --save it goes to <KIND>.png in the current folder.
    """
    from hdrl.report.drawing import plot as save_plot

    load_files(setting, runs, trust=trust)
    path = save_plot(kind, runs, out, names=names, by=by, of=of, workload=workload)
    click.echo(path)
