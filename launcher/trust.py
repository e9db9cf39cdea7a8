"""``--trust``: the user's word that Python files may run which results, models or options name."""

from __future__ import annotations

import click

from hdrl.base.pyfiles import TRUST

trust_option = click.option(
    TRUST, "trust", is_flag=True, help="Run the Python files that these files name: only if you know what they do."
)
"""What every command has that reads files of others; without it they are data."""
