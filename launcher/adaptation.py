"""``hdrl adaptation``: measure tables of adapting jobs, and say what they would be measured on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


@click.group()
def adaptation() -> None:
    """Measure tables of DNN jobs that adapt."""


@adaptation.command()
@click.argument("out", type=click.Path(path_type=Path), metavar="OUT")
@click.option("--model", required=True, help="Network: convnet2, small_convnet, feedforward2, ...")
@click.option("--data", required=True, help="signals, shapes or digits with :DIFFICULTY, or cifar10:FOLDER.")
@click.option("--budget", "budget_s", type=float, required=True, help="How long a job may train, in seconds.")
@click.option("--start", "start_s", type=float, required=True, help="When it adapts first, in seconds.")
@click.option("--gap", "gap_s", type=float, required=True, help="Seconds between two decisions.")
@click.option("--device", default="counted", show_default=True, help="Name of what it runs on.")
@click.option("--clock", default="counted", show_default=True, help="counted, table:FILE or wall.")
@click.option("--seeds", type=click.IntRange(min=1), default=10, show_default=True, help="Trainings of each sequence.")
@click.option(
    "--rate",
    type=click.Choice(["reset", "epochs", "linear"]),
    default="reset",
    show_default=True,
    help="Rule of the learning rate.",
)
@click.option(
    "--norm",
    type=click.Choice(["preserving", "fresh"]),
    default="preserving",
    show_default=True,
    help="How inserted normalisations begin.",
)
@click.option("--scenario", default="", help="A word for the start, told in the table.")
@click.option("--jobs", "-j", "n_workers", type=click.IntRange(min=1), help="Processes; by default one per core.")
@click.option("--on", default="local", show_default=True, help="local, ray, or ray://HOST:PORT.")
def table(out: Path, seeds: int, scenario: str, n_workers: int | None, on: str, **plan: Any) -> None:
    """Train a job under every sequence of adaptations and write the table OUT.

    What was measured is kept beside it in OUT.parts, a file for each seed: the same command continues an interrupted
    one.
    """
    from functools import partial

    from hdrl.distributed import run_tasks
    from hdrl.errors import OutputError
    from hdrl.files import write_json
    from hdrl.settings.adaptation.live.making import Plan, check_plan, table_json

    what = Plan(**plan)
    check_plan(what)
    if out.suffix != ".json" or out.exists():
        raise OutputError(
            f"{out}: {'is there already' if out.exists() else 'is no name of a table'}, expected NEW.json"
        )
    parts = [out.with_suffix(".parts") / f"seed_{seed}.json" for seed in range(seeds)]

    def tell(index: int, result: object) -> None:
        del result
        click.echo(f"{parts[index].name}", err=True)

    run_tasks(partial(_measure, what), list(enumerate(parts)), on=on, n_workers=n_workers, on_result=tell)
    write_json(out, table_json(what, parts, scenario), indent=None)
    click.echo(f"{out}: {seeds} trainings of each sequence")


def _measure(plan: Any, task: tuple[int, Path]) -> None:
    from hdrl.settings.adaptation.live.making import measure_into

    measure_into(plan, *task)


@adaptation.command()
def check() -> None:
    """Say on what live jobs would run here: Python, torch, its threads, CUDA and GPUs."""
    from hdrl.settings.adaptation.live.check import describe_machine

    for name, value in describe_machine().items():
        click.echo(f"{name}: {value}")
