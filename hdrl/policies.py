"""Public names of policies of batch jobs.

They live in `hdrl.settings.batch.policies`; scripts and policy files import them from here.
"""

from hdrl.settings.batch.policies import *
from hdrl.settings.batch.policies import __all__ as __all__
