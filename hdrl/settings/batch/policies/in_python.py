"""The policies in Python that have names of their own."""

from __future__ import annotations

from hdrl.settings.batch.policies.completion import MAPPINGS, MinMin
from hdrl.settings.batch.policies.on_nodes import NodePolicy, is_on_nodes, read_on_nodes


def is_in_python(name: str) -> bool:
    """Tell whether a name is one of a policy in Python, or has the form of one.

    Parameters
    ----------
    name
        For instance ``"duplex"`` or ``"shortest-node_low_power"``.
    """
    return name in MAPPINGS or is_on_nodes(name)


def policy_in_python(name: str) -> MinMin | NodePolicy:
    """Return a policy in Python by its name.

    Parameters
    ----------
    name
        One for which `is_in_python` is true.

    Raises
    ------
    UnknownName
        If it has the form of a policy that chooses nodes, but there is no such job or node selection.
    """
    return MAPPINGS[name]() if name in MAPPINGS else read_on_nodes(name)
