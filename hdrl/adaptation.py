"""Public names of jobs that adapt: devices, models, tables, loads, policies, simulations.

Scripts and policy files import them from here; each is loaded when it is first used.
"""

from hdrl.base.lazy import lazy_names

__all__, __getattr__ = lazy_names(__name__, __file__)
