"""``hdrl``: one command for everything; each part of it is loaded when it is used."""

from __future__ import annotations

import importlib
from typing import NamedTuple

import click

from hdrl.base.errors import suggest
from hdrl.launcher.errors import CleanErrors
from hdrl.version import VERSION


class LazyCommand(NamedTuple):
    """Location of a command, and its line in the help."""

    module: str
    attribute: str
    help: str


COMMANDS = {
    "init": LazyCommand("hdrl.launcher.init", "init", "Create a folder to start an experiment from."),
    "list": LazyCommand("hdrl.launcher.listing", "list_names", "List policies, metrics, algorithms, platforms, ..."),
    "options": LazyCommand("hdrl.launcher.options", "options", "Check options files, print their schema."),
    "run": LazyCommand("hdrl.launcher.launch", "launch", "Run an experiment (the same as hdrl-launch)."),
    "compare": LazyCommand("hdrl.launcher.compare", "compare", "Compare policies, with intervals and tests."),
    "tune": LazyCommand("hdrl.launcher.tune", "tune", "Evolve a policy for a log, test it, recommend one."),
    "report": LazyCommand("hdrl.launcher.report", "report", "Write one HTML file about runs and comparisons."),
    "watch": LazyCommand("hdrl.launcher.watch", "watch", "Show the progress of a run in the browser."),
    "plot": LazyCommand("hdrl.launcher.plot", "plot", "Draw pictures of runs."),
    "metrics": LazyCommand("hdrl.launcher.metrics", "metrics", "Show the metrics of runs side by side."),
    "runs": LazyCommand("hdrl.launcher.runs", "runs", "List the runs in a folder and their results."),
    "bench": LazyCommand("hdrl.launcher.bench", "bench", "Fixed tasks: evaluate an entry, check results, the board."),
    "reproduce": LazyCommand(
        "hdrl.launcher.reproduce", "reproduce", "Repeat a claimed experiment, print the differences."
    ),
    "platform": LazyCommand("hdrl.launcher.platform", "platform", "Show platforms and export them for SimGrid."),
    "predict": LazyCommand("hdrl.launcher.predict", "predict", "Evaluate predictors of run times, train networks."),
    "model": LazyCommand("hdrl.launcher.model", "model", "Import models of other libraries, average models."),
    "workload": LazyCommand("hdrl.launcher.workload", "workload", "Generate, convert and describe workloads."),
    "jobstat": LazyCommand("hdrl.launcher.workload", "jobstat", "Print one number about the jobs of a workload."),
    "adaptation": LazyCommand(
        "hdrl.launcher.adaptation", "adaptation", "Measure tables of DNN jobs that adapt, run live ones."
    ),
    "pybatsim": LazyCommand("hdrl.launcher.pybatsim", "pybatsim", "Run an experiment with a scheduler of PyBatsim."),
    "benchmark": LazyCommand("hdrl.launcher.benchmark", "benchmark", "Measure how fast devices learn."),
    "site": LazyCommand("hdrl.launcher.site", "site", "Import the accounting data of a cluster."),
    "what-if": LazyCommand("hdrl.launcher.whatif", "what_if", "Find out how many nodes a site needs, by policy."),
    "wait": LazyCommand("hdrl.launcher.wait", "wait", "Predict when each waiting job of a site will start."),
    "distil": LazyCommand("hdrl.launcher.distil", "distil", "Approximate a learned network by a short index."),
    "deploy": LazyCommand("hdrl.launcher.deploy", "deploy", "Order the queue of a real Slurm by a policy."),
    "ab": LazyCommand("hdrl.launcher.ab", "ab", "Alternate two policies on a cluster, and compare them."),
    "fidelity": LazyCommand(
        "hdrl.launcher.fidelity", "fidelity", "Compare policies with recorded runs of a real Slurm."
    ),
    "slurm": LazyCommand("hdrl.launcher.slurm", "slurm", "Write a file for sbatch that runs any command of hdrl."),
    "clean": LazyCommand("hdrl.launcher.clean", "clean", "Delete results and no other files."),
    "cache": LazyCommand("hdrl.launcher.cache", "cache", "Show or clear the compiled code on disk."),
}

# What a newcomer needs first stands first.
GROUPS = {
    "Run": ("init", "run", "options", "list", "pybatsim"),
    "Judge": ("compare", "tune", "bench", "reproduce"),
    "Look": ("report", "watch", "plot", "metrics", "runs"),
    "Data": ("workload", "platform", "predict", "jobstat"),
    "Your cluster": ("site", "what-if", "wait", "deploy", "ab", "fidelity", "slurm"),
    "Learn": ("model", "distil", "adaptation"),
    "Maintain": ("benchmark", "cache", "clean"),
}

NAME_WIDTH = max(map(len, COMMANDS))


class LazyGroup(CleanErrors, click.Group):
    """A group that imports commands on call, so that help is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order of the help."""
        del ctx
        return [name for names in GROUPS.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            if ctx.resilient_parsing:  # the tab key behind a misspelled command
                return None
            ctx.fail(f"no command {cmd_name!r}; {_suggest(cmd_name)}")
        place = COMMANDS[cmd_name]
        command = getattr(importlib.import_module(place.module), place.attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{place.module}.{place.attribute} is not a command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands into the help without importing them."""
        del ctx
        for title, names in GROUPS.items():
            with formatter.section(title):
                # Padded, so that the texts of all groups begin in one column.
                formatter.write_dl([(f"{name:<{NAME_WIDTH}}", COMMANDS[name].help) for name in names])


def _suggest(name: str) -> str:
    return suggest(name, COMMANDS)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="hdrl")
def cli() -> None:
    """Find out whether a scheduling policy, learned or not, beats the others on your own jobs.

    Completion by the tab key, in bash: eval "$(_HDRL_COMPLETE=bash_source hdrl)"; zsh and fish likewise.
    """
