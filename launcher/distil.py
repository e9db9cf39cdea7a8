"""``hdrl distil``: an index of few terms that stands for a learned network."""

from __future__ import annotations

from pathlib import Path

import click

from hdrl.launcher.completion import files_or
from hdrl.launcher.numbers import IntRange
from hdrl.launcher.tune import log_and_machine


@click.command()
@click.argument("model", type=click.Path(path_type=Path), shell_complete=files_or())
@click.argument("log", shell_complete=files_or("workloads"))
@click.option(
    "-p",
    "--platform",
    metavar="FILE",
    help="The machine; by default the cores in the log's header.",
    shell_complete=files_or("platforms"),
)
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, metavar="FOLDER", help="Folder to create.")
@click.option("--seed", type=IntRange(0, 2**31), default=1, show_default=True, help="Seed of simulations.")
@click.option("-j", "--jobs", "n_workers", type=IntRange(1), help="Processes; by default one per core.")
def distil(model: Path, log: str, platform: str | None, out: Path, seed: int, n_workers: int | None) -> None:
    """Approximate MODEL, a network that picks jobs, by an index of at most 15 terms, and measure the difference.

    LOG is a log (SWF), or the folder of an imported site. The index is fitted to the network's picks on the first 70 %
    and compared with the network on the last 30 %.
    """
    from hdrl.deploy.distil import INDEX, distil
    from hdrl.experiment.compare.comparison import CompareProgress

    file, machine = log_and_machine(log, platform)
    progress = CompareProgress(message=lambda text: click.echo(text, err=True))
    found = distil(model, file, machine, out, seed=seed, n_workers=n_workers, progress=progress)
    for name, weight in sorted(found.terms.items(), key=lambda one: -abs(one[1])):
        click.echo(f"{weight:8.3f}  {name}")
    click.echo(
        f"It picks the same job in {found.agreement:.1%} of {found.n_choices:,} choices, half of them for each fit."
    )
    click.echo(found.verdict)
    click.echo(f"index in {out / INDEX}")
