"""Check whether an agent's training has the same bytes on other machines."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torch import nn

from hdrl.compiled.backends import JIT_DISABLED

if TYPE_CHECKING:
    from hdrl.learn.agent import Agent

_MACHINES = "x86_64", "AMD64"

_HOLD_OTHERS = nn.ModuleList, nn.ModuleDict, nn.ParameterDict, nn.ParameterList
"""Modules that compute nothing by themselves."""


def nonportable_reasons(agent: Agent) -> list[str]:
    """Return the reasons why a training may end in other bytes on another processor; nothing if it does not.

    Agents and networks of hdrl learn by `hdrl.learn.portable`, which gives the same bits on every x86-64 processor with
    AVX2, and say so (``is_portable``). Users' agents and networks may, too. What a class inherits does not count, since
    it may have added to it.
    """
    reasons = []
    if not _is_declared_portable(agent):
        reasons.append(f"the agent {type(agent).__name__} does not declare is_portable")
    for name, module in agent.modules.items():
        reasons += [f"{name}, a {kind}, does not declare is_portable" for kind in _undeclared(module)]
    if agent.device.type != "cpu":
        reasons.append(f"it learns on {agent.device}")
    if JIT_DISABLED:
        reasons.append("there is no compiler (NUMBA_DISABLE_JIT)")
    if platform.machine() not in _MACHINES:
        reasons.append(f"this is not an x86-64 processor ({platform.machine()})")
    elif missing := [feature for feature in ("avx2", "fma") if not processor_features().get(feature)]:
        reasons.append(f"this processor lacks {' and '.join(missing)}, so that the C library computes otherwise")
    return reasons


def processor_features() -> dict[str, bool]:
    """Return by name whether this processor has a feature, whatever code is compiled for."""
    from llvmlite import binding

    return dict(binding.get_host_cpu_features())


def _is_declared_portable(thing: object) -> bool:
    return vars(type(thing)).get("is_portable") is True


def _undeclared(module: nn.Module) -> Iterator[str]:
    """Yield the names of classes that do not say that they compute portably, each once."""
    if type(module) in _HOLD_OTHERS:
        yield from dict.fromkeys(name for one in module.children() for name in _undeclared(one))
    elif not _is_declared_portable(module):
        yield type(module).__name__
