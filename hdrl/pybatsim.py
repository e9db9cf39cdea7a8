"""Public names of the way to and from PyBatsim; ``python -m hdrl.batsim.pybatsim`` prints the file that PyBatsim runs.

They live in `hdrl.batsim.pybatsim`; scripts import them from here.
"""

from pathlib import Path

import click

from hdrl.batsim import pybatsim
from hdrl.batsim.pybatsim import *
from hdrl.batsim.pybatsim import __all__ as __all__

if __name__ == "__main__":
    click.echo(Path(pybatsim.__file__).with_name("scheduler.py"))
