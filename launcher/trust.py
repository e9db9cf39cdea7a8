"""The user's word that Python files may run: ``--setting FILE``, and ``--trust`` for what other files name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from hdrl.base.pyfiles import TRUST

trust_option = click.option(
    TRUST, "trust", is_flag=True, help="Run the Python files that the inputs name: only if you know what they do."
)
"""Option of every command that reads files of others; without it they are data."""


def load_files(setting: str | None, folders: Sequence[str | Path] = (), *, trust: bool = False) -> None:
    """Load the setting that the command line names, if any, so that folders can name it; trust those, if requested."""
    from hdrl.report.runs import trust_folders
    from hdrl.setting import find_setting

    if setting is not None:
        find_setting(setting)
    if trust:
        trust_folders(folders)
