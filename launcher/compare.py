"""``hdrl compare``: which policy is better, by how much, and how sure that is."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hdrl.base.errors import OptionsError
from hdrl.base.pyfiles import trust_words
from hdrl.base.textnumbers import float_of, int_of
from hdrl.launcher.completion import files_or
from hdrl.launcher.errors import OneLine
from hdrl.launcher.numbers import IntRange, shares
from hdrl.launcher.trust import load_files, trust_option

if TYPE_CHECKING:
    from hdrl.experiment.compare.comparison import CompareProgress, Comparison
    from hdrl.experiment.compare.held_out import HeldOut
    from hdrl.experiment.compare.robust import Robust
    from hdrl.experiment.compare.summary import SummaryRow
    from hdrl.figures.numbers import Form
    from hdrl.metrics import MetricInfo
    from hdrl.options.sweep import Sweep

MOST_ROWS = 20
"""Rows of a table that are shown; the file has all."""

WIDTH = 140
"""Width of tables where there is no terminal; narrower ones have fewer columns."""


@click.command()
@click.argument("candidates", nargs=-1, metavar="CANDIDATE...", shell_complete=files_or("policies"))
@click.option(
    "--setting",
    metavar="NAME",
    help="Setting, or its Python file; batch by default.",
    shell_complete=files_or("settings"),
)
@click.option(
    "-p",
    "--platform",
    metavar="FILE",
    help="Platform file or name; homogeneous:<n> for n equal cores.",
    shell_complete=files_or("platforms"),
)
@click.option(
    "-w",
    "--workload",
    "workloads",
    multiple=True,
    metavar="FILE",
    help="Workload file or name; repeatable.",
    shell_complete=files_or("workloads"),
)
@click.option("--loads", metavar="LOAD,...", help="Generate Lublin sequences with these offered loads.")
@click.option(
    "--windows",
    metavar="LENGTH[:COUNT[:UP_TO]]",
    help="Simulate windows of LENGTH jobs, each separately; UP_TO: add windows until a difference is shown.",
)
@click.option("--starts", metavar="JOB,...", help="First job of each window; by default windows are adjacent.")
@click.option("--range", "part", metavar="FROM:TO", help="Part of each workload, in shares: 0.7:1 is the last 30 %.")
@click.option("--warm-up", type=IntRange(0), help="Jobs before each window that are simulated but not counted.")
@click.option(
    "--baseline", "--opponent", metavar="NAME", help="Reference of ratios; best[:FROM:TO]: best of a training part."
)
@click.option("--simulator", metavar="NAME", help="Simulator; exact: Batsim's own model; slurm: a real Slurm.")
@click.option("--seeds", type=IntRange(1), help="Number of seeds for random candidates.")
@click.option("--seed", type=IntRange(0), help="The first seed.")
@click.option("--metrics", metavar="NAME,...", help="Metrics to summarise; the first one decides.")
@click.option("--bound", is_flag=True, help="Repeat each policy with true run times: the largest possible gain.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Any other key of a sweep file.")
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), help="Folder for the results; default runs/<time>-<hash>."
)
@click.option("-j", "--jobs", "n_workers", type=IntRange(1), help="Processes; by default one per core.")
@click.option("--on", default="local", show_default=True, metavar="LOCATION", help="local, ray, or ray:<address>.")
@click.option(
    "--protocol",
    type=click.Choice(["windows", "padded", "continuous", "held-out"]),
    help="Protocol of the windows: each on an empty machine, with jobs before and after it, the whole log in one run;"
    " held-out: all three.",
)
@click.option(
    "--vary",
    multiple=True,
    metavar="KEY=VALUE,...",
    help="Test the winner: repeat the comparison with each value of a key of the sweep file, one at a time.",
)
@click.option("--resume", is_flag=True, help="Continue the comparison in --out; no other argument is needed.")
@click.option("--quiet", is_flag=True, help="Only print the verdict and the warnings.")
@click.option("--json", "as_json", is_flag=True, help="Print summary.json, held_out.json or robust.json.")
@click.option(
    "--agent",
    "agents",
    multiple=True,
    metavar="FILE",
    help="Agent file that trained a model; repeatable.",
    shell_complete=files_or("policies"),
)
@trust_option
def compare(
    candidates: tuple[str, ...],
    n_workers: int | None,
    on: str,
    out: Path | None,
    *,
    protocol: str | None,
    vary: tuple[str, ...],
    resume: bool,
    quiet: bool,
    as_json: bool,
    trust: bool,
    agents: tuple[str, ...],
    **arguments: Any,
) -> None:
    """Compare CANDIDATEs on windows of workloads, with intervals, tests and warnings.

    \b
    CANDIDATE is a policy (fcfs+easy), a group (pairs36, priorities, heuristics), a
    pattern ('f?+easy*'), a Python file, or a model (*.pt). NAME=CANDIDATE gives it a
    name (NAME='models/*.pt': the trainings of one method). A sweep file (*.json) holds
    candidates and all settings, and stands alone.

    The same command continues after an interruption. The exit code is 0, or 1 if a
    candidate could not be simulated to the end, or 2 if an argument is wrong.
    """  # noqa: D301 (click reads the backspace as "do not wrap")
    if protocol == "held-out" and not resume and not (candidates and is_sweep(candidates[0])):
        arguments["baseline"] = arguments["baseline"] or "best"
    sweep = sweep_of(candidates, arguments, out, resume=resume, trust=trust)
    sweep = sweep.trusting(agents, models=trust)
    folder = out if out is not None else _default_folder(sweep)
    if vary and protocol == "held-out":
        raise OptionsError("--vary takes one protocol, not held-out")
    if protocol == "held-out":
        from hdrl.experiment.compare.held_out import PROTOCOLS, RESULT_FILE

        with _progress(quiet=quiet or as_json) as progress:
            whole = _held_out(sweep, folder, n_workers, on, progress)
        _print(folder / RESULT_FILE, lambda: _show_held_out(whole), as_json=as_json)
        _answer([folder / name for name in PROTOCOLS])
        return
    if protocol is not None:
        from hdrl.experiment.compare.held_out import by_protocol

        sweep = by_protocol(sweep, protocol)
    if vary:
        from hdrl.experiment.compare.robust import RESULT_FILE, run_robust

        with _progress(quiet=quiet or as_json) as progress:
            robust = run_robust(sweep, _varied(vary), out=folder, n_workers=n_workers, on=on, progress=progress)
        _print(folder / RESULT_FILE, lambda: _show_robust(robust), as_json=as_json)
        _answer(robust.folders)
        return
    from hdrl.experiment.compare.files import SUMMARY_FILE

    with _progress(quiet=quiet or as_json) as progress:
        result = _compare(sweep, folder, n_workers, on, progress)
    _print(result.folder / SUMMARY_FILE, lambda: _show(result, quiet=quiet), as_json=as_json)
    _answer([result.folder])


def _print(file: Path, show: Callable[[], None], *, as_json: bool) -> None:
    """Print a file of the results as it is, or show them."""
    if as_json:
        click.echo(file.read_text(encoding="utf-8"), nl=False)
    else:
        show()


def _compare(sweep: Sweep, folder: Path, n_workers: int | None, on: str, progress: CompareProgress) -> Comparison:
    from hdrl.experiment.compare.comparison import run_comparison

    try:
        return run_comparison(sweep, out=folder, n_workers=n_workers, on=on, progress=progress)
    except KeyboardInterrupt:
        more = trust_words(sweep.portable())
        click.echo(
            f"hdrl keeps finished simulations; to continue: hdrl compare --resume --out {folder}{more}", err=True
        )
        raise


def _held_out(sweep: Sweep, folder: Path, n_workers: int | None, on: str, progress: CompareProgress) -> HeldOut:
    from hdrl.experiment.compare.held_out import run_held_out

    try:
        return run_held_out(sweep, out=folder, n_workers=n_workers, on=on, progress=progress)
    except KeyboardInterrupt:
        click.echo("hdrl keeps finished simulations; to continue, run the same command with the same --out", err=True)
        raise


def _answer(folders: Sequence[Path]) -> None:
    """End with 1 and a line if a candidate failed: its position in the table is empty, which scripts do not see."""
    from hdrl.experiment.compare.files import failures_in

    failures = [failure for folder in folders for failure in failures_in(folder)]
    if failures:
        one = failures[0]
        others = len({failure.candidate for failure in failures}) - 1
        more = f", and {others} more candidate{'' if others == 1 else 's'} failed" if others else ""
        raise OneLine(
            "hdrl",
            f"{one.candidate} failed in {one.n_failed} of {one.n_points} simulations{more}; the first: {one.first}",
            exit_code=1,
        )


def _default_folder(sweep: Sweep) -> Path:
    from hdrl.experiment import default_folder

    return default_folder(sweep.sha256(), datetime.now())


def sweep_of(
    candidates: Sequence[str], arguments: dict[str, Any], out: Path | None, *, resume: bool, trust: bool
) -> Sweep:
    """Return the sweep of the command line, and possibly of a file."""
    from hdrl.experiment.run.inputs import make_sweep, read_sweep

    changes, setting = _changes(arguments), arguments["setting"]
    if resume:
        if out is None or candidates or changes:
            raise OptionsError("--resume takes --out DIR and no candidates or other options: the folder holds them")
        if not (out / "sweep.json").is_file():
            raise OptionsError(f"{out}: holds no comparison, expected a folder with sweep.json")
        load_files(setting)
        return read_sweep(out / "sweep.json", trust=trust)
    file = next(filter(is_sweep, candidates), None)
    if file is not None and len(candidates) > 1:
        raise OptionsError(f"{file} is a sweep file, which stands alone; put other candidates into it")
    if file is not None:
        return read_sweep(file, changes=changes, setting=setting, trust=trust or None)
    if not candidates:
        raise OptionsError("nothing to compare: name candidates, or a sweep file (see hdrl compare --help)")
    if "platform" not in changes:
        raise OptionsError("--platform is missing, expected for instance -p gaia, -p homogeneous:256 or a file")
    return make_sweep({"candidates": list(candidates), **changes}, where="compare", setting=setting)


def is_sweep(text: str) -> bool:
    """Distinguish a sweep file from a policy in whose name there is a file: ``sjf+easy@my.json``."""
    return text.endswith(".json") and re.match(r"(.*=)?[\w+]+@", text) is None


def _changes(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of a sweep that the options set."""
    changes = overrides_of(arguments["overrides"])
    for key in ("platform", "baseline", "seeds", "seed", "simulator"):
        if arguments[key] is not None:
            changes[key] = arguments[key]
    if arguments["bound"]:
        changes["bound"] = True
    if arguments["workloads"]:
        changes["workloads"] = list(arguments["workloads"])
    if arguments["loads"] is not None:
        changes["loads"] = _loads(arguments["loads"])
    if arguments["metrics"] is not None:
        changes["metrics"] = [name.strip() for name in arguments["metrics"].split(",")]
    if arguments["part"] is not None:
        changes["range"] = list(shares(arguments["part"]))
    windows = _windows(arguments)
    if windows:
        changes["windows"] = {**windows, **changes.get("windows", {})}
    return changes


def overrides_of(texts: Sequence[str]) -> dict[str, Any]:
    """Return the keys of a sweep that ``--set`` names, and their values."""
    from hdrl.options.reading import json_or_text

    changes: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise OptionsError(f"--set {text}: expected KEY=VALUE, for instance workload.memory=none")
        block, _, name = key.partition(".")
        if name:
            if not isinstance(changes.setdefault(block, {}), dict):
                raise OptionsError(f"--set {text}: another --set replaces the whole of {block}; keep one of them")
            changes[block][name] = json_or_text(value)
        else:
            changes[block] = json_or_text(value)
    return changes


def _varied(texts: Sequence[str]) -> dict[str, list[Any]]:
    """Return the values by key that ``--vary`` names."""
    from hdrl.options.reading import json_or_text

    found: dict[str, list[Any]] = {}
    for text in texts:
        key, equals, values = text.partition("=")
        if not equals or not key or not values:
            raise OptionsError(f"--vary {text}: expected KEY=VALUE,..., for instance rules.tie=first,last,random")
        found.setdefault(key, []).extend(json_or_text(value) for value in values.split(","))
    return found


def _windows(arguments: dict[str, Any]) -> dict[str, Any]:
    windows: dict[str, Any] = {}
    if arguments["windows"] is not None:
        expected = "LENGTH, LENGTH:COUNT or LENGTH:COUNT:UP_TO in whole numbers, such as 200:10"
        length, *counts = _whole_numbers("--windows", arguments["windows"], ":", expected)
        # What it does not say is not taken from a sweep file either.
        windows = {"length": length, "count": None, "starts": None, "warm_up": 0, "follow_up": 0}
        if len(counts) > 2:
            raise OptionsError(f"--windows {arguments['windows']}: expected {expected}")
        windows.update(zip(("count", "up_to"), counts, strict=False))
    for key in ("starts", "warm_up"):
        if arguments[key] is not None and not windows:
            raise OptionsError(f"--{key.replace('_', '-')} needs --windows LENGTH")
    if arguments["starts"] is not None:
        windows["starts"] = _whole_numbers("--starts", arguments["starts"], ",", "whole numbers with ',' between them")
    if arguments["warm_up"] is not None:
        windows["warm_up"] = arguments["warm_up"]
    return windows


def _loads(text: str) -> list[float]:
    try:
        return [float_of(part) for part in text.split(",")]
    except ValueError:
        raise OptionsError(f"--loads {text}: expected numbers with ',' between them, such as 0.7,0.85") from None


def _whole_numbers(option: str, text: str, separator: str, expected: str) -> list[int]:
    try:
        return [int_of(part) for part in text.split(separator)]
    except ValueError:
        raise OptionsError(f"{option} {text}: expected {expected}") from None


@contextlib.contextmanager
def _progress(*, quiet: bool) -> Iterator[CompareProgress]:
    """Show messages and a bar on stderr; without a terminal the messages only."""
    from rich.console import Console
    from rich.progress import TimeRemainingColumn

    from hdrl.experiment.compare.comparison import CompareProgress
    from hdrl.launcher.bars import StageBar

    console = Console(stderr=True, highlight=False, quiet=quiet)
    with StageBar(console, TimeRemainingColumn()) as bar:

        def show(done: int, total: int) -> None:
            bar.show("simulations", done, total)

        yield CompareProgress(
            message=lambda text: console.print(text, markup=False, soft_wrap=True), points=show, starting=bar.paused
        )


def _show(result: Comparison, *, quiet: bool) -> None:
    """Print the tables, the warnings and the verdict."""
    from hdrl.experiment.compare.summary import deciding_rows
    from hdrl.experiment.compare.verdict import logs_words
    from hdrl.launcher.bars import print_text

    if not quiet:
        _show_tables(result)
    for caution in result.cautions:
        print_text(f"warning: {caution.text}", "yellow")
    deciding = deciding_rows(result.rows, result.metric)
    first, further = result.verdicts[: len(deciding)], result.verdicts[len(deciding) :]
    if 1 < len(deciding) <= MOST_ROWS and not quiet:
        for row, sentence in zip(deciding, first, strict=True):
            # What the verdict says of its candidate is said once.
            if sentence.removeprefix(f"{row.candidate} ") not in result.verdict:
                print_text(sentence)
    logs = [logs_words(row) for row in deciding if len(deciding) <= MOST_ROWS and not quiet]
    against = [f"With the same predictions: {said}" for peer in result.peer_baselines for said in peer.verdicts]
    others = further if len(further) <= MOST_ROWS else ()
    for sentence in filter(None, [result.verdict, *others, *against, *logs]):
        print_text(sentence, "bold")
    if not quiet:
        print_text(f"results in {result.folder}")


def _show_held_out(result: HeldOut) -> None:
    """Print the table of three protocols, and the warnings."""
    from hdrl.launcher.bars import new_table, print_table, print_text
    from hdrl.metrics.words import confidence_words, number_words

    title = f"{result.metric}, ratio to {result.baseline}, and to the best classic policy with the same predictions"
    tails = list(result.rows[0].tail)
    share = confidence_words(result.confidence)
    table = new_table(["protocol", "candidate"], ["ratio", share, "with the same", share, *tails], title)
    for row in result.rows:
        is_baseline = row.candidate == result.baseline
        table.add_row(
            row.protocol,
            row.candidate,
            number_words(row.ratio),
            "" if is_baseline else _interval(row.ratio_low, row.ratio_high),
            number_words(row.peer_ratio) if row.peer else "",
            _interval(row.peer_low, row.peer_high) if row.peer else "",
            *(number_words(row.tail[name]) for name in tails),
            style="bold" if is_baseline else None,
        )
    print_table(table)
    for text in result.cautions:
        print_text(f"warning: {text}", "yellow")
    print_text(f"results in {result.folder}")


def _show_robust(result: Robust) -> None:
    """Print the ranking under each condition, and whether the winner is the same."""
    from hdrl.launcher.bars import new_table, print_table, print_text
    from hdrl.metrics.words import number_words

    shown = [name for name in list(result.conditions[0].ratios)[:MOST_ROWS] if name != result.baseline]
    title = f"{result.metric}, ratio to {result.baseline}"
    table = new_table(["condition", "best"], ["Kendall's tau", *shown], title)
    for one in result.conditions:
        ratios = (number_words(one.ratios.get(name, math.nan)) for name in shown)
        table.add_row(one.name, one.winner, number_words(one.tau), *ratios)
    print_table(table)
    print_text(result.verdict, "bold")
    print_text(f"results in {result.folder}")


def _show_tables(result: Comparison) -> None:
    from hdrl.launcher.bars import print_table, table_width

    workloads = list(dict.fromkeys(row.workload for row in result.rows))
    # Tails that were not requested are in the verdict.
    shown = [one for one in dict.fromkeys(row.metric for row in result.rows) if one not in result.added]
    for metric in shown:
        for workload in workloads:
            # Single workloads by the metric that decides; the rest is in the file.
            if workload == "all" or metric == result.metric:
                rows = [row for row in result.rows if row.metric == metric and row.workload == workload]
                print_table(_table(rows, result, table_width(), of_one=len(workloads) > 1 and workload != "all"))


def _table(rows: Sequence[SummaryRow], result: Comparison, width: int, *, of_one: bool) -> Any:
    from hdrl.figures.numbers import metric_form
    from hdrl.launcher.bars import new_table

    first, info = rows[0], result.metrics[rows[0].metric]
    form = metric_form(first.metric, info, [value for row in rows for value in (row.mean, row.p99, row.worst)])
    where = f" on {first.workload}" if of_one else ""
    unit = f" ({form.unit})" if form.unit else ""
    better = info.preference
    columns = _columns(rows, result.baseline, form, is_narrow=width < WIDTH)
    title = f"{first.metric}{unit}{where}, {first.n_windows} windows, {better}"
    table = new_table(["candidate"], [name for name, _ in columns], title)
    for row in _in_order(rows, info)[:MOST_ROWS]:
        table.add_row(row.candidate, *(text(row) for _, text in columns), style="bold" if row.is_baseline else None)
    if len(rows) > MOST_ROWS:
        table.caption = f"{len(rows) - MOST_ROWS} more in summary.csv"
    return table


def _columns(
    rows: Sequence[SummaryRow], baseline: str, form: Form, *, is_narrow: bool
) -> list[tuple[str, Callable[[SummaryRow], str]]]:
    """Return the heads of columns and what they say of a row; a narrow terminal shows what decides."""
    from hdrl.metrics.words import confidence_words, number_words

    share = confidence_words(rows[0].confidence)
    columns: list[tuple[str, Callable[[SummaryRow], str]]] = [
        ("mean", lambda row: form.number(row.mean)),
        (share, lambda row: _interval(row.mean_low, row.mean_high, form.number)),
        ("ratio" if is_narrow else f"ratio to {baseline}", lambda row: number_words(row.ratio)),
        (share, lambda row: "" if row.is_baseline else _interval(row.ratio_low, row.ratio_high)),
        ("p" if is_narrow else "p (Holm)", lambda row: "" if row.is_baseline else _p(row.p_holm)),
        ("p99", lambda row: form.number(row.p99)),
        ("worst", lambda row: form.number(row.worst)),
        ("unfinished", lambda row: f"{row.n_unfinished:,}" + (" (failed)" if row.n_failed else "")),
    ]
    if not is_narrow:
        return columns
    mean, _, ratio, of_ratio, p, *_, unfinished = columns
    return [mean, ratio, of_ratio, p, *([unfinished] if any(row.n_unfinished or row.n_failed for row in rows) else [])]


def _p(p: float) -> str:
    return "-" if math.isnan(p) else f"{p:.2g}"


def _interval(low: float, high: float, form: Callable[[float], str] | None = None) -> str:
    from hdrl.metrics.words import number_words

    text = form or number_words
    return "-" if math.isnan(low) else f"[{text(low)}, {text(high)}]"


def _in_order(rows: Sequence[SummaryRow], info: MetricInfo) -> list[SummaryRow]:
    """Return the baseline first, then from the best ratio to the worst; those without any last."""

    def rank(row: SummaryRow) -> tuple[bool, bool, float]:
        key = row.mean if math.isnan(row.ratio) else row.ratio
        return not row.is_baseline, math.isnan(row.ratio), math.inf if math.isnan(key) else info.sign * key

    return sorted(rows, key=rank)
