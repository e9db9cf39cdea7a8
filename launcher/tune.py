"""``hdrl tune``: evolve on a log's first part, judge on its last, and recommend what won."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hdrl.base.errors import OptionsError, ReadError
from hdrl.base.files import read_json
from hdrl.launcher.completion import files_or
from hdrl.launcher.errors import after_signal
from hdrl.launcher.numbers import FloatRange, IntRange
from hdrl.launcher.stopping import Stop

if TYPE_CHECKING:
    from hdrl.experiment.tune import Tuned, TuneProgress


@click.command()
@click.argument("log", shell_complete=files_or("workloads"))
@click.option(
    "-p",
    "--platform",
    metavar="FILE",
    help="The machine; by default the cores in the log's header.",
    shell_complete=files_or("platforms"),
)
@click.option(
    "--minutes",
    type=FloatRange(0.01, 10_000),
    default=2.0,
    show_default=True,
    help="Approximate time on two cores; it sets the number of generations, without a clock.",
)
@click.option("--seeds", type=IntRange(2, 100), help="Number of averaged trainings; by default 10 if they fit, or 5.")
@click.option("--seed", type=IntRange(0, 2**31), default=1, show_default=True, help="Seed of the first training.")
@click.option("-o", "--out", type=click.Path(path_type=Path), default=Path("tuned"), show_default=True, help="Folder.")
@click.option("-j", "--jobs", "n_workers", type=IntRange(1), help="Processes that compare; one per core.")
@click.option("--json", "as_json", is_flag=True, help="Print recommendation.json instead of text.")
@click.option("--quiet", is_flag=True, help="Only print the recommendation.")
def tune(
    log: str,
    platform: str | None,
    minutes: float,
    seeds: int | None,
    seed: int,
    out: Path,
    n_workers: int | None,
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    """Evolve an index on the first part of LOG, and evaluate it once on the last part.

    LOG is a log (SWF), or the folder of an imported site. The command compares the evolved index with the shipped
    weights, the best classic policy of the first part and the untrained index. It recommends the simplest of them,
    unless another is shown to be better and no worse in the tail. The same command continues after an interruption.
    """
    from hdrl.experiment.run.manifest import write_manifest
    from hdrl.experiment.tune import FILES, PAGE_FILE, RECOMMENDATION_FILE, TuneRequest
    from hdrl.experiment.tune import tune as run
    from hdrl.report.page import write_report

    file, machine = log_and_machine(log, platform)
    stop = Stop()
    with _progress(stop, quiet=quiet or as_json) as progress:
        try:
            found = run(
                TuneRequest(file, machine, minutes, seeds, seed), out=out, n_workers=n_workers, progress=progress
            )
        except KeyboardInterrupt:
            click.echo("hdrl keeps finished work; run the same command to continue", err=True)
            raise
    if found is None:
        raise after_signal("hdrl", "interrupted; run the same command to continue", stop.number)
    question = f"Recommended policy for {Path(file).name}: {found.recommended}"
    write_report([found.main.folder], out / PAGE_FILE, question=question, force=True)
    write_manifest(out, FILES)
    if as_json:
        click.echo((out / RECOMMENDATION_FILE).read_text(encoding="utf-8"), nl=False)
    else:
        _show(found, quiet=quiet)


def log_and_machine(log: str, platform: str | None) -> tuple[str, str]:
    """Return the log as an absolute path, and its machine."""
    from hdrl.batch import find_workload, read_swf

    folder = Path(log)
    if folder.is_dir():
        options = folder / "options.json"
        if not options.is_file():
            raise ReadError(folder, "has no options.json, expected a log or the folder of an imported site")
        data = read_json(options)
        names = [data.get(f"{key}_file_path") if isinstance(data, dict) else None for key in ("workload", "platform")]
        if not all(isinstance(name, str) for name in names):
            raise ReadError(options, "must name workload_file_path and platform_file_path")
        log, named = str(folder / str(names[0])), str(folder / str(names[1]))
        return str(find_workload(log).absolute()), _placed(platform) or str(Path(named).absolute())
    path = find_workload(log).absolute()
    if platform is not None:
        return str(path), _placed(platform) or platform
    words = read_swf(path, max_rows=1).header.get("MaxProcs", "").split() if path.suffix != ".json" else []
    if not words or not re.fullmatch(r"[0-9]{1,12}", words[0]) or int(words[0]) < 1:
        raise OptionsError(
            f"{path.name}: its header names no MaxProcs, expected --platform homogeneous:<cores> or a platform file"
        )
    return str(path), f"homogeneous:{int(words[0])}"


def _placed(platform: str | None) -> str | None:
    """Return the absolute path of a platform file; names stay."""
    return str(Path(platform).absolute()) if platform is not None and Path(platform).is_file() else platform


@contextlib.contextmanager
def _progress(stop: Stop, *, quiet: bool) -> Iterator[TuneProgress]:
    """Show messages and a bar on stderr; without a terminal the messages only."""
    from rich.console import Console
    from rich.progress import TimeRemainingColumn

    from hdrl.experiment import Progress
    from hdrl.experiment.compare.comparison import CompareProgress
    from hdrl.experiment.tune import TuneProgress
    from hdrl.launcher.bars import StageBar

    console = Console(stderr=True, highlight=False, quiet=quiet)
    with StageBar(console, TimeRemainingColumn()) as bar:

        def message(text: str) -> None:
            console.print(text, markup=False, soft_wrap=True)

        def show_training(done: int, total: int, values: Mapping[str, float]) -> None:
            del values
            bar.show("generations", done, total)

        yield TuneProgress(
            CompareProgress(
                message=message,
                points=lambda done, total: bar.show("simulations", done, total),
                starting=bar.paused,
            ),
            Progress(
                training=show_training,
                stoppable=lambda: stop.listening(message),
            ),
        )


def _show(found: Tuned, *, quiet: bool) -> None:
    """Print the table of the last part, and what is recommended."""
    from hdrl.experiment.compare.summary import deciding_rows
    from hdrl.experiment.compare.verdict import ratio_words, tail_words
    from hdrl.experiment.tune import PAGE_FILE, SHIPPED, row_of
    from hdrl.launcher.bars import new_table, print_table, print_text
    from hdrl.metrics.words import metric_words

    main, shipped = found.main, found.comparisons[SHIPPED]
    words = metric_words(main.metric)
    rows = deciding_rows(main.rows, main.metric)
    if not quiet:
        title = f"ratios on the last part, {rows[0].n_windows} windows; below 1 is better"
        heads = [f"{words} to {main.baseline}", *(tail_words(name) for name in main.tails), f"{words} to {SHIPPED}"]
        table = new_table(["policy"], heads, title)
        known = {row.candidate for row in deciding_rows(shipped.rows, shipped.metric)}
        for row in rows:
            name = row.candidate
            cells = [ratio_words(row), *(ratio_words(row_of(main, name, tail)) for tail in main.tails)]
            cells.append(ratio_words(row_of(shipped, name, shipped.metric)) if name in known else "")
            table.add_row(name, *cells, style="bold" if name == found.recommended else None)
        print_table(table)
        for text in dict.fromkeys(one.text for one in main.cautions):
            print_text(f"warning: {text}", "yellow")
    print_text(f"recommended: {found.recommended}; {found.why}", "bold")
    if not quiet:
        line = f"cd {shlex.quote(str(found.folder))} && {shlex.join(found.command)}"
        print_text(f"run it: {line}")
        print_text(f"results in {found.folder}, one page: {found.folder / PAGE_FILE}")
