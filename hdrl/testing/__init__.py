"""For your own tests: small worlds, checks that every policy must pass, hypothesis strategies.

`hdrl.testing.strategies` needs hypothesis (the extra ``dev``) and is therefore imported by itself.
"""

from hdrl.base.moved import load_moved
from hdrl.testing.checks import check_policy, check_trace, energy_of_cores, run_policy, trace_differences
from hdrl.testing.environments import check_env
from hdrl.testing.settings import SettingCheck, check_setting, parametrize_with_checks, setting_checks
from hdrl.testing.worlds import (
    JobSpec,
    Node,
    Processor,
    World,
    check_worlds,
    frugal_world,
    small_platform,
    small_workload,
    spreading_world,
)

__all__ = [
    "JobSpec",
    "Node",
    "Processor",
    "SettingCheck",
    "World",
    "check_env",
    "check_policy",
    "check_setting",
    "check_trace",
    "check_worlds",
    "energy_of_cores",
    "frugal_world",
    "parametrize_with_checks",
    "run_policy",
    "setting_checks",
    "small_platform",
    "small_workload",
    "spreading_world",
    "trace_differences",
]


def __getattr__(name: str) -> object:
    return load_moved(__name__, name)
