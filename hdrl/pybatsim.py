"""Public names of the way to and from PyBatsim; ``python -m hdrl.pybatsim`` prints the file that PyBatsim runs.

They live in `hdrl.settings.batch.pybatsim`; scripts import them from here.
"""

from pathlib import Path

import click

from hdrl.settings.batch import pybatsim
from hdrl.settings.batch.pybatsim import *
from hdrl.settings.batch.pybatsim import __all__ as __all__

if __name__ == "__main__":
    click.echo(Path(pybatsim.__file__).with_name("scheduler.py"))
