"""``hdrl-launch``: run an experiment, show how far it is and what came of it."""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hdrl.errors import HdrlError
from hdrl.launcher.errors import CleanErrors
from hdrl.version import VERSION

if TYPE_CHECKING:
    from hdrl.experiment import Progress, RunResult
    from hdrl.options import Options

BUILT_IN_AGENTS = ("classic",)
"""Names that stand for an agent without a file."""

SIMULATORS = ("embedded", "exact", "batsim")

SHOWN = (
    "n_jobs",
    "n_finished",
    "makespan_s",
    "mean_wait_s",
    "p95_wait_s",
    "max_wait_s",
    "mean_turnaround_s",
    "mean_slowdown",
    "mean_bounded_slowdown",
    "utilization",
    "energy_j",
    "energy_delay_product_js",
    "n_bandwidth_overcommitments",
)
"""Metrics that are always shown; the file has more."""

SHOWN_IF_ANY = ("n_failed", "n_walltime_reached", "n_killed", "n_rejected", "n_unfinished", "n_not_started")
"""Counts of jobs that did not go well."""


class LaunchError(HdrlError):
    """The command line makes no sense."""


@contextlib.contextmanager
def _rare_collections() -> Iterator[None]:
    """Search for unreachable cycles rarely, and not when the process ends: nearly all that is made here stays.

    The compiler brings so many objects that the searches would take a fifth of a short run.
    """
    usual = gc.get_threshold()
    gc.set_threshold(100_000, *usual[1:])
    atexit.register(gc.freeze)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


@click.command(cls=CleanErrors, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("arguments", nargs=-1, required=True, metavar="[AGENT] OPTIONS")
@click.option("-a", "--agent", help="Agent: a Python file, or 'classic'.")
@click.option("-im", "--inmodel", help="Model that a learning agent starts from.")
@click.option("-om", "--outmodel", help="Where a learning agent saves its model.")
@click.option(
    "-cw",
    "--custom-workload",
    "--customworkload",
    "custom",
    help="Workload in Batsim's JSON, instead of the one that the options name.",
)
@click.option("-nr", "--runs", "--nbruns", type=click.IntRange(1), help="Number of runs, each with its own seed.")
@click.option("--simulator", type=click.Choice(SIMULATORS), help="Who simulates, instead of what the options say.")
@click.option("--seed", type=click.IntRange(0), help="Seed, instead of the one in the options.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for the results; default runs/<time>-<hash>.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change an option; VALUE is JSON or text.")
@click.option("--quiet", is_flag=True, help="Print the folder of the results only.")
@click.version_option(VERSION, prog_name="hdrl-launch")
@_rare_collections()
def launch(
    arguments: tuple[str, ...],
    agent: str | None,
    inmodel: str | None,
    outmodel: str | None,
    custom: str | None,
    runs: int | None,
    simulator: str | None,
    seed: int | None,
    out: Path | None,
    overrides: tuple[str, ...],
    *,
    quiet: bool,
) -> None:
    """Run the experiment that the file OPTIONS describes.

    \b
    hdrl-launch options.json                classic agent, as the options say
    hdrl-launch classic options.json        the same
    hdrl-launch agent.py options.json       agent of your own
    hdrl-launch options.json -a agent.py    the same

    AGENT is a Python file that defines policy(view) or a subclass of hdrl.agents.classic.ClassicAgent.
    """  # noqa: D301 (click reads the backspace as "do not wrap")
    from hdrl.options import read_options

    agent, options_file = _who_and_what(arguments, agent)
    if inmodel is not None and not Path(inmodel).is_file():
        raise LaunchError(f"{inmodel}: no such file, expected a model (--inmodel)")
    files = {
        "pybatsim.agent.file": None if agent in (None, *BUILT_IN_AGENTS) else agent,
        "pybatsim.agent.input_model": inmodel,
        "pybatsim.agent.output_model": outmodel,
        "workload.custom": custom,
    }
    # Paths on the command line start from the current folder, those in the options from theirs.
    changes = [f"{key}={json.dumps(str(Path(path).absolute()))}" for key, path in files.items() if path is not None]
    if agent in BUILT_IN_AGENTS:
        changes.append("pybatsim.agent.file=null")
    changes += [
        f"{key}={value}"
        for key, value in (("seed", seed), ("runs", runs), ("simulator", simulator))
        if value is not None
    ]
    options = read_options(options_file, overrides=[*overrides, *changes])
    _start_logging(options)
    _run(options, out, quiet=quiet)


def _who_and_what(arguments: tuple[str, ...], agent: str | None) -> tuple[str | None, str]:
    """Tell the agent and the options file apart: ``AGENT OPTIONS``, ``OPTIONS -a AGENT`` or ``OPTIONS``."""
    if len(arguments) == 1:
        return agent, arguments[0]
    if len(arguments) > 2:
        raise LaunchError(f"got {len(arguments)} arguments, expected [AGENT] OPTIONS")
    if agent is not None:
        raise LaunchError(f"the agent is given twice: {arguments[0]!r} and --agent {agent!r}")
    first, second = arguments
    if first.endswith(".json") and not second.endswith(".json"):
        first, second = second, first
    if first not in BUILT_IN_AGENTS and not first.endswith(".py"):
        raise LaunchError(f"no agent {first!r}; expected a Python file or {', '.join(BUILT_IN_AGENTS)}")
    return first, second


def _start_logging(options: Options) -> None:
    """Send what hdrl logs to stderr, from the level in the options on."""
    import logging

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("hdrl")
    logger.handlers = [handler]
    logger.setLevel(options.pybatsim.log_level)


def _run(options: Options, out: Path | None, *, quiet: bool) -> None:
    from datetime import datetime

    from hdrl.experiment import default_folder, resolve_options, run_experiment

    options = resolve_options(options)
    folder = out if out is not None else default_folder(options.sha256(), datetime.now())
    with _progress(quiet=quiet) as progress:
        result = run_experiment(options, out=folder, progress=progress)
    if quiet:
        click.echo(str(result.folder))
    else:
        _show(result)


@contextlib.contextmanager
def _progress(*, quiet: bool) -> Iterator[Progress | None]:
    """Show messages and a bar on stderr; without a terminal the messages only."""
    if quiet:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    from hdrl.experiment import Progress

    console = Console(stderr=True, highlight=False)
    bar = Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task("jobs", total=None, start=False)

        def show_jobs(finished: int, total: int) -> None:
            bar.start_task(task)
            bar.update(task, completed=finished, total=total)

        yield Progress(message=lambda text: console.print(text, markup=False), jobs=show_jobs)


def _show(result: RunResult) -> None:
    """Print the metrics and where the results are."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from hdrl.metrics import METRICS

    n_runs = len(result.runs)
    first = result.runs[0]
    title = f"{first.policy}, {first.n_jobs:,} jobs" + (f", mean of {n_runs} runs" if n_runs > 1 else "")
    table = Table(title=title)
    table.add_column("metric")
    table.add_column("value", justify="right")
    table.add_column("unit")
    metrics = result.metrics
    for name in (*SHOWN, *(name for name in SHOWN_IF_ANY if metrics[name])):
        unit = METRICS[name].unit
        table.add_row(name, _number(metrics[name]), "" if unit == "1" else unit)
    console = Console(highlight=False)
    console.print(table)
    if first.n_dropped:
        console.print(f"{first.n_dropped:,} jobs of the workload were left out, see provenance.json")
    console.print(Text(f"results in {result.folder}"), soft_wrap=True)


def _number(value: float) -> str:
    """Return a number for people: thousands in groups, exponents only where nobody could count the digits."""
    if not math.isfinite(value):
        return "-"
    if value == int(value) and abs(value) < 1e12:
        return f"{int(value):,}"
    return f"{value:,.3f}" if 1e-3 <= abs(value) < 1e12 else f"{value:.6g}"
