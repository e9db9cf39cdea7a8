"""``hdrl workload fetch``: logs of the Parallel Workloads Archive by name."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hdrl.base.errors import OptionsError
from hdrl.launcher.numbers import IntRange

if TYPE_CHECKING:
    from hdrl.settings.batch.workload import FetchedLog
    from hdrl.settings.batch.workload.download import Progress


@click.command()
@click.argument("name", required=False)
@click.option("--list", "is_listing", is_flag=True, help="List the logs that can be fetched.")
@click.option(
    "--out", "-o", type=click.Path(path_type=Path), help="Write the log to this file as well: .swf.gz or .swf."
)
@click.option("--base-url", metavar="URL", help="A mirror with the folders of the archive.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder for logs; default: workloads in HDRL_CACHE, or in hdrl in the user's cache folder.",
)
@click.option(
    "--max-mib", type=IntRange(1, 2**30), default=1024, show_default=True, help="Refuse a file larger than this."
)
def fetch(
    name: str | None, out: Path | None, base_url: str | None, folder: Path | None, max_mib: int, *, is_listing: bool
) -> None:
    """Fetch the log NAME of the Parallel Workloads Archive. An existing one is not fetched again.

    The same command continues an interrupted download. Needs requests (hdrl[fetch]).
    """
    if is_listing:
        _list(folder)
        return
    if name is None:
        raise OptionsError("no log named; hdrl workload fetch --list names them")
    from hdrl.settings.batch.workload.archive import ARCHIVE_URL, copy_log, fetch_log
    from hdrl.settings.batch.workload.read import file_format

    if out is not None and file_format(out) != "swf":
        raise OptionsError(f"{out}: expected a name that ends in .swf or .swf.gz")
    with _progress(name) as progress:
        fetched = fetch_log(
            name, folder=folder, base_url=base_url or ARCHIVE_URL, max_bytes=max_mib << 20, progress=progress
        )
    if out is not None:
        copy_log(fetched, out)
    _print(fetched, out)


def _print(fetched: FetchedLog, out: Path | None) -> None:
    log = fetched.log
    how = "fetched" if fetched.is_new else "there already"
    click.echo(f"{fetched.path}: {how}, {fetched.size_bytes:,} bytes, SHA-256 {fetched.sha256}")
    if out is not None:
        click.echo(f"{out}: written")
    if log.sha256 is None:
        click.echo("hdrl has no SHA-256 of its own for it: the first download records one, and later ones check it.")
    click.echo(f"\nIf you use this log, please acknowledge those who provided it ({log.page}):")
    if log.acknowledgement is not None:
        click.echo(f"  {log.acknowledgement}")
    if fetched.thanks:
        click.echo(f"  Its header: {fetched.thanks.replace(chr(10), '; ')}")


def _list(folder: Path | None) -> None:
    from hdrl.launcher.bars import new_table, print_table
    from hdrl.settings.batch.workload import archive_logs, fetch_folder

    folder = folder if folder is not None else fetch_folder()
    title = f"Parallel Workloads Archive; fetched logs are in {folder}"
    table = new_table(["name", "version", "system", "fetched"], title=title)
    for name, log in archive_logs().items():
        table.add_row(name, log.version, log.title, "yes" if (folder / log.file).is_file() else "")
    print_table(table)


@contextlib.contextmanager
def _progress(name: str) -> Iterator[Progress]:
    """Show a bar on stderr where there is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(name, total=None)

        def show(n_bytes: int, size_bytes: int | None) -> None:
            bar.update(task, completed=n_bytes, total=size_bytes)

        yield show
