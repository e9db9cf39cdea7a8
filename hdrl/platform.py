"""Public names of platforms of batch jobs.

They live in `hdrl.settings.batch.platform`; scripts and policy files import them from here.
"""

from hdrl.settings.batch.platform import *
from hdrl.settings.batch.platform import __all__ as __all__
