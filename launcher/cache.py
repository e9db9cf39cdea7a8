"""``hdrl cache``: compiled code on disk."""

from __future__ import annotations

from datetime import datetime

import click

_MIB = 2**20


@click.command()
@click.option("--clear", is_flag=True, help="Delete it; the next simulation compiles again.")
def cache(*, clear: bool) -> None:
    """Show the location, size and last use of compiled code."""
    from hdrl.compiled.cache import cache_parents, cached_code, clear_cached_code

    if clear:
        click.echo(f"{clear_cached_code() / _MIB:.1f} MiB of compiled code deleted")
        return
    found = cached_code()
    for parent in cache_parents():
        here = [one for one in found if one.folder.parent == parent]
        click.echo(
            f"{parent}: {sum(one.n_bytes for one in here) / _MIB:.1f} MiB" if here else f"{parent}: no compiled code"
        )
        width = max((len(one.folder.name) for one in here), default=0)
        for one in here:
            used = datetime.fromtimestamp(one.used_s).isoformat(sep=" ", timespec="minutes")
            click.echo(f"  {one.folder.name:{width}}  {one.n_bytes / _MIB:.1f} MiB, used {used}")
