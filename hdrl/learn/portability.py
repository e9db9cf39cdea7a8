"""Whether what an agent learns here has the same bytes elsewhere."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from hdrl.compiled.ways import JIT_DISABLED

if TYPE_CHECKING:
    from hdrl.learn.agent import Agent

_MACHINES = "x86_64", "AMD64"


def why_not_portable(agent: Agent) -> list[str]:
    """Return why a training may end in other bytes on another processor; nothing if it does not.

    What hdrl brings learns by `hdrl.learn.portable`, which gives the same bits on every x86-64 processor with AVX2.

    Parameters
    ----------
    agent
        The agent, as it is trained.
    """
    reasons = []
    if not _is_ours(agent):
        reasons.append(f"the agent {type(agent).__name__} computes with torch itself")
    for name, module in agent.modules.items():
        if not _is_ours(module):
            reasons.append(f"{name} is {type(module).__name__}, which computes with torch itself")
    if agent.device.type != "cpu":
        reasons.append(f"it learns on {agent.device}")
    if JIT_DISABLED:
        reasons.append("there is no compiler (NUMBA_DISABLE_JIT)")
    if platform.machine() not in _MACHINES:
        reasons.append(f"this is no x86-64 processor ({platform.machine()})")
    return reasons


def _is_ours(thing: object) -> bool:
    return type(thing).__module__.partition(".")[0] == "hdrl"
