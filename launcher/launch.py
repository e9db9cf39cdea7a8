"""``hdrl-launch``: run an experiment, show its progress and its results."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hdrl.base.pyfiles import is_policy_file, trust_words
from hdrl.launcher.changes import LaunchError, agent_changes, changes_of, paths, workload_changes
from hdrl.launcher.completion import files_or
from hdrl.launcher.errors import CleanErrors, after_signal
from hdrl.launcher.numbers import IntRange
from hdrl.launcher.stopping import Stop
from hdrl.launcher.trust import trust_option
from hdrl.version import VERSION

if TYPE_CHECKING:
    from hdrl.experiment import Progress, RunResult
    from hdrl.options.file import OptionsFile

TRAINING_SHOWN = {"episode_return": "return", "loss": "loss", "entropy": "entropy", "steps_per_s": "steps/s"}
"""Numbers of a training that are shown while it runs, and what they are called then."""


@click.command(cls=CleanErrors, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("arguments", nargs=-1, metavar="[AGENT] OPTIONS", shell_complete=files_or("policies", "algorithms"))
@click.option(
    "-a",
    "--agent",
    help="Agent: a Python file, 'classic', a policy, or the name of an algorithm.",
    shell_complete=files_or("policies"),
)
@click.option("-im", "--inmodel", help="Model that a learning agent starts from.", shell_complete=files_or())
@click.option("-om", "--outmodel", help="File to which a learning agent saves its model.", shell_complete=files_or())
@click.option("--hdeeprm-model", is_flag=True, help="Save --outmodel in the layout that HDeepRM loads.")
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    help="Resume the training in this folder; with OPTIONS, start it if it is new.",
)
@click.option(
    "-cw",
    "--custom-workload",
    "--customworkload",
    "custom",
    help="Workload in Batsim's JSON, instead of the one in the options.",
    shell_complete=files_or("workloads"),
)
@click.option("-nr", "--runs", "--nbruns", type=IntRange(1), help="Number of runs; a training continues.")
@click.option("--simulator", metavar="NAME", help="Simulator, instead of the one in the options.")
@click.option(
    "--setting",
    metavar="NAME",
    help="Setting or its Python file, instead of the one in the options.",
    shell_complete=files_or("settings"),
)
@click.option("--seed", type=IntRange(0), help="Seed, instead of the one in the options.")
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), help="Folder for the results; default runs/<time>-<hash>."
)
@click.option("--on", default="local", metavar="LOCATION", help="Location of workers: local, ray, or ray:<address>.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change an option; VALUE is JSON or text.")
@click.option("--quiet", is_flag=True, help="Only print the folder of the results.")
@trust_option
@click.version_option(VERSION, prog_name="hdrl-launch")
def launch(
    arguments: tuple[str, ...],
    agent: str | None,
    inmodel: str | None,
    outmodel: str | None,
    resume: Path | None,
    custom: str | None,
    runs: int | None,
    simulator: str | None,
    setting: str | None,
    seed: int | None,
    out: Path | None,
    on: str,
    overrides: tuple[str, ...],
    *,
    hdeeprm_model: bool,
    quiet: bool,
    trust: bool,
) -> None:
    """Run the experiment that the file OPTIONS describes.

    \b
    hdrl-launch options.json                the agent in the options
    hdrl-launch classic options.json        the classic agent
    hdrl-launch sjf options.json            a policy of the setting
    hdrl-launch ppo options.json            a built-in agent that learns
    hdrl-launch agent.py options.json       your own agent
    hdrl-launch options.json -a agent.py    the same
    hdrl-launch --resume runs/mine          resume a training
    hdrl-launch ppo options.json --resume runs/mine
                                            start or resume it

    AGENT is a built-in name, a policy or a Python file. The file defines policy(view), a subclass of ClassicAgent, or
    an agent that learns: see docs/learning.md.
    """  # noqa: D301 (click reads the backspace as "do not wrap")
    from hdrl.experiment.run.inputs import RESUME_FILE, read_options

    changes = changes_of(overrides, {"seed": seed, "runs": runs, "simulator": simulator})
    resumes = resume is not None
    if resume is not None and out is not None:
        raise LaunchError(f"--resume {resume} already names the folder; give no --out")
    if resume is not None and not arguments:
        from hdrl.experiment import resumed_options

        if any(one is not None for one in (agent, inmodel, custom)):
            raise LaunchError(
                f"--resume {resume} already sets the agent, the model and the jobs; leave them out or add OPTIONS"
            )
        changes += paths({"agent.output_model": outmodel})
        options = resumed_options(resume, changes, trust=trust)
    else:
        agent, options_file = split_arguments(arguments, agent)
        if inmodel is not None and not Path(inmodel).is_file():
            problem = "is a folder" if Path(inmodel).is_dir() else "no such file"
            raise LaunchError(f"{inmodel}: {problem}, expected a model (--inmodel)")
        changes += workload_changes(custom)
        changes += agent_changes(agent, options_file, setting, overrides=changes, trust=trust or None)
        changes += paths({"agent.input_model": inmodel, "agent.output_model": outmodel})
        options = read_options(options_file, overrides=changes, setting=setting, trust=trust or None)
        options = _with_own_model(options, quiet=quiet)
        resumes = resume is not None and (resume / RESUME_FILE).is_file()
    _start_logging(options, quiet=quiet)
    if not quiet and outmodel is not None and options.agent_options.run == "test":
        click.echo(f"agent.run is 'test': hdrl trains no model and writes none to {outmodel}", err=True)
    _run(options, resume or out, quiet=quiet, resumes=resumes, on=on, hdeeprm_model=hdeeprm_model)


def _with_own_model(options: OptionsFile, *, quiet: bool) -> OptionsFile:
    """Return options that name a model: of a test without one, that which the same options have trained."""
    given = options.agent_options
    if given.run != "test" or given.input_model is not None or options.learning.algorithm is None:
        return options
    from hdrl.experiment import resolve_options
    from hdrl.experiment.run.folder import folders_of
    from hdrl.options.sweep import MODEL_FILE

    trained = resolve_options(options.with_agent(run="train")).sha256()
    models = [folder / MODEL_FILE for folder in folders_of(trained) if (folder / MODEL_FILE).is_file()]
    if not models:
        return options
    if not quiet:
        click.echo(f"model: {models[0]}, trained with the same options", err=True)
    return options.with_agent(input_model=str(models[0].absolute()))


def split_arguments(arguments: tuple[str, ...], agent: str | None) -> tuple[str | None, str]:
    """Separate the agent from the options file: ``AGENT OPTIONS``, ``OPTIONS -a AGENT`` or ``OPTIONS``."""
    if not arguments:
        raise click.MissingParameter(param_type="argument", param_hint="'[AGENT] OPTIONS'")
    if len(arguments) == 1:
        (one,) = arguments
        if agent is None and not one.endswith(".json") and (is_policy_file(one) or not Path(one).exists()):
            raise LaunchError(f"{one}: is no options file; expected [AGENT] OPTIONS, such as: {one} options.json")
        return agent, one
    if len(arguments) > 2:
        raise LaunchError(f"got {len(arguments)} arguments, expected [AGENT] OPTIONS")
    if agent is not None:
        raise LaunchError(f"the agent is given twice: {arguments[0]!r} and --agent {agent!r}")
    first, second = arguments
    if first.endswith(".json") and not second.endswith(".json"):
        first, second = second, first
    return first, second


def _start_logging(options: OptionsFile, *, quiet: bool) -> None:
    """Send hdrl's log to stderr, from the level in the options on, or nowhere."""
    handler = logging.NullHandler() if quiet else logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("hdrl")
    logger.handlers = [handler]
    logger.setLevel(options.log_level)


def _run(options: OptionsFile, out: Path | None, *, quiet: bool, resumes: bool, on: str, hdeeprm_model: bool) -> None:
    from hdrl.experiment import default_folder, resolve_options, run_experiment

    options = resolve_options(options)
    folder = out if out is not None else default_folder(options.sha256(), datetime.now())
    stop = Stop()
    with _progress(stop, quiet=quiet) as progress:
        result = run_experiment(
            options, out=folder, progress=progress, resumes=resumes, on=on, hdeeprm_model=hdeeprm_model
        )
    training = result.training
    if training is not None and not training.is_complete:
        raise after_signal(
            "hdrl-launch",
            f"interrupted after {training.n_iterations} iterations; "
            f"hdrl-launch --resume {result.folder}{trust_words(options.portable())} continues",
            stop.number,
        )
    if quiet:
        click.echo(str(result.folder))
    else:
        _show(result)


@contextlib.contextmanager
def _progress(stop: Stop, *, quiet: bool) -> Iterator[Progress]:
    """Show messages and a bar on stderr; without a terminal the messages only, and nothing if it is to be quiet."""
    from hdrl.experiment import Progress

    if quiet:
        silent = Progress()
        yield replace(silent, stoppable=lambda: stop.listening(silent.message))
        return
    from rich.console import Console
    from rich.progress import TextColumn

    from hdrl.launcher.bars import StageBar

    console = Console(stderr=True, highlight=False)
    with StageBar(console, TextColumn("{task.fields[numbers]}")) as bar:

        def show_jobs(finished: int, total: int) -> None:
            bar.show("jobs", finished, total)

        def show_training(done: int, total: int, values: Mapping[str, float]) -> None:
            numbers = _training_numbers(values)
            bar.show("iterations", done, total, numbers=numbers)
            if not console.is_terminal and (done % max(total // 10, 1) == 0 or done == total):
                console.print(f"iteration {done} of {total}: {numbers}", markup=False, soft_wrap=True)

        def show_message(text: str) -> None:
            console.print(text, markup=False)

        def stoppable() -> contextlib.AbstractContextManager[Callable[[], bool]]:
            return stop.listening(show_message)

        yield Progress(message=show_message, jobs=show_jobs, training=show_training, stoppable=stoppable)


def _training_numbers(values: Mapping[str, float]) -> str:
    """Return the numbers of a training that matter most, those of the objective included."""
    shown = [(name, values[key]) for key, name in TRAINING_SHOWN.items() if key in values]
    return "  ".join(f"{name} {_number(round(value) if 1000 <= abs(value) < 1e12 else value)}" for name, value in shown)


def _show(result: RunResult) -> None:
    """Print the metrics and where the results are."""
    from rich.table import Table

    from hdrl.figures.numbers import metric_form
    from hdrl.launcher.bars import print_table, print_text

    n_runs = len(result.runs)
    first = result.runs[0]
    title = f"{first.policy}, {first.n_jobs:,} jobs" + (f", mean of {n_runs} runs" if n_runs > 1 else "")
    table = Table(title=title)
    table.add_column("metric")
    table.add_column("value", justify="right")
    table.add_column("unit")
    metrics, setting = result.metrics, result.plan.setting
    for name in setting.measures.shown:
        info = setting.measures.metrics[name]
        if info.hides_zero and (not metrics[name] or math.isnan(metrics[name])):
            continue
        form = metric_form(name, info, [metrics[name]])
        table.add_row(name, form.number(metrics[name]), form.unit)
    print_table(table)
    training = result.training
    if training is not None:
        print_text(
            f"trained in {_counted(training.n_iterations, 'iteration')}, {_counted(training.n_steps, 'decision')}, "
            f"{_counted(training.n_episodes, 'episode')}; the model is of iteration {training.best_iteration:,}"
        )
        print_text(f"model in {training.model}")
    if first.n_dropped:
        print_text(left_out(first.dropped))
    print_text(f"results in {result.folder}")


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def left_out(dropped: Mapping[str, int]) -> str:
    """Return the number of jobs that were left out, and the reasons."""
    n_dropped = sum(dropped.values())
    many = f"{n_dropped:,} jobs of the workload were" if n_dropped > 1 else "one job of the workload was"
    return f"{many} left out: {', '.join(f'{reason} ({count:,})' for reason, count in dropped.items())}"


def _number(value: float) -> str:
    """Return a number for people: thousands in groups, exponents only where digits are too many to count."""
    if not math.isfinite(value):
        return "-"
    if value == int(value) and abs(value) < 1e12:
        return f"{int(value):,}"
    return f"{value:,.3f}" if 1e-3 <= abs(value) < 1e12 else f"{value:.6g}"
