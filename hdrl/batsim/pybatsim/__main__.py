"""``python -m hdrl.batsim.pybatsim`` prints the file that PyBatsim runs."""

from pathlib import Path

import click

from hdrl.batsim import pybatsim

click.echo(Path(pybatsim.__file__).with_name("scheduler.py"))
