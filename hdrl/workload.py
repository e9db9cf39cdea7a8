"""Public names of workloads of batch jobs.

They live in `hdrl.settings.batch.workload`; scripts and policy files import them from here.
"""

from hdrl.settings.batch.workload import *
from hdrl.settings.batch.workload import __all__ as __all__
