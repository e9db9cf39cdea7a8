"""``hdrl slurm``: files for sbatch."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from hdrl.base.errors import OptionsError, OutputError
from hdrl.base.files import atomic_write
from hdrl.launcher.numbers import IntRange


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="COMMAND...")
@click.option("--site", default="generic", show_default=True, help="generic, archer2, cirrus-cpu or cirrus-gpu.")
@click.option("--time", default="01:00:00", show_default=True, help="Wall-clock limit.")
@click.option("--cpus", type=IntRange(1), metavar="N", help="Processors of the task; default: the site's.")
@click.option("--name", default="hdrl", show_default=True, help="Name of the job.")
@click.option("--account", metavar="CODE", help="Account to charge.")
@click.option("--array", metavar="NUMBERS", help="Tasks of an array, such as 0-9; {task} in COMMAND is the number.")
@click.option("--each", multiple=True, metavar="VALUE", help="A task for each value; {each} in COMMAND is the value.")
@click.option("--directive", "directives", multiple=True, metavar="NAME=VALUE", help="A further option of sbatch.")
@click.option("--module", "modules", multiple=True, metavar="NAME", help="Module to load, instead of the site's.")
@click.option("--venv", type=click.Path(path_type=Path), help="Virtual environment; default: the one of this command.")
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), metavar="FILE", help="File to write, instead of printing it."
)
def slurm(
    command: tuple[str, ...],
    site: str,
    time: str,
    cpus: int | None,
    name: str,
    account: str | None,
    array: str | None,
    each: tuple[str, ...],
    directives: tuple[str, ...],
    modules: tuple[str, ...],
    venv: Path | None,
    out: Path | None,
) -> None:
    """Write a file for sbatch that runs COMMAND as one task with several processors.

    \b
    hdrl slurm --cpus 8 -- hdrl-launch ppo options.json --out runs/ppo
    hdrl slurm --site archer2 --account e123 --array 0-9 -o job.sh -- \\
        hdrl-launch ppo options.json --seed {task} --out runs/seed{task}
    """  # noqa: D301 (click reads the backspace as "do not wrap")
    from hdrl.distributed.slurm import SlurmJob, sbatch_text

    pairs = [tuple(text.split("=", 1)) for text in directives]
    wrong = next((text for text, pair in zip(directives, pairs, strict=True) if len(pair) != 2), None)
    if wrong is not None:
        raise OptionsError(f"--directive {wrong!r}, expected NAME=VALUE")
    if account is not None:
        pairs.insert(0, ("account", account))
    if venv is None and sys.prefix != sys.base_prefix:
        venv = Path(sys.prefix)
    text = sbatch_text(
        SlurmJob(
            command=command,
            site=site,
            time=time,
            cpus=cpus,
            name=name,
            array=array,
            each=each,
            directives=[(pair[0], pair[1]) for pair in pairs],
            modules=modules or None,
            venv=venv,
        )
    )
    if out is None:
        click.echo(text, nl=False)
        return
    if out.exists():
        raise OutputError(f"{out}: exists already, expected the name of a new file")
    with atomic_write(out) as file:
        file.write(text)
    click.echo(f"sbatch {out}")
