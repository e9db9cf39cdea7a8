"""``hdrl bench``: tasks that stand, results that are checked, and the board of those that are true."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hdrl.base.errors import HdrlError, OptionsError, UnknownName
from hdrl.launcher.completion import files_or
from hdrl.launcher.groups import CommandGroup
from hdrl.launcher.numbers import FloatRange, IntRange
from hdrl.launcher.trust import trust_option

if TYPE_CHECKING:
    from hdrl.bench.difficulty import Difficulty
    from hdrl.bench.tasks import Named


@click.group(cls=CommandGroup)
def bench() -> None:
    """Evaluate a policy or a model on fixed tasks, check results of others, write the board."""


@bench.command("list")
def list_tasks() -> None:
    """List the tasks: allowed information, deciding metric, difficulty, and missing logs."""
    from rich.table import Table

    from hdrl.bench.difficulty import read_facts
    from hdrl.bench.tasks import all_tasks
    from hdrl.launcher.bars import print_table

    facts = read_facts()
    table = Table()
    for title in ("task", "group", "description", "known", "objective", "best classic", "gap", "log that is missing"):
        table.add_column(title, overflow="fold", justify="right" if title == "gap" else "left")
    for name, named in all_tasks().items():
        fact = _fact_of(facts, named)
        hard = ("", "") if fact is None else (fact.best, f"{fact.gap:.2f}")
        group = "small" if named.is_small else ""
        task = named.task
        table.add_row(name, group, task.title, task.known, task.objective, *hard, ", ".join(named.missing()))
    print_table(table)


@bench.command()
@click.argument("task")
def show(task: str) -> None:
    """Show TASK: its rules, simulations and difficulty, and the results of the classic policies."""
    from hdrl.bench.board import classic_rows
    from hdrl.bench.difficulty import read_facts
    from hdrl.bench.tasks import read_task
    from hdrl.metrics.words import number_words

    named = read_task(task)
    one, rules = named.task, named.task.model_dump(mode="json")
    sweep = rules.pop("sweep")
    click.echo(f"{named.name}, version {one.version}: {one.title}")
    click.echo(f"SHA-256 {one.sha256()}")
    for key, value in rules.items():
        if key not in ("title", "version") and value not in ({}, []):
            click.echo(f"{key}: {json.dumps(value) if isinstance(value, dict | list) else value}")
    click.echo(f"sweep: {json.dumps(sweep)}")
    for name in named.missing():
        click.echo(f"missing: {name}. {one.logs[name].how}")
    fact = _fact_of(read_facts(), named)
    if fact is not None:
        click.echo(
            f"difficulty: the best of {fact.n_classic} classic policies, {fact.best}, is {number_words(fact.gap)} "
            f"times worse than {one.yardstick.words}; jobs wait in {fact.share_waiting:.0%} of "
            f"{fact.n_windows} windows; rankings by half of the windows agree by {fact.agreement:.2f} (Kendall's tau)"
        )
    for row in classic_rows(named)[:10]:
        click.echo(
            f"  {row.name}: {number_words(row.ratio.value)} times {one.baseline}, mean rank {row.rank.value:.1f}"
        )


@bench.command()
@click.argument("entry", metavar="POLICY_OR_MODEL", shell_complete=files_or("policies"))
@click.option(
    "--tasks",
    required=True,
    metavar="small|all|NAME,...",
    help="The tasks; small: those without logs; @ROUND: a round's.",
)
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help="Folder for the result.")
@click.option(
    "--division",
    type=click.Choice(["untrained", "trained", "clairvoyant"]),
    help="The division; by default the strictest that accepts it.",
)
@click.option(
    "--setting",
    default="batch",
    show_default=True,
    metavar="NAME",
    help="Setting of a Python file.",
    shell_complete=files_or("settings"),
)
@click.option("--core-minutes", type=FloatRange(0, 1e9), default=0.0, help="Core minutes of all its trainings.")
@click.option("--how", default="", metavar="TEXT", help="Description of the training.")
@click.option("-j", "--jobs", "n_workers", type=IntRange(1), help="Processes; by default one per core.")
@click.option("--quiet", is_flag=True, help="Print the answer only.")
def run(
    entry: str,
    tasks: str,
    out: Path,
    division: str | None,
    setting: str,
    core_minutes: float,
    how: str,
    n_workers: int | None,
    *,
    quiet: bool,
) -> None:
    """Evaluate POLICY_OR_MODEL on tasks; the same command continues after an interruption.

    It is a policy (sjf+easy), a Python file (my.py+easy), a model (*.safetensors, *.pt), or the trainings of one
    method (NAME='models/*.safetensors').
    """
    from hdrl.bench.results import DIVISIONS, TrainingCost
    from hdrl.bench.run import Entry, run_entry
    from hdrl.bench.tasks import chosen_tasks
    from hdrl.experiment.compare.comparison import CompareProgress
    from hdrl.setting import SETTINGS

    if setting not in SETTINGS:
        raise OptionsError(f"--setting: {UnknownName('setting', setting, SETTINGS)}")
    chosen = next((one for one in DIVISIONS if one == division), None)
    entered = Entry(entry, chosen, TrainingCost(core_minutes=core_minutes, words=how), setting)
    progress = CompareProgress(message=lambda text: None if quiet else click.echo(text, err=True))
    result = run_entry(entered, chosen_tasks(tasks), out=out, chosen_by=tasks, n_workers=n_workers, progress=progress)
    n_tasks = len(result.card.tasks)
    click.echo(
        f"{result.card.name}: {n_tasks} task{'' if n_tasks == 1 else 's'}, division {result.card.division}, in {out}"
    )


@bench.command()
@click.argument("folders", nargs=-1, required=True, metavar="RESULT...", type=click.Path(path_type=Path))
@click.option(
    "--windows", default="3", show_default=True, metavar="N|all", help="Windows of each task to simulate again."
)
@click.option("--quiet", is_flag=True, help="Print the answer only.")
@trust_option
def check(folders: tuple[Path, ...], windows: str, *, quiet: bool, trust: bool) -> None:
    """Check RESULTs: hashes, the information of their entries, and windows to the last digit.

    A Python file of a result runs in a separate process, with limits and without network, or with --trust in this
    one. The exit code is 0 if all are true, 1 if one is not, 2 if one cannot be read.
    """
    from hdrl.bench.check import check_result

    if windows != "all" and not (windows.isascii() and windows.isdigit()):
        raise OptionsError(f"--windows {windows}: expected a number of windows, or all")
    n_windows = None if windows == "all" else int(windows)
    code = 0
    for folder in folders:
        try:
            found = check_result(
                folder,
                n_windows=n_windows,
                trust=trust,
                message=lambda text: None if quiet else click.echo(text, err=True),
            )
        except HdrlError as error:
            click.echo(f"hdrl: error: {error}", err=True)
            code = 2
            continue
        code = max(code, 0 if found.is_true else 1)
        for one in found.findings:
            click.echo(f"{folder}: {one.kind}: {one.where}: {one.text}")
        if not quiet:
            for note in found.notes:
                click.echo(f"{folder}: note: {note}")
        answer = "true" if found.is_true else "not true"
        click.echo(f"{folder}: {found.name} is {answer}; {found.n_replayed} simulations repeated")
    if code:
        raise click.exceptions.Exit(code)


@bench.command()
@click.argument("folders", nargs=-1, metavar="RESULT...", type=click.Path(path_type=Path))
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help="Folder for the pages.")
@click.option("--force", is_flag=True, help="Replace existing pages.")
def board(folders: tuple[Path, ...], out: Path, *, force: bool) -> None:
    """Write the board of RESULTs, and of the classic policies: static pages.

    The command checks files and training data, and simulates nothing (hdrl bench check does). Results that are not
    true or were withdrawn stay visible with the reason. The exit code is 1 if a folder holds no readable result.
    """
    from hdrl.bench.board import write_board

    pages, unread = write_board(folders, out, force=force)
    for one in unread:
        click.echo(f"{one.folder}: {one.reason}")
    click.echo(f"{out}: {len(pages)} pages; open {pages[0]}")
    if unread:
        raise click.exceptions.Exit(1)


@bench.group("round")
def round_group() -> None:
    """Hide windows until all entries are committed: begin a round, commit entries, reveal it."""


@round_group.command("new")
@click.argument("name")
@click.option("--tasks", required=True, metavar="NAME,...", help="The tasks; their loads must be generated.")
@click.option("--public", required=True, metavar="TEXT", help="Description of the future public value.")
@click.option(
    "-o", "--out", required=True, type=click.Path(path_type=Path), metavar="FOLDER", help="Folder for the round."
)
def new_command(name: str, tasks: str, public: str, out: Path) -> None:
    """Begin the round NAME: NAME.json holds the hash of a secret, NAME.secret the secret. Keep that to yourself."""
    from hdrl.bench.rounds import new_round
    from hdrl.bench.tasks import chosen_tasks, with_seed

    chosen = chosen_tasks(tasks)
    for one in chosen:
        with_seed(one.task.sweep, 0)
    path, secret = new_round(name, [one.name for one in chosen], public, out)
    click.echo(f"{path}: {len(chosen)} task{'' if len(chosen) == 1 else 's'}; publish it, and keep {secret}")


@round_group.command("commit")
@click.argument("path", metavar="ROUND", type=click.Path(path_type=Path))
@click.argument("folders", nargs=-1, required=True, metavar="RESULT...", type=click.Path(path_type=Path))
def commit_command(path: Path, folders: tuple[Path, ...]) -> None:
    """Add the entries of RESULTs on visible windows to the file of a ROUND: their hashes, before it is revealed."""
    from hdrl.bench.results import read_result
    from hdrl.bench.rounds import commit_entries

    results = [read_result(folder) for folder in folders]
    n = len(commit_entries(path, {one.entry_sha256(): one.card.name for one in results}).entries)
    click.echo(f"{path}: {n} {'entry' if n == 1 else 'entries'}")


@round_group.command("reveal")
@click.argument("path", metavar="ROUND", type=click.Path(path_type=Path))
@click.option("--secret", required=True, type=click.Path(path_type=Path), metavar="FILE", help="File of the secret.")
@click.option("--public", required=True, metavar="HASH", help="The public value, in hexadecimal digits.")
def reveal_command(path: Path, secret: Path, public: str) -> None:
    """Reveal a ROUND: its tasks are TASK@NAME from now on, once its folder is in HDRL_ROUNDS."""
    from hdrl.bench.rounds import reveal

    found = reveal(path, secret, public)
    name = path.name.removesuffix(".json")
    click.echo(f"{path}: revealed; {', '.join(f'{task}@{name}' for task in found.tasks)}")


@bench.command()
@click.option("--tasks", required=True, metavar="small|all|NAME,...", help="The tasks.")
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help="Folder for the tables.")
@click.option("-j", "--jobs", "n_workers", type=IntRange(1), help="Processes; by default one per core.")
def measure(tasks: str, out: Path, n_workers: int | None) -> None:
    """Measure the difficulty of tasks and the results of the classic policies: facts.csv and classics.csv."""
    from hdrl.bench.difficulty import measure as measured
    from hdrl.bench.difficulty import write_measured
    from hdrl.bench.tasks import chosen_tasks

    for named in chosen_tasks(tasks):
        found = measured(named, out / "points", n_workers=n_workers)
        write_measured(out, [found])
        fact = found[0]
        click.echo(f"{fact.task}: {fact.best}, gap {fact.gap:.3g}, {fact.seconds:.1f} s")


@bench.command()
@click.argument("folders", nargs=-1, required=True, metavar="RESULT...", type=click.Path(path_type=Path))
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help="Folder for the table.")
def keep(folders: tuple[Path, ...], out: Path) -> None:
    """Keep the numbers of RESULTs of shipped policies for the board: shipped.csv."""
    from hdrl.bench.difficulty import shipped_of, write_shipped
    from hdrl.bench.results import read_result

    found = [one for folder in folders for one in shipped_of(read_result(folder))]
    write_shipped(out, found)
    click.echo(f"{out}: {len(found)} pairs of policy and task")


def _fact_of(facts: dict[str, Difficulty], named: Named) -> Difficulty | None:
    """Return the measurements of a task, as long as it is still the same."""
    found = facts.get(named.name)
    return found if found is not None and found.sha256 == named.task.sha256() else None
