"""A deployment in the simulated Slurm: Lua, looks of the daemon, leases and bound, under the rules of the site."""

from __future__ import annotations

from hdrl.batch import BatchTrace, Platform, Workload
from hdrl.deploy.policy import DeployedPolicy
from hdrl.settings.batch.policies.choices import site_policy
from hdrl.settings.batch.site_rules.simulator import Looks, SiteSimulator, with_plain_rules

BOUND_S = 14 * 86400.0
INTERVAL_S = 30.0
"""After which wait a job is first, and how long the daemon sleeps between two looks, unless someone says otherwise."""


def simulate_deployed(
    policy: DeployedPolicy | None,
    platform: Platform,
    workload: Workload,
    *,
    interval_s: float = INTERVAL_S,
    bound_s: float = BOUND_S,
    lua: bool = True,
) -> BatchTrace:
    """Simulate jobs in a Slurm whose queue a deployed policy orders.

    Parameters
    ----------
    policy
        The policy; ``None``: Slurm's own order, without a daemon.
    platform
        The machine; without rules of a site it gets Slurm's defaults.
    interval_s
        Seconds between two looks of the daemon.
    bound_s
        After which wait a job is first.
    lua
        True if the Lua gives jobs a number at their submission; else they have the lowest one until the next look.

    Raises
    ------
    SimulationError
        If the site has a rule that is not simulated.
    """
    platform = platform if platform.site is not None else with_plain_rules(platform)
    slurm = site_policy("slurm")
    if policy is None:
        simulator, looks = SiteSimulator(platform, workload), None
    else:
        simulator = SiteSimulator(platform, workload, policy.pair.rule)
        looks = Looks(policy.key, interval_s, bound_s, policy.aging_per_s, lua)
    simulator.run_pair(*slurm.numbers, looks=looks)
    return simulator.trace
