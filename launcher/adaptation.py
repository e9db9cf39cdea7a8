"""``hdrl adaptation``: measure tables of adapting jobs, run live ones, and say what they would run on."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from hdrl.base.errors import OptionsError, OutputError
from hdrl.base.files import expanded, write_json
from hdrl.base.sequences import EXAMPLE, fixed_actions, is_fixed, words_of
from hdrl.launcher.completion import files_or
from hdrl.launcher.groups import CommandGroup
from hdrl.launcher.numbers import Float, IntRange

_TRAINING_OPTIONS = (
    click.option("--model", required=True, help="convnet2, small_convnet, feedforward2, ..., or FILE.py with blocks."),
    click.option("--data", required=True, help="signals, shapes, clusters or digits with :DIFFICULTY, cifar10:FOLDER."),
)

_PLAN_OPTIONS = (
    *_TRAINING_OPTIONS,
    click.option("--budget", "budget_s", type=Float(), required=True, help="Training time of a job, in seconds."),
    click.option("--start", "start_s", type=Float(), required=True, help="Time of the first decision, in seconds."),
    click.option("--gap", "gap_s", type=Float(), required=True, help="Seconds between two decisions."),
    click.option("--device", help="Name of the device; by default the clock's."),
    click.option("--clock", default="counted", show_default=True, help="counted, table:FILE or wall."),
    click.option(
        "--rate",
        type=click.Choice(["reset", "epochs", "linear"]),
        default="reset",
        show_default=True,
        help="Rule of the learning rate.",
    ),
    click.option(
        "--norm",
        type=click.Choice(["preserving", "fresh"]),
        default="preserving",
        show_default=True,
        help="Initial state of inserted normalisations.",
    ),
)


def plan_options(command: Any) -> Any:
    """Give a command the options that say what trains, and when it is decided."""
    for option in reversed(_PLAN_OPTIONS):
        command = option(command)
    return command


@click.group(cls=CommandGroup)
def adaptation() -> None:
    """Measure tables of DNN jobs that adapt, and run live ones."""


@adaptation.command()
@click.argument("out", type=click.Path(path_type=Path), metavar="OUT")
@plan_options
@click.option("--seeds", type=IntRange(min=1), default=10, show_default=True, help="Trainings of each sequence.")
@click.option("--scenario", default="", help="A word for the start, written into the table.")
@click.option("--jobs", "-j", "n_workers", type=IntRange(min=1), help="Processes; by default one per core.")
@click.option("--on", default="local", show_default=True, help="local, ray, or ray://HOST:PORT.")
def table(out: Path, seeds: int, scenario: str, n_workers: int | None, on: str, **plan: Any) -> None:
    """Train a job under every sequence of adaptations and write the table OUT.

    OUT.parts beside it keeps the measurements, a file for each seed: the same command continues an interrupted one.
    """
    from hdrl.distributed import run_tasks
    from hdrl.settings.adaptation.live.making import check_plan, is_measured, measure_part, table_json

    what = _plan(plan)
    check_plan(what)
    _check_new(out, "a table")
    parts = [out.with_suffix(".parts") / f"seed_{seed}.json" for seed in range(seeds)]
    left = [seed for seed, part in enumerate(parts) if not is_measured(what, seed, part)]

    def keep(index: int, result: dict[str, Any]) -> None:
        # Here, not where it was measured: workers of a cluster may have other disks.
        part = parts[left[index]]
        part.parent.mkdir(parents=True, exist_ok=True)
        write_json(part, result, indent=None)
        click.echo(part.name, err=True)

    run_tasks(partial(measure_part, what), left, on=on, n_workers=n_workers, on_result=keep)
    write_json(out, table_json(what, parts, scenario), indent=None)
    click.echo(f"{out}: {seeds} training{'' if seeds == 1 else 's'} of each sequence")


def _plan(options: dict[str, Any]) -> Any:
    """Return the plan of a command's options."""
    from hdrl.settings.adaptation.live.clocks import device_of
    from hdrl.settings.adaptation.live.making import TablePlan

    return TablePlan(**{**options, "device": device_of(options["clock"], options["device"])})


@adaptation.command()
@click.argument("out", type=click.Path(path_type=Path), metavar="OUT")
@_TRAINING_OPTIONS[0]
@_TRAINING_OPTIONS[1]
@click.option("--device", required=True, help="Name of this machine.")
def times(out: Path, model: str, data: str, device: str) -> None:
    """Measure training times here, for a job and all its adapted networks, and write them to OUT.

    With --clock table:OUT jobs take these times on any machine.
    """
    from hdrl.settings.adaptation.live.timing import measure_times
    from hdrl.settings.adaptation.machine import COUNTED, read_device

    _check_new(out, "times")
    if read_device(device, "device").name == COUNTED:
        raise OptionsError(f"device is {COUNTED!r}, where work is counted, expected another name for this machine")
    found = measure_times(model, data, device, _N_DECISIONS)
    write_json(out, found)
    click.echo(f"{out}: {len(found['example_s'])} networks on {device}")


@adaptation.command()
@click.argument("out", type=click.Path(path_type=Path), metavar="OUT")
@click.argument("tables", nargs=-1, required=True, metavar="TABLE...", shell_complete=files_or())
def values(out: Path, tables: tuple[str, ...]) -> None:
    """Write the values of early stopped jobs of TABLEs to OUT, for load.adapting of GPU clusters.

    A TABLE is a file, a folder of them, or a pattern for names of shipped ones, such as digits_*.
    """
    from hdrl.settings.adaptation.inputs import find_tables
    from hdrl.settings.adaptation.values import values_json

    _check_new(out, "a file of values")
    found = [table for text in tables for table in find_tables(text, expanded(text), "TABLE")]
    write_json(out, values_json(found), indent=None)
    click.echo(f"{out}: values of {', '.join(table.name for table in found)}")


@adaptation.command()
def check() -> None:
    """Print the environment of live jobs here: Python, torch, its threads, CUDA and GPUs."""
    from hdrl.settings.adaptation.live.timing import describe_machine

    for name, value in describe_machine().items():
        click.echo(f"{name}: {value}")


@adaptation.command()
@click.argument("advisor", metavar="ADVISOR")
@plan_options
@click.option("--seeds", type=IntRange(min=1), default=1, show_default=True, help="Number of jobs.")
def run(advisor: str, seeds: int, **plan: Any) -> None:
    """Run live jobs under ADVISOR: a model file, last-while-half, or a sequence such as fixed-010."""
    from hdrl.settings.adaptation.live.env import LiveAdaptationEnv

    env = LiveAdaptationEnv(_plan(plan))
    decide = _advisor(advisor, env)
    for seed in range(seeds):
        observation, _ = env.reset(seed=seed)
        actions: list[int] = []
        is_done = False
        while not is_done:
            actions.append(decide(observation, len(actions)))
            observation, _, is_done, _, info = env.step(actions[-1])
        results = info["results"]
        done = words_of(actions, env.n_actions)
        click.echo(f"seed {seed}: {done}, validation {results['r']:.3f}, test {results['test_accuracy']:.3f}")


def _check_new(out: Path, what: str) -> None:
    if out.suffix != ".json" or out.exists():
        why = "exists already" if out.exists() else f"is not a name of {what}"
        raise OutputError(f"{out}: {why}, expected NEW.json")


def _advisor(text: str, env: Any) -> Any:
    """Return the decider: a function of an observation and the number of the decision that returns an action."""
    if is_fixed(text):
        actions = fixed_actions(text, _N_DECISIONS, env.n_actions, "a job")
        return lambda _, number: actions[number]
    from hdrl.settings.adaptation import index

    if text == index.BY_HAND:
        return lambda *_: env.index_action(index.start_weights())
    if not text.endswith(".pt"):
        raise OptionsError(
            f"advisor is {text!r}, expected a model file .pt, {index.BY_HAND}, or a fixed sequence such as {EXAMPLE}"
        )
    import torch

    from hdrl.agents import load_agent
    from hdrl.envs.index import index_spaces
    from hdrl.learn.evolution import EvolutionAgent
    from hdrl.learn.spaces import check_same_spaces

    agent = load_agent(text)
    own = agent.observation_space, agent.action_space
    if isinstance(agent, EvolutionAgent):
        check_same_spaces(own, index_spaces(len(index.NAMES), index.LARGEST_WEIGHT), text)
        return lambda *_: env.index_action(index.weights_of(agent.weights))
    check_same_spaces(own, (env.observation_space, env.action_space), text)

    def decide(observation: Any, number: int) -> int:
        del number
        return int(agent.act(torch.from_numpy(observation)[None], None, explore=False).actions.item())

    return decide


_N_DECISIONS = 3
"""Decisions of a plan."""
