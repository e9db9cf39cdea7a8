"""``hdrl list``: the names that options and command lines take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import click

from hdrl.errors import OptionsError

if TYPE_CHECKING:
    from hdrl.setting import Setting

Named = Mapping[str, str]
"""What each name stands for; empty where the name says it."""


def _policies(setting: Setting) -> Named:
    groups = {name: f"group of {len(members)}" for name, members in setting.policies.groups().items()}
    return {**groups, **dict.fromkeys(setting.policies.names(), ""), **_additions(setting)}


def _additions(setting: Setting) -> Named:
    """Return what may follow the name of a policy of batch jobs."""
    if setting.name != "batch":
        return {}
    from hdrl.settings.batch.policies.pairs import ADDITIONS

    return {f"...{addition}": meaning for addition, meaning in ADDITIONS.items()}


def _metrics(setting: Setting) -> Named:
    return {
        name: f"{'' if info.unit == '1' else f'{info.unit}: '}{info.formula}" for name, info in setting.metrics.items()
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
    if setting.name == "gpu":
        from hdrl.settings.gpu.machine import shipped_clusters

        return dict.fromkeys(shipped_clusters(), "")
    if setting.name != "batch":
        raise OptionsError(f"setting {setting.name} ships no platforms")
    from hdrl.settings.batch.platform import read_platform
    from hdrl.settings.batch.platform.reader import shipped_platforms

    return {name: f"{read_platform(name).n_cores:,} cores" for name in shipped_platforms()}


def _workloads(setting: Setting) -> Named:
    if setting.name != "batch":
        raise OptionsError(f"setting {setting.name} ships no workloads")
    from hdrl.settings.batch.workload.read import shipped_workloads

    return dict.fromkeys(shipped_workloads(), "")


KINDS: dict[str, Callable[[Setting], Named]] = {
    "policies": _policies,
    "metrics": _metrics,
    "algorithms": _algorithms,
    "platforms": _platforms,
    "workloads": _workloads,
    "environments": _environments,
    "settings": _settings,
}


@click.command("list")
@click.argument("kind", metavar="KIND", type=click.Choice(list(KINDS)))
@click.option("--setting", default="batch", show_default=True, metavar="NAME", help="Setting, or its Python file.")
def list_names(kind: str, setting: str) -> None:
    """List the names of one KIND that a setting knows, one a line, each with what it stands for."""
    from hdrl.setting import find_setting

    named = KINDS[kind](find_setting(setting))
    width = max(map(len, named), default=0)
    for name, meaning in named.items():
        click.echo(f"{name:{width}}  {meaning}".rstrip())
