"""Machines of identical cores, named by their size: what the logs of the archive and most of the literature assume.

``homogeneous:256`` has 256 cores of 1 Gflop/s, each a processor of its own in one node, so that run times are those of
the log and no core's state touches another. Memory and memory bandwidth are larger than any job asks for.
"""

from __future__ import annotations

from hdrl.base.errors import PlatformError
from hdrl.settings.batch.platform.build import MAX_CORES, platform_from_tree
from hdrl.settings.batch.platform.model import Cluster, Link, NodeGroup, NodeType, Platform, ProcessorType
from hdrl.settings.batch.platform.pstates import PStateRules, pstate_rules

PREFIX = "homogeneous:"

CORE_POWER_W = 10.0
ENDLESS_GB = 1e9
ENDLESS_GBPS = 1e9


def is_homogeneous(name: str) -> bool:
    """Tell whether a name is meant for a machine of identical cores."""
    return name.startswith(PREFIX)


def homogeneous_platform(name: str, rules: PStateRules | None = None) -> Platform:
    """Return a machine of identical cores.

    Parameters
    ----------
    rules
        P-state rules, `pstate_rules` without arguments unless given.
    """
    number = name.removeprefix(PREFIX)
    if not (number.isascii() and number.isdigit() and len(number) < 10 and 1 <= int(number) <= MAX_CORES):
        raise PlatformError(
            f"platform {name!r}: expected a number of cores from 1 to {MAX_CORES} after {PREFIX!r}, for instance "
            f"{PREFIX}256"
        )
    n_cores = int(number)
    processor = ProcessorType(
        name="identical core",
        kind="CPU",
        microarchitecture="any",
        cores=1,
        clock_ghz=1.0,
        flops_per_cycle=1.0,
        memory_bandwidth_gbps=ENDLESS_GBPS,
        power_w=CORE_POWER_W,
    )
    node = NodeType("one node", ((processor, n_cores),), ENDLESS_GB)
    wire = Link("100 Gigabit Ethernet", 100.0, 0.0)
    cluster = Cluster("machine", (NodeGroup(node, 1),), wire)
    return platform_from_tree(name, (cluster,), wire, rules or pstate_rules())
