"""``hdrl options``: check options files, print their JSON Schema."""

from __future__ import annotations

import json

import click


@click.group()
def options() -> None:
    """Check options files, print their schema."""


@options.command()
@click.option("--setting", default="batch", show_default=True, help="Setting, or its Python file.")
def schema(setting: str) -> None:
    """Print the JSON Schema of options files."""
    from hdrl.options.reading import schema_of
    from hdrl.setting import find_setting

    click.echo(json.dumps(schema_of(find_setting(setting).Options), indent=2))


@options.command()
@click.argument("file")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change an option, as in hdrl-launch.")
@click.option("--resolved", is_flag=True, help="Print the options with every default filled in.")
def check(file: str, overrides: tuple[str, ...], *, resolved: bool) -> None:
    """Check the options in FILE; the first mistake gives one line."""
    from hdrl.experiment.run.inputs import read_options

    checked = read_options(file, overrides=overrides)
    if not resolved:
        click.echo(f"{file}: good")
        return
    from hdrl.experiment import resolve_options

    click.echo(json.dumps(resolve_options(checked).portable(), indent=2))
