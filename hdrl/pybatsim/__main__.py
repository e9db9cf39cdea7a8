"""``python -m hdrl.pybatsim`` prints the file that PyBatsim runs to let hdrl decide."""

from pathlib import Path

import click

if __name__ == "__main__":
    click.echo(Path(__file__).with_name("scheduler.py"))
