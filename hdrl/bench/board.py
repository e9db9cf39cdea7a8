"""The board: static pages with ranks and intervals of classic policies and of results, each with its command."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import HdrlError, OutputError
from hdrl.base.files import atomic_write
from hdrl.bench.check import Checked, check_result
from hdrl.bench.difficulty import (
    DIGITS,
    Classic,
    Difficulty,
    is_less_better,
    read_classics,
    read_facts,
)
from hdrl.bench.points import read_points
from hdrl.bench.results import DIVISIONS, Division, Result, read_result
from hdrl.bench.tasks import Named, all_tasks
from hdrl.figures.numbers import MISSING, metric_words, number_words
from hdrl.figures.style import default_look
from hdrl.metrics.statistics import CONFIDENCE, Bootstrap, Interval, mean_ranks
from hdrl.report.page.charts import chart
from hdrl.report.page.findings import Findings
from hdrl.report.page.forest import Axis, Scale, interval
from hdrl.report.page.page import render
from hdrl.report.page.parts import Cell, Chart, Column, Panel, Part, Row, Table
from hdrl.report.page.schedule import Packed
from hdrl.report.ranking import drawn_ranks
from hdrl.version import VERSION

INDEX = "index.html"

MOST_CLASSIC = 12
"""Classic policies of a table: the best ones, and the baseline."""

CLASSIC = "classic"

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Player:
    """Who is on the board.

    Attributes
    ----------
    name
        What it is called.
    origin
        ``classic``, or what kind of entry it is.
    division
        Its division; classic policies are in all.
    core_minutes
        What learning took.
    command
        What makes its numbers again.
    objective, tail
        The numbers of each window, by task.
    """

    name: str
    origin: str
    division: Division
    core_minutes: float
    command: str
    objective: Mapping[str, FloatArray]
    tail: Mapping[str, FloatArray]


@dataclass(frozen=True, slots=True)
class BoardRow:
    """A line of the board.

    Attributes
    ----------
    player
        Whose.
    ratio
        Geometric mean of the ratio to the baseline over all windows, with its interval.
    rank
        Mean rank over all windows among those of the table, with its interval.
    tail
        Ratio of the mean tail to the baseline's: the largest over tasks.
    is_over
        Whether a tail is above the limit of its task.
    """

    player: Player
    ratio: Interval
    rank: Interval
    tail: float
    is_over: bool

    @property
    def name(self) -> str:
        """What it is called."""
        return self.player.name


@dataclass(frozen=True, slots=True)
class Refused:
    """A result that is not ranked.

    Attributes
    ----------
    folder, name
        Where it is, and what it is called.
    reason
        Why.
    """

    folder: str
    name: str
    reason: str


def write_board(folders: Sequence[str | Path], out: str | Path, *, force: bool = False) -> list[Path]:
    """Write the pages of the board: one of all tasks, and one of each task.

    Parameters
    ----------
    force
        Whether pages that are there already are replaced.

    Raises
    ------
    OutputError
        If a page exists already.
    HdrlError
        If a folder holds no result, or a library is missing.
    """
    out = Path(out)
    tasks = all_tasks()
    pages = {INDEX: out / INDEX, **{name: out / f"{name}.html" for name in tasks}}
    if not force:
        for path in pages.values():
            if path.exists():
                raise OutputError(f"{path}: exists already, expected a new folder (--force replaces it)")
    players, refused = _read(folders)
    players = [*_classic_players(tasks), *players]
    texts = {INDEX: _index(tasks, players, refused)}
    texts |= {name: _page_of_task(named, players) for name, named in tasks.items()}
    out.mkdir(parents=True, exist_ok=True)
    for name, path in pages.items():
        with atomic_write(path) as file:
            file.write(texts[name])
    return list(pages.values())


def classic_rows(named: Named) -> list[BoardRow]:
    """Return the lines of the classic policies of a task, best first; nothing if they were not measured yet."""
    return _rows([named], _classic_players({named.name: named}))


def _classic_players(tasks: Mapping[str, Named]) -> list[Player]:
    kept = read_classics()
    found: dict[tuple[str, str], list[Classic]] = {}
    for name, named in tasks.items():
        for one in kept.get(name, ()):
            if one.sha256 == named.task.sha256():
                found.setdefault((named.task.setting_name, one.policy), []).append(one)
    return [
        Player(
            policy,
            CLASSIC,
            "untrained",
            0.0,
            f"hdrl bench run {policy} --tasks {','.join(one.task for one in those)} -o again",
            {one.task: one.objective for one in those},
            {one.task: one.tail for one in those},
        )
        for (_, policy), those in found.items()
    ]


def _read(folders: Sequence[str | Path]) -> tuple[list[Player], list[Refused]]:
    """Read results; those that are not true, or were withdrawn, are told apart."""
    players: list[Player] = []
    refused: list[Refused] = []
    for folder in folders:
        result = read_result(folder)
        where, name = str(folder), result.card.name
        if words := result.withdrawn():
            refused.append(Refused(where, name, f"withdrawn: {words}"))
            continue
        try:
            checked = check_result(folder, n_windows=0)
            if not checked.is_true:
                refused.append(Refused(where, name, _reason(checked)))
                continue
            players.append(_player(result, {one.name for one in players}))
        except HdrlError as error:
            refused.append(Refused(where, name, f"unchecked: {error}"))
    return players, refused


def _reason(checked: Checked) -> str:
    first = checked.findings[0]
    more = f" (and {len(checked.findings) - 1} more)" if len(checked.findings) > 1 else ""
    return f"{first.kind}: {first.where}: {first.text}{more}"


def _player(result: Result, taken: set[str]) -> Player:
    card = result.card
    name, number = card.name, 1
    while name in taken:
        number += 1
        name = f"{card.name} ({number})"
    objective: dict[str, FloatArray] = {}
    tail: dict[str, FloatArray] = {}
    for task in card.tasks:
        rules = all_tasks()[task].task
        values = read_points(result.points(task), [rules.objective, rules.tail])[card.name]
        objective[task], tail[task] = _rounded(values[rules.objective]), _rounded(values[rules.tail])
    minutes = card.training.core_minutes
    return Player(name, card.kind, card.division, minutes, card.command, objective, tail)


def _rounded(values: FloatArray) -> FloatArray:
    """Return numbers with as many digits as those of classic policies, so that equal ones tie."""
    return np.array([float(f"{value:.{DIGITS}g}") for value in values.tolist()])


def _rows(tasks: Sequence[Named], players: Sequence[Player]) -> list[BoardRow]:
    """Return the lines of all who have every one of the tasks, the best mean rank first."""
    names = [named.name for named in tasks]
    there = [one for one in players if all(name in one.objective for name in names)]
    if not there or not names:
        return []
    # The sign makes less better in every task, and its ratios those of the better over the worse side.
    signs = [1.0 if is_less_better(named.task) else -1.0 for named in tasks]
    columns = [
        np.concatenate([sign * one.objective[name] for name, sign in zip(names, signs, strict=True)]) for one in there
    ]
    table = np.stack(columns, axis=1)
    table = np.where(np.isnan(table), np.inf, table)  # what failed comes last
    strata = np.concatenate([np.full(len(there[0].objective[name]), place) for place, name in enumerate(names)])
    ranks = np.stack([mean_ranks(row[np.newaxis]) for row in table])
    bootstrap = Bootstrap(strata)
    found = [
        BoardRow(
            one,
            _ratio(bootstrap, tasks, players, one),
            bootstrap.mean(ranks[:, place]),
            max(_tail(named, players, one) for named in tasks),
            any(_tail(named, players, one) > named.task.tail_limit for named in tasks),
        )
        for place, one in enumerate(there)
    ]
    return sorted(found, key=lambda row: row.rank.value)


def _baseline(named: Named, players: Sequence[Player]) -> Player | None:
    wanted = named.task.baseline
    return next((one for one in players if one.name == wanted and named.name in one.objective), None)


def _ratio(bootstrap: Bootstrap, tasks: Sequence[Named], players: Sequence[Player], one: Player) -> Interval:
    """Return the ratio to the baselines; where more is better its inverse, so that below 1 is better throughout."""
    ours: list[FloatArray] = []
    theirs: list[FloatArray] = []
    for named in tasks:
        baseline = _baseline(named, players)
        if baseline is None:
            return Interval(math.nan, math.nan, math.nan)
        pair = one.objective[named.name], baseline.objective[named.name]
        over, under = pair if is_less_better(named.task) else pair[::-1]
        ours.append(over)
        theirs.append(under)
    return bootstrap.ratio(np.concatenate(ours), np.concatenate(theirs))


def _tail(named: Named, players: Sequence[Player], one: Player) -> float:
    baseline = _baseline(named, players)
    if baseline is None:
        return math.nan
    goal = float(np.mean(baseline.tail[named.name]))
    return float(np.mean(one.tail[named.name])) / goal if goal > 0 else math.nan


def _of_division(division: Division, players: Sequence[Player]) -> list[Player]:
    return [one for one in players if one.origin == CLASSIC or one.division == division]


def _tables(tasks: Sequence[Named], players: Sequence[Player], where: str) -> Iterator[Part]:
    """Return a table and a picture of ranks for each division that anybody is in."""
    for division in DIVISIONS:
        those = _of_division(division, players)
        rows = _rows(tasks, those)
        is_entered = any(row.player.origin != CLASSIC for row in rows)
        if not rows or (division != "untrained" and not is_entered):
            continue
        baselines = {named.task.baseline for named in tasks}
        kept = _kept(rows, baselines)
        yield _table(f"{where}, division {division}: {sum(_n_windows(rows, named) for named in tasks)} windows", kept)
        picture = _picture(tasks, kept, where, baselines)
        if picture is not None:
            yield picture


def _n_windows(rows: Sequence[BoardRow], named: Named) -> int:
    return len(rows[0].player.objective[named.name])


def _kept(rows: Sequence[BoardRow], baselines: set[str]) -> list[BoardRow]:
    best = [row for row in rows if row.player.origin == CLASSIC][:MOST_CLASSIC]
    return [row for row in rows if row.player.origin != CLASSIC or row in best or row.name in baselines]


def _table(caption: str, rows: Sequence[BoardRow]) -> Table:
    scale = Scale.over(end for row in rows for end in row.ratio)
    columns = [
        Column("mean rank", help="over all windows, among all classic policies and the results; 1 is the best"),
        Column("ratio to the baseline", help="geometric mean over windows; below 1 is better"),
        Column("", scale=Axis(scale, "better", "worse")),
        Column("tail", help="mean tail over the baseline's, of the task where that is largest"),
        Column("core-minutes", help="that its training took, as its author says"),
        Column("run it again", is_number=False),
    ]
    return Table(caption, "who", columns, [_line(row, scale) for row in rows], is_stacked=True)


def _line(row: BoardRow, scale: Scale) -> Row:
    one, (ratio, low, high) = row.player, row.ratio
    is_shown = not math.isnan(low) and not low <= 1 <= high
    mark = "" if not is_shown else "good" if ratio < 1 else "bad"
    is_learned = one.origin == "models"
    return Row(
        row.name,
        [
            Cell(
                f"{row.rank.value:.2f}",
                "" if math.isnan(row.rank.low) else f"[{row.rank.low:.2f}, {row.rank.high:.2f}]",
            ),
            Cell(_number(ratio), "" if math.isnan(low) else f"[{_number(low)}, {_number(high)}]", mark),
            Cell(drawing=interval(scale, ratio, low, high, mark=mark, is_learned=is_learned)),
            Cell(_number(row.tail), "over the limit" if row.is_over else "", "bad" if row.is_over else ""),
            Cell(f"{one.core_minutes:g}" if one.core_minutes else ""),
            Cell(one.command, is_code=True),
        ],
        badge="" if one.origin == CLASSIC else "learned" if is_learned else one.origin,
    )


def _number(value: float) -> str:
    return number_words(value) if math.isfinite(value) else MISSING


def _picture(tasks: Sequence[Named], rows: Sequence[BoardRow], where: str, baselines: set[str]) -> Chart | None:
    if len(rows) < 2:
        return None
    signs = [1.0 if is_less_better(named.task) else -1.0 for named in tasks]
    table = np.stack(
        [
            np.concatenate([sign * row.player.objective[named.name] for named, sign in zip(tasks, signs, strict=True)])
            for row in rows
        ],
        axis=1,
    )
    table = table[~np.isnan(table).any(axis=1)]
    if not len(table):
        return None
    names = [row.name for row in rows]
    title = f"{where}: mean ranks among these, joined where no difference is shown"
    with default_look():
        drawing = drawn_ranks(
            names,
            table,
            marked=next(iter(baselines & set(names)), ""),
            what=where,
            lower_is_better=True,
            level=round(1 - CONFIDENCE, 12),
        )
        return chart(drawing, title, f"{title}; best first: {names[0]}", [])


def _index(tasks: Mapping[str, Named], players: Sequence[Player], refused: Sequence[Refused]) -> str:
    entered = [one for one in players if one.origin != CLASSIC]
    panels = []
    # Whoever entered all that can be had without fetching is ranked; whole boards are those of single tasks.
    for title, ranked in _groups(tasks).items():
        panels.append(Panel(title, list(_tables(ranked, players, f"The small tasks of {title}"))))
    panels.insert(0, Panel("Tasks", [_task_table(tasks, players)]))
    if refused:
        panels.append(Panel("Not ranked", [_refused_table(refused)], "not-ranked"))
    n = len(entered)
    findings = Findings(
        "Who schedules best?",
        f"{n} result{'' if n == 1 else 's'} beside the classic policies, on {len(tasks)} tasks.",
        "Ranks and ratios are means over windows, with 95% intervals of a bootstrap that keeps tasks apart; bars join "
        "those between which Wilcoxon's test, after Holm, shows no difference.",
        tuple(f"{one.name} is not ranked: {one.reason}." for one in refused),
    )
    return _rendered(findings, [("tasks", f"{len(tasks)}"), ("results", f"{n}"), ("hdrl", VERSION)], panels)


def _groups(tasks: Mapping[str, Named]) -> dict[str, list[Named]]:
    """Return the small tasks that are ranked together: those of a setting, apart where nothing is known."""
    found: dict[str, list[Named]] = {}
    for named in tasks.values():
        if named.is_small:
            blind = ", blind" if named.task.known == "nothing" else ""
            found.setdefault(f"{named.task.setting_name}{blind}", []).append(named)
    return found


def _task_table(tasks: Mapping[str, Named], players: Sequence[Player]) -> Table:
    facts = read_facts()
    columns = [
        Column("what it is", is_number=False),
        Column("known", is_number=False),
        Column("decides", is_number=False),
        Column("results"),
        Column("best classic policy", is_number=False),
        Column("gap", help="how many times worse than the yardstick the best classic policy is"),
        Column("anybody waits", help="share of windows"),
        Column("agreement", help="Kendall's tau between the rankings by even and by odd windows"),
    ]
    rows = []
    for name, named in tasks.items():
        fact = facts.get(name)
        told = fact if fact is not None and fact.sha256 == named.task.sha256() else None
        n = sum(one.origin != CLASSIC and name in one.objective for one in players)
        words = [named.task.title, named.task.known, metric_words(named.task.objective), str(n or "")]
        rows.append(
            Row(name, [*map(Cell, words), *_fact_cells(told)], badge=f"v{named.task.version}", address=f"{name}.html")
        )
    return Table("The tasks", "task", columns, rows, is_stacked=True)


def _fact_cells(fact: Difficulty | None) -> list[Cell]:
    if fact is None:
        return [Cell() for _ in range(4)]
    return [Cell(fact.best), Cell(_number(fact.gap)), Cell(f"{fact.share_waiting:.0%}"), Cell(f"{fact.agreement:.2f}")]


def _refused_table(refused: Sequence[Refused]) -> Table:
    columns = [Column("folder", is_number=False), Column("why", is_number=False)]
    rows = [Row(one.name, [Cell(Path(one.folder).name), Cell(one.reason)]) for one in refused]
    return Table("Results that are not ranked: withdrawn, or not true", "result", columns, rows)


def _page_of_task(named: Named, players: Sequence[Player]) -> str:
    task = named.task
    parts = list(_tables([named], [_alone(one, named) for one in players if named.name in one.objective], named.name))
    rules = [
        ("known", task.known),
        ("objective", task.objective),
        ("tail", f"{task.tail}, at most {task.tail_limit:g} times the baseline's"),
        ("baseline", task.baseline),
        ("budget", f"{task.budget_core_minutes:g} core-minutes"),
        ("version", f"{task.version}"),
    ]
    panels = [Panel("Ranks", parts)] if parts else []
    told = [*rules, ("SHA-256", task.sha256()), ("yardstick", task.yardstick.words)]
    told += [(key, str(value)) for key, value in task.sweep.items()]
    told += [(f"log {name}", f"{log.how} SHA-256 {log.sha256}") for name, log in task.logs.items()]
    rows = [Row(name, [Cell(text, is_code=True)]) for name, text in told]
    panels.append(Panel("Rules", [Table("The rules of the task", "what", [Column("value", is_number=False)], rows)]))
    best = _rows([named], players)
    answer = f"{best[0].name} has the best mean rank." if best else "Nothing was measured on it yet."
    findings = Findings(
        f"{task.title}: who is best?", answer, f"{task.yardstick.words} is its yardstick.".capitalize(), ()
    )
    return _rendered(findings, rules, panels)


def _alone(one: Player, named: Named) -> Player:
    """Return a player whose command is that of a single task."""
    if one.origin != CLASSIC:
        return one
    return dataclasses.replace(one, command=f"hdrl bench run {one.name} --tasks {named.name} -o again")


def _rendered(findings: Findings, facts: Sequence[tuple[str, str]], panels: Sequence[Panel]) -> str:
    nothing = Packed([])
    shown = [panel for panel in panels if panel.parts]
    return render(findings, facts, shown, nothing.model, nothing.packs)
