"""``hdrl model``: what can be done with model files."""

from __future__ import annotations

from pathlib import Path

import click

from hdrl.launcher.completion import files_or
from hdrl.launcher.groups import CommandGroup
from hdrl.launcher.trust import trust_option


@click.group(cls=CommandGroup)
def model() -> None:
    """Average models, and import those of other libraries."""


@model.command()
@click.argument("models", nargs=-1, required=True, metavar="MODEL...", shell_complete=files_or())
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), required=True, metavar="FILE", help="The model file to write."
)
@click.option("--force", is_flag=True, help="Replace an existing file.")
def average(models: tuple[str, ...], out: Path, *, force: bool) -> None:
    """Write the mean of the weights of several MODELs that evolved on the same jobs, with different seeds."""
    from hdrl.experiment.train.averaging import average_models

    click.echo(f"{average_models(models, out, force=force)}: mean of {len(models)} models")


@model.command("import")
@click.argument("source", type=click.Path(path_type=Path), metavar="FILE")
@click.argument("options", type=click.Path(path_type=Path), metavar="OPTIONS")
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), required=True, metavar="FILE", help="The model file to write."
)
@click.option(
    "--activation",
    type=click.Choice(["relu", "tanh", "leaky_relu"]),
    help="Activation after hidden layers; by default the one in FILE, or else its library's.",
)
@click.option(
    "--statistics",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Normalization of the observations (VecNormalize): numpy.savez(FILE, mean=..., var=...).",
)
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change an option of OPTIONS; repeatable.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@trust_option
def import_(
    source: Path,
    options: Path,
    out: Path,
    activation: str | None,
    statistics: Path | None,
    overrides: tuple[str, ...],
    *,
    force: bool,
    trust: bool,
) -> None:
    """Make a model file from FILE, saved by Stable-Baselines3, RLlib or CleanRL.

    OPTIONS is an options file that describes the environment of the training. FILE was written by model.save
    of Stable-Baselines3, or by torch.save(network.state_dict(), FILE). hdrl runs nothing in it.
    """
    from hdrl.experiment.run.inputs import read_options
    from hdrl.experiment.train.foreign import import_model

    read = read_options(options, overrides=overrides, trust=trust)
    taken_for = import_model(source, read, out, activation=activation, statistics=statistics, force=force)
    click.echo(f"{out}: {taken_for}")
