"""Public names of simulations of batch jobs: views, decisions, traces.

They live in `hdrl.settings.batch.simulation`; scripts and policy files import them from here.
"""

from hdrl.settings.batch.simulation import *
from hdrl.settings.batch.simulation import __all__ as __all__
