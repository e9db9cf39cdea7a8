"""Completion by the tab key of arguments that are files, or names of something shipped."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import click
from click.shell_completion import CompletionItem

Completion: TypeAlias = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def files_or(*kinds: str) -> Completion:
    """Return a completion by names of batch jobs that begin as what was typed, else by the shell's own of files."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        del ctx, param
        return _names(_listed(kinds), incomplete) or [CompletionItem(incomplete, type="file")]

    return complete


def figures_only(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the kind of a picture."""
    from hdrl.report.drawing import all_figures

    del ctx, param
    return _names(all_figures(), incomplete)


def _listed(kinds: tuple[str, ...]) -> list[str]:
    if not kinds:
        return []
    from hdrl.launcher.listing import KINDS
    from hdrl.setting import BATCH, find_setting

    return [name for kind in kinds for name in KINDS[kind](find_setting(BATCH))]


def _names(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    """Return the names that begin so; nothing before a letter is typed where files are meant, too."""
    return [CompletionItem(name) for name in names if incomplete and name.startswith(incomplete)]
