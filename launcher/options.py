"""``hdrl options``: check options files, print their JSON Schema."""

from __future__ import annotations

import json

import click

from hdrl.launcher.completion import files_or
from hdrl.launcher.groups import CommandGroup
from hdrl.launcher.trust import trust_option
from hdrl.setting import BATCH


@click.group(cls=CommandGroup)
def options() -> None:
    """Check options files, print their schema."""


@options.command()
@click.option(
    "--setting",
    default=BATCH,
    show_default=True,
    help="Setting, or its Python file.",
    shell_complete=files_or("settings"),
)
def schema(setting: str) -> None:
    """Print the JSON Schema of options files."""
    from hdrl.options.reading import schema_of
    from hdrl.setting import find_setting

    click.echo(json.dumps(schema_of(find_setting(setting).inputs.Options), indent=2))


@options.command()
@click.argument("file", shell_complete=files_or())
@click.option("-a", "--agent", help="Agent, as in hdrl-launch.", shell_complete=files_or("policies"))
@click.option(
    "-cw",
    "--custom-workload",
    "custom",
    metavar="FILE",
    help="Workload in Batsim's JSON, as in hdrl-launch.",
    shell_complete=files_or("workloads"),
)
@click.option(
    "--setting",
    metavar="NAME",
    help="Setting or its Python file, instead of the one in the options.",
    shell_complete=files_or("settings"),
)
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change an option, as in hdrl-launch.")
@click.option("--resolved", is_flag=True, help="Print the options with every default filled in.")
@trust_option
def check(
    file: str,
    agent: str | None,
    custom: str | None,
    setting: str | None,
    overrides: tuple[str, ...],
    *,
    resolved: bool,
    trust: bool,
) -> None:
    """Check the options in FILE and the files that they name, for the same mistakes as hdrl-launch.

    It runs no Python file that FILE names without --trust.
    """
    from hdrl.experiment import check_experiment, resolve_options
    from hdrl.experiment.run.inputs import read_options
    from hdrl.launcher.changes import agent_changes, workload_changes

    changes = [*overrides, *workload_changes(custom)]
    changes += agent_changes(agent, file, setting, overrides=changes, trust=trust)
    options_ = read_options(file, overrides=changes, setting=setting, trust=trust)
    if resolved:
        click.echo(json.dumps(resolve_options(options_).portable(), indent=2))
        return
    check_experiment(options_)
    click.echo(f"{file}: good")
