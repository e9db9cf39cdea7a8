"""Options that would have no effect: refused, so that users do not believe that they had one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from types import MappingProxyType
from typing import Any

from hdrl.base.errors import OptionsError
from hdrl.settings.gpu.options import RuleOptions

POISSON, GAVEL, TRACE = "poisson", "gavel", "a trace"
"""Sources of a workload: a generator, or the file of a trace."""

_OF_LOADS: Mapping[str, Set[str]] = MappingProxyType(
    {
        "form": {TRACE},
        "gpus_per_machine": {TRACE},
        "throughputs": {GAVEL, TRACE},
        "gavel": {GAVEL},
        "poisson": {POISSON},
        "speeds": {TRACE, POISSON},
        "spread_speed": {TRACE, POISSON},
    }
)
"""Keys of ``load`` that only some workloads use."""

_OF_WORKLOADS = ("offered", "unrunnable")
"""Keys of ``load`` that have no effect on the generated loads of a comparison."""

_NOT_IN_ROUNDS = ("restart_s", "checkpoint_s", "node_order", "tie")
"""Keys of ``rules`` that policies in Gavel's rounds know nothing of."""


def kind_of(workload: str) -> str:
    """Return the kind of a workload: `POISSON`, `GAVEL` or `TRACE`."""
    return workload if workload in (POISSON, GAVEL) else TRACE


def check_load_options(options: Any, kinds: Iterable[str]) -> None:
    """Refuse options of loads that differ from the default but have no effect on the named workloads.

    Parameters
    ----------
    kinds
        Kinds of its workloads, see `kind_of`; none if a comparison generates all loads.

    Raises
    ------
    OptionsError
        If there is such an option.
    """
    load: Any = options.load
    found, usual = set(kinds), type(load)()
    for name in _OF_WORKLOADS:
        if not found and getattr(load, name) != getattr(usual, name):
            raise OptionsError(
                f"{options.where}: load.{name} has no effect on loads, which are made as they are wanted"
            )
    found = found or {POISSON}
    used_by = {**_OF_LOADS, "seed": {POISSON, GAVEL} if load.adapting is None else found}
    for name, by in used_by.items():
        if getattr(load, name) != getattr(usual, name) and not found & set(by):
            raise OptionsError(
                f"{options.where}: load.{name} has no effect on {' and '.join(sorted(found))}; it is for"
                f" {' and '.join(sorted(by))}"
            )


def check_rules(rules: RuleOptions, policy: str) -> None:
    """Refuse rules that differ from the default under a policy that runs in Gavel's rounds, which ignore them.

    Raises
    ------
    OptionsError
        If there is such a rule.
    """
    usual = RuleOptions()
    for name in _NOT_IN_ROUNDS:
        if getattr(rules, name) != getattr(usual, name):
            raise OptionsError(
                f"rules.{name} has no effect on {policy}, which runs in Gavel's rounds: leave one of them out"
            )
