"""Public names of pipelines: machines, sets, releases, policies, simulations, and what can be said without one.

Scripts and policy files import them from here; each is loaded when it is first used.
"""

from hdrl.base.lazy import lazy_names

__all__, __getattr__ = lazy_names(__name__, __file__)
