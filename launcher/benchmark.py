"""``hdrl benchmark``: how fast things are here."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hdrl.base.errors import OutputError
from hdrl.base.files import write_json
from hdrl.launcher.groups import CommandGroup
from hdrl.launcher.numbers import IntRange

if TYPE_CHECKING:
    from hdrl.experiment.devices import DeviceSpeed


@click.group(cls=CommandGroup)
def benchmark() -> None:
    """Measure speeds on this machine."""


@benchmark.command()
@click.option("--device", "-d", "chosen", multiple=True, help="cpu, cuda or mps; default: all that torch finds.")
@click.option("--steps", type=IntRange(200), default=6000, show_default=True, help="Steps on each device.")
@click.option("--whole", is_flag=True, help="Up to 400,000 steps or 120 minutes, until the pendulum stands.")
@click.option("--seed", type=IntRange(0), default=0, show_default=True, help="Seed of agent and environment.")
@click.option("-o", "--out", type=click.Path(path_type=Path), metavar="FILE", help="JSON file for the numbers.")
def devices(chosen: tuple[str, ...], steps: int, seed: int, out: Path | None, *, whole: bool) -> None:
    """Measure how many steps per second DDPG learns on each device, beside published numbers."""
    from hdrl.experiment.devices import MAX_STEPS, measure_device
    from hdrl.learn.device import available_devices

    if out is not None and not out.absolute().parent.is_dir():
        raise OutputError(f"{out}: cannot be written (no such folder)")
    found = available_devices()
    for name in chosen:
        if name not in found:
            measure_device(name)  # says what there is
    speeds = [measure_device(name, max_steps=MAX_STEPS if whole else steps, seed=seed) for name in chosen or found]
    if out is not None:
        write_json(out, [dataclasses.asdict(one) for one in speeds])
    _show(speeds)


def _show(speeds: list[DeviceSpeed]) -> None:
    from rich.table import Table

    from hdrl.experiment.devices import compared
    from hdrl.launcher.bars import print_table

    table = Table(title="DDPG 512-256-64-32 on Pendulum-v1, steps per second with one update each")
    for column in ("device", "name", "steady", "mean", "spread", "steps"):
        table.add_column(column, justify="left" if column in ("device", "name") else "right")
    ours = {(one.device, one.name): one for one in speeds}
    for kind, name, rate in compared(speeds):
        one = ours.get((kind, name))
        more = [f"{one.mean_per_s:.1f}", f"{one.spread_per_s:.1f}", f"{one.n_steps:,}"] if one else ["", "", ""]
        table.add_row(kind, name, f"{rate:.1f}", *more)
    print_table(table)
