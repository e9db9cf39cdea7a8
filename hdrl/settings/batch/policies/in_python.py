"""The policies in Python that have names of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hdrl.settings.batch.policies.completion import MAPPINGS
from hdrl.settings.batch.simulators import IRMASIM

if TYPE_CHECKING:
    from hdrl.settings.batch.policies.completion import MinMin
    from hdrl.settings.batch.policies.on_nodes import NodePolicy

NODE = "-node_"
"""What the name of a policy that chooses nodes holds between its job selection and its node selection."""


def is_in_python(name: str) -> bool:
    """Tell whether a name is one of a policy in Python, or has the form of one.

    Parameters
    ----------
    name
        For instance ``"duplex"`` or ``"shortest-node_low_power"``.
    """
    return name in MAPPINGS or NODE in name


def policy_in_python(name: str, *, seed: int = 0, compatibility: str | None = None) -> MinMin | NodePolicy:
    """Return a policy in Python by its name.

    Parameters
    ----------
    name
        One for which `is_in_python` is true.
    compatibility
        ``"irmasim"``: policies of `on_nodes_backfill` have the errors of IRMaSim's versions.

    Raises
    ------
    UnknownName
        If it has the form of a policy that chooses nodes, but there is no such job or node selection.
    """
    if name in MAPPINGS:
        return MAPPINGS[name]()
    from hdrl.settings.batch.policies.on_nodes import read_on_nodes

    return read_on_nodes(name, seed=seed, as_published=compatibility == IRMASIM)
