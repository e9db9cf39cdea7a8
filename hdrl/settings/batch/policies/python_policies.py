"""The policies in Python that have names of their own."""

from __future__ import annotations

from collections.abc import Callable

from hdrl.base.errors import UnknownName
from hdrl.settings.batch.irmasim import irmasim
from hdrl.settings.batch.policies import node_policies_energy
from hdrl.settings.batch.policies.choices import NODE, OTHER_JOB_SELECTIONS
from hdrl.settings.batch.policies.completion import MAPPINGS, MinMin
from hdrl.settings.batch.policies.node_policies import (
    BACKFILLING,
    JOB_KEYS,
    NODE_SELECTIONS,
    QUEUE,
    RANDOM,
    NodeEasy,
    NodeHeuristic,
    NodePolicy,
    check_name,
)
from hdrl.settings.batch.policies.node_policies_backfill import read_backfilling
from hdrl.settings.batch.simulators import IRMASIM


def is_in_python(name: str) -> bool:
    """Tell whether a name is one of a policy in Python, or has the form of one."""
    return name in MAPPINGS or NODE in name


def policy_in_python(name: str, *, seed: int = 0, compatibility: str | None = None) -> MinMin | NodePolicy:
    """Return a policy in Python by its name.

    Parameters
    ----------
    compatibility
        ``"irmasim"``: policies of `node_policies_backfill` have the errors of IRMaSim's versions,
        `compat.irmasim.managers`.

    Raises
    ------
    UnknownName
        If it has the form of a policy that chooses nodes, but there is no such job or node selection.
    """
    if name in MAPPINGS:
        return MAPPINGS[name]()
    return _read_on_nodes(
        name, seed, irmasim("managers").read_published if compatibility == IRMASIM else read_backfilling
    )


def _read_on_nodes(name: str, seed: int, backfilling: Callable[..., NodePolicy]) -> NodePolicy:
    job, _, node = name.partition(NODE)
    if job.endswith("+skip"):
        job = job.removesuffix("+skip")
        check_name("job selection of a policy that uses energies", job, node_policies_energy.JOBS)
        check_name("node selection by energies", node, node_policies_energy.NODES, "node_")
        return node_policies_energy.NodeEnergy(job, node)
    if job.startswith(QUEUE) and job != BACKFILLING:
        return backfilling(job.removeprefix(QUEUE), node, seed=seed)
    today = job if job in JOB_KEYS else OTHER_JOB_SELECTIONS.get(job, job)
    known = (RANDOM, *JOB_KEYS, BACKFILLING)
    if today not in known:
        raise UnknownName("job selection of a policy that chooses nodes", job, known)
    check_name("node selection", node, NODE_SELECTIONS, "node_")
    return NodeEasy(node, seed=seed) if today == BACKFILLING else NodeHeuristic(today, node, seed=seed)
