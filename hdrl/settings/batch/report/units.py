"""Names of the cores of a run: which belong to which node and cluster, where the platform is found."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np

from hdrl.base.errors import HdrlError
from hdrl.figures.figure import Span
from hdrl.figures.folders import OPTIONS_FILE, PROVENANCE_FILE, read_object
from hdrl.settings.batch.node_power import NodePower
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.platform.pstates import pstate_rules
from hdrl.settings.batch.platform.reader import file_and_name, read_platform
from hdrl.settings.batch.report.runs import RunData


def platform_of(run: RunData) -> Platform | None:
    """Return the platform of a run: that of its Trace, or the one that its options name if it is still the same."""
    if run.trace is not None:
        return run.trace.platform
    if run.folder is None:
        return None
    options = read_object(run.folder / OPTIONS_FILE)
    named = options.get("platform_file_path")
    known = read_object(run.folder / PROVENANCE_FILE).get("platform")
    wanted = known.get("sha256") if isinstance(known, dict) else None
    if not isinstance(named, str) or wanted is None:
        return None
    is_file = "/" in named or "." in named
    try:
        power = options.get("node_power")
        rules = pstate_rules(
            options.get("contention", "step"),
            compatibility=options.get("compatibility"),
            node_power=None if power is None else NodePower.read(power),
        )
        for place in (run.folder / named, run.folder.parent / named) if is_file else (named,):
            if not isinstance(place, Path) or file_and_name(place)[0].is_file():
                platform = read_platform(place, rules=rules)
                if platform.sha256() == wanted:
                    return platform
    except HdrlError:  # names are a help, no need
        return None
    return None


def named_groups(platform: Platform) -> tuple[Span, ...]:
    """Return the clusters of a platform, and their parts of equal nodes where they have several.

    Parameters
    ----------
    platform
        The platform; one that was read from foreign XML has none.
    """
    first = _first_cores(platform)
    groups = []
    node = 0
    for cluster in platform.clusters:
        for group in cluster.groups:
            parts = [cluster.id] if len(platform.clusters) > 1 or len(cluster.groups) == 1 else []
            name = " ".join([*parts, *([group.type.name] if len(cluster.groups) > 1 else [])])
            groups.append(Span(name, int(first[node]), int(first[node + group.number] - first[node])))
            node += group.number
    return tuple(groups)


def named_nodes(platform: Platform) -> tuple[Span, ...]:
    """Return the nodes of a platform, numbered from 0 on."""
    borders = itertools.pairwise(_first_cores(platform).tolist())
    return tuple(Span(f"node {node}", low, high - low) for node, (low, high) in enumerate(borders))


def _first_cores(platform: Platform) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the first core of each node, and one entry more."""
    first: np.ndarray[tuple[int], np.dtype[np.int64]] = platform.first_core_of_processor.astype(np.int64)[
        platform.first_processor_of_node.astype(np.int64)
    ]
    return first
