"""``hdrl options``: check options files, print their JSON Schema."""

from __future__ import annotations

import json

import click


@click.group()
def options() -> None:
    """Check options files, print their schema."""


@options.command()
def schema() -> None:
    """Print the JSON Schema of options files."""
    from hdrl.options import options_schema

    click.echo(json.dumps(options_schema(), indent=2))


@options.command()
@click.argument("file")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change an option, as in hdrl-launch.")
@click.option("--resolved", is_flag=True, help="Print the options with every default filled in.")
def check(file: str, overrides: tuple[str, ...], *, resolved: bool) -> None:
    """Check the options in FILE; the first mistake is told in one line."""
    from hdrl.options import read_options

    checked = read_options(file, overrides=overrides)
    if not resolved:
        click.echo(f"{file}: good")
        return
    from hdrl.experiment import resolve_options

    click.echo(json.dumps(resolve_options(checked).portable(), indent=2))
