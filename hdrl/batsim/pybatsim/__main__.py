"""``python -m hdrl.batsim.pybatsim`` prints the file that PyBatsim runs."""

from pathlib import Path

import click

click.echo(Path(__file__).with_name("scheduler.py"))
