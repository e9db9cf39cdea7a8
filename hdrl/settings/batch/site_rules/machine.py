"""The machine that a site describes, as a platform file does."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from hdrl.settings.batch.site_rules.conf import SiteConf

CORE_POWER_W = 10.0
"""Accounting holds no power; ``homogeneous:<n>`` takes the same number."""

ENDLESS_GB = ENDLESS_GBPS = 1e9

MIB_PER_GB = 1024
"""Unit of memory in platform files."""


def platform_of(conf: SiteConf) -> dict[str, Any]:
    """Return the description of the machine, whose node i is the i-th node of the site.

    A core does 1 Gflop/s, so that run times are those of the accounting. Memory is only limited where jobs take it.
    """
    types: dict[str, dict[str, Any]] = {"processors": {}, "nodes": {}}
    used: list[tuple[str, int]] = []
    for one in conf.nodes:
        memory_gb = one.memory_mib / MIB_PER_GB if conf.counts_memory and one.memory_mib else ENDLESS_GB
        chip = f"{one.cores} cores"
        name = chip if memory_gb == ENDLESS_GB else f"{chip}, {one.memory_mib} MiB"
        types["processors"][chip] = {
            "cores": one.cores,
            "clock_rate": 1.0,
            "dpflops_per_cycle": 1.0,
            "mem_bw": ENDLESS_GBPS,
            "power": one.cores * CORE_POWER_W,
        }
        types["nodes"][name] = {
            "processors": [{"type": chip, "number": 1}],
            "memory": {"capacity": max(memory_gb, 1e-6)},
        }
        used.append((name, one.count))
    groups = [
        {"type": name, "number": sum(count for _, count in group)}
        for name, group in groupby(used, key=lambda pair: pair[0])
    ]
    link = {"type": "100 Gigabit Ethernet", "latency": "0us"}
    return {
        "clusters": [{"id": "site", "nodes": groups, "local_links": link}],
        "global_links": link,
        "types": types,
    }
