"""Public names of batch jobs: platforms, workloads, simulations, policies, predictors, metrics, environments.

Scripts and policy files import them from here; each is loaded when it is first used.
"""

from hdrl.base.lazy import lazy_names

__all__, __getattr__ = lazy_names(__name__, __file__)
