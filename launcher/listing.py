"""``hdrl list``: the names that options and command lines take."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import click

from hdrl.base.errors import OptionsError
from hdrl.setting import BATCH

if TYPE_CHECKING:
    from hdrl.setting import Setting

Named = Mapping[str, str]
"""Description of each name; empty where the name says it."""


def _policies(setting: Setting) -> Named:
    policies = setting.policies
    groups = {name: f"group of {len(members)}" for name, members in policies.groups().items()}
    additions = {f"...{addition}": meaning for addition, meaning in policies.suffixes().items()}
    return {**groups, **dict.fromkeys(policies.names(), ""), **additions}


def _metrics(setting: Setting) -> Named:
    return {
        name: f"{'' if info.unit == '1' else f'{info.unit}: '}{info.formula}"
        for name, info in setting.measures.metrics.items()
    }


def _algorithms(setting: Setting) -> Named:
    del setting
    from hdrl.agents import ALGORITHMS

    return {name: ALGORITHMS[name].summary for name in ALGORITHMS}


def _environments(setting: Setting) -> Named:
    return {name: spec.id for name, spec in setting.environments.items()}


def _settings(setting: Setting) -> Named:
    del setting
    from hdrl.setting import SETTINGS

    return {name: SETTINGS[name].title for name in SETTINGS}


def _platforms(setting: Setting) -> Named:
    return _shipped(setting, setting.inputs.shipped_machines(), "platforms")


def _workloads(setting: Setting) -> Named:
    return _shipped(setting, setting.inputs.shipped_loads(), "workloads")


def _shipped(setting: Setting, named: Named, what: str) -> Named:
    if not named:
        raise OptionsError(f"setting {setting.name} ships no {what}")
    return named


KINDS: dict[str, Callable[[Setting], Named]] = {
    "policies": _policies,
    "metrics": _metrics,
    "algorithms": _algorithms,
    "platforms": _platforms,
    "workloads": _workloads,
    "environments": _environments,
    "settings": _settings,
}


def _kinds(setting: Setting) -> Named:
    """Return the kinds of names that a setting has, with their numbers."""
    counts = {}
    for kind, names in KINDS.items():
        with contextlib.suppress(OptionsError):  # it ships none
            counts[kind] = len(names(setting))
    return {kind: f"{count:,} names: hdrl list {kind}" for kind, count in counts.items()}


@click.command("list")
@click.argument("kind", metavar="[KIND]", type=click.Choice(list(KINDS)), required=False)
@click.option("--setting", default=BATCH, show_default=True, metavar="NAME", help="Setting, or its Python file.")
def list_names(kind: str | None, setting: str) -> None:
    """List the names of one KIND of a setting, one a line, each with its meaning.

    Without KIND, list the kinds.
    """
    from hdrl.setting import find_setting

    chosen = find_setting(setting)
    named = _kinds(chosen) if kind is None else KINDS[kind](chosen)
    width = max(map(len, named), default=0)
    for name, meaning in named.items():
        click.echo(f"{name:{width}}  {meaning}".rstrip())
