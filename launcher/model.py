"""``hdrl model``: what can be done with model files."""

from __future__ import annotations

from pathlib import Path

import click


@click.group()
def model() -> None:
    """Average models."""


@model.command()
@click.argument("models", nargs=-1, required=True, metavar="MODEL...")
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), required=True, metavar="FILE", help="The model file to write."
)
@click.option("--force", is_flag=True, help="Replace the file if it is there already.")
def average(models: tuple[str, ...], out: Path, *, force: bool) -> None:
    """Write the mean of the weights of several MODELs that evolved on the same jobs, with different seeds."""
    from hdrl.experiment.train.averaging import average_models

    click.echo(f"{average_models(models, out, force=force)}: mean of {len(models)} models")
