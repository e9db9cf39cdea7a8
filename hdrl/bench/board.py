"""The board: static pages with ranks and intervals of classic policies and of results, each with its command."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hdrl.base import elementary
from hdrl.base.errors import HdrlError, OutputError, readable
from hdrl.base.files import atomic_write
from hdrl.bench.check import Checked, check_result
from hdrl.bench.difficulty import (
    DIGITS,
    Classic,
    Difficulty,
    Shipped,
    is_less_better,
    read_classics,
    read_facts,
    read_shipped,
)
from hdrl.bench.points import read_points
from hdrl.bench.results import DIVISIONS, BenchResult, Division, read_result
from hdrl.bench.rounds import AT, find_round
from hdrl.bench.tasks import Named, all_tasks, read_task
from hdrl.figures.numbers import MISSING, metric_words, number_words
from hdrl.figures.style import INK, canvas, colour, default_look, plain_numbers, shortened, verbatim
from hdrl.metrics.statistics import CONFIDENCE, Bootstrap, Interval, ladder, mean_ranks
from hdrl.report.page.charts import chart
from hdrl.report.page.findings import Findings
from hdrl.report.page.forest import Axis, Scale, interval
from hdrl.report.page.page import render
from hdrl.report.page.parts import Cell, Chart, PageColumn, PageTable, Panel, Part, Row
from hdrl.report.page.schedule import Packed
from hdrl.report.ranking import drawn_ranks
from hdrl.version import VERSION

INDEX = "index.html"

MOST_CLASSIC = 12
"""Classic policies of a table: the best ones, and the baseline."""

CLASSIC, SHIPPED = "classic", "shipped"
"""Origins of entries without a result: classic policies, and learned ones that come with hdrl."""

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BoardEntry:
    """Entry of the board.

    Attributes
    ----------
    name
        Its name.
    origin
        ``classic``, ``shipped``, or what kind of entry it is.
    division
        Its division; classic policies are in all.
    core_minutes
        Core-minutes of its training.
    command
        Command that reproduces its numbers.
    objective, tail
        The numbers of each window, by task.
    page
        The page of its result, with all that makes it again; empty if it has none.
    """

    name: str
    origin: str
    division: Division
    core_minutes: float
    command: str
    objective: Mapping[str, FloatArray]
    tail: Mapping[str, FloatArray]
    page: str = ""


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
        True if a tail is above the limit of its task.
    """

    player: BoardEntry
    ratio: Interval
    rank: Interval
    tail: float
    is_over: bool

    @property
    def name(self) -> str:
        """Name of the entry."""
        return self.player.name


@dataclass(frozen=True, slots=True)
class Refused:
    """A result that is not ranked.

    Attributes
    ----------
    folder, name
        Its folder, and its name.
    reason
        Why.
    page
        The page of the result; empty if its card cannot be read.
    """

    folder: str
    name: str
    reason: str
    page: str


def write_board(
    folders: Sequence[str | Path], out: str | Path, *, force: bool = False
) -> tuple[list[Path], list[Refused]]:
    """Write the pages of the board: one of all tasks, and one of each task and each result.

    Parameters
    ----------
    force
        True if pages that are there already are replaced.

    Returns
    -------
    tuple
        The pages, that of all tasks first, and the folders that hold no result that can be read.

    Raises
    ------
    OutputError
        If a page exists already.
    HdrlError
        If a library is missing.
    """
    out = Path(out)
    results, unread = _read(folders)
    players, refused = _judged(results)
    refused += unread
    of_rounds = {name for one in players for name in one.objective if AT in name}
    tasks = all_tasks() | {name: read_task(name) for name in sorted(of_rounds)}
    pages = {
        INDEX: out / INDEX,
        **{page: out / page for page in results},
        **{name: out / f"{name}.html" for name in tasks},
    }
    if not force:
        for path in pages.values():
            if path.exists():
                raise OutputError(f"{path}: exists already, expected a new folder (--force replaces it)")
    baselines = _baselines_of_rounds([results[one.page] for one in players], of_rounds)
    known = [*_classic_players(tasks), *_shipped_players(tasks), *baselines]
    taken = {one.name for one in known}
    players = [
        *known,
        *(dataclasses.replace(one, name=f"{one.name} (result)") if one.name in taken else one for one in players),
    ]
    texts = {INDEX: _index(tasks, players, refused)}
    texts |= {name: _page_of_task(named, players) for name, named in tasks.items()}
    texts |= {page: _page_of_result(result, tasks) for page, result in results.items()}
    out.mkdir(parents=True, exist_ok=True)
    for name, path in pages.items():
        with atomic_write(path) as file:
            file.write(texts[name])
    return list(pages.values()), unread


def classic_rows(named: Named) -> list[BoardRow]:
    """Return the lines of the classic policies of a task, best first; nothing if they were not measured yet."""
    return _rows([named], _classic_players({named.name: named}))


def _shipped_players(tasks: Mapping[str, Named]) -> list[BoardEntry]:
    """Return the learned policies that come with hdrl."""
    found: dict[tuple[str, str, Division], list[Shipped]] = {}
    for one in read_shipped():
        if one.task in tasks and one.sha256 == tasks[one.task].task.sha256():
            found.setdefault((tasks[one.task].task.setting_name, one.policy, one.division), []).append(one)
    return [
        BoardEntry(
            policy,
            SHIPPED,
            division,
            those[0].core_minutes,
            those[0].how or f"hdrl bench run {policy} --tasks {','.join(one.task for one in those)} -o again",
            {one.task: one.objective for one in those},
            {one.task: one.tail for one in those},
        )
        for (_, policy, division), those in found.items()
    ]


def _baselines_of_rounds(results: Sequence[BenchResult], tasks: Iterable[str]) -> list[BoardEntry]:
    """Return the baselines of tasks of rounds, whose numbers stand in each true result."""
    found = []
    for task in sorted(tasks):
        result = next(one for one in results if task in one.card.tasks)
        rules = read_task(task).task
        values = read_points(result.points(task), [rules.objective, rules.tail])[rules.baseline]
        command = f"hdrl bench run {rules.baseline} --tasks {task} -o again"
        objective, tail = ({task: _rounded(values[name])} for name in (rules.objective, rules.tail))
        found.append(BoardEntry(rules.baseline, CLASSIC, "untrained", 0.0, command, objective, tail))
    return found


def _classic_players(tasks: Mapping[str, Named]) -> list[BoardEntry]:
    kept = read_classics()
    found: dict[tuple[str, str], list[Classic]] = {}
    for name, named in tasks.items():
        for one in kept.get(name, ()):
            if one.sha256 == named.task.sha256():
                found.setdefault((named.task.setting_name, one.policy), []).append(one)
    return [
        BoardEntry(
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


def _read(folders: Sequence[str | Path]) -> tuple[dict[str, BenchResult], list[Refused]]:
    """Return the results by page, and the folders that hold none that can be read."""
    results: dict[str, BenchResult] = {}
    unread: list[Refused] = []
    for position, folder in enumerate(folders):
        try:
            results[f"result-{position + 1}.html"] = read_result(folder)
        except HdrlError as error:
            unread.append(Refused(str(folder), readable(Path(folder).name), f"unread: {error}", ""))
    return results, unread


def _judged(results: Mapping[str, BenchResult]) -> tuple[list[BoardEntry], list[Refused]]:
    """Check results; return those that are false or withdrawn separately."""
    players: list[BoardEntry] = []
    refused: list[Refused] = []
    attempts: dict[tuple[str, Division, tuple[str, ...]], list[tuple[str, BoardEntry]]] = {}
    for page, result in results.items():
        where, card = str(result.folder), result.card
        if words := result.withdrawn():
            refused.append(Refused(where, card.name, f"withdrawn: {words.removesuffix('.')}", page))
            continue
        try:
            checked = check_result(result.folder, n_windows=0)
            words = _uncommitted(result) if checked.is_true else _reason(checked)
            if words:
                refused.append(Refused(where, card.name, words, page))
                continue
            series = attempts.setdefault((card.name, card.division, tuple(sorted(card.tasks))), [])
            player = _player(result, {one.name for one in players} if not series else set())
            series.append((where, dataclasses.replace(player, page=page)))
        except HdrlError as error:
            refused.append(Refused(where, card.name, f"unchecked: {error}", page))
            continue
        if len(series) == 1:
            players.append(series[0][1])
    for series in attempts.values():
        published, behind = _climbed(series)
        players[players.index(series[0][1])] = published
        refused += behind
    return players, refused


def _uncommitted(result: BenchResult) -> str:
    """Name a round whose windows were known before an entry was committed; empty if there is none."""
    for task in result.card.tasks:
        _, at, name = task.partition(AT)
        if at and result.entry_sha256() not in find_round(name).entries:
            return f"round: {task}: the entry was not committed before round {name} was revealed"
    return ""


def _climbed(series: Sequence[tuple[str, BoardEntry]]) -> tuple[BoardEntry, list[Refused]]:
    """Return the ranked attempt of one name, and the reasons against the others: by the Ladder."""
    (_, first), *more = series
    if not more:
        return first, []
    signs = {task: 1.0 if is_less_better(read_task(task).task) else -1.0 for task in first.objective}
    scores = np.array(
        [
            np.concatenate([sign * elementary.log(one.objective[task]) for task, sign in signs.items()])
            for _, one in series
        ]
    )
    scores = np.where(np.isfinite(scores), scores, np.nan)
    scores = scores[:, ~np.isnan(scores).any(axis=0)]
    rungs = ladder(scores)
    last = max(number for number, rung in enumerate(rungs) if rung.is_published)
    refused = []
    for number, ((where, one), rung) in enumerate(zip(series, rungs, strict=True)):
        if rung.is_published and number != last:
            refused.append(
                Refused(where, first.name, f"attempt {number + 1}: attempt {last + 1} has replaced it", one.page)
            )
        elif not rung.is_published:
            step = "more windows" if math.isinf(rung.step) else f"at most {number_words(math.exp(-rung.step))}"
            words = (
                f"has {number_words(math.exp(rung.change))} times what stood before it, expected {step} (the Ladder)"
            )
            refused.append(Refused(where, first.name, f"attempt {number + 1}: {words}", one.page))
    return dataclasses.replace(series[last][1], name=first.name), refused


def _reason(checked: Checked) -> str:
    first = checked.findings[0]
    more = f" (and {len(checked.findings) - 1} more)" if len(checked.findings) > 1 else ""
    return f"{first.kind}: {first.where}: {first.text}{more}"


def _player(result: BenchResult, taken: set[str]) -> BoardEntry:
    card = result.card
    name, number = card.name, 1
    while name in taken:
        number += 1
        name = f"{card.name} ({number})"
    objective: dict[str, FloatArray] = {}
    tail: dict[str, FloatArray] = {}
    for task in card.tasks:
        rules = read_task(task).task
        values = read_points(result.points(task), [rules.objective, rules.tail])[card.name]
        objective[task], tail[task] = _rounded(values[rules.objective]), _rounded(values[rules.tail])
    minutes = card.training.core_minutes
    return BoardEntry(name, card.kind, card.division, minutes, card.command, objective, tail)


def _rounded(values: FloatArray) -> FloatArray:
    """Return numbers with as many digits as those of classic policies, so that equal ones tie."""
    return np.array([float(f"{value:.{DIGITS}g}") for value in values.tolist()])


def _rows(tasks: Sequence[Named], players: Sequence[BoardEntry]) -> list[BoardRow]:
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
    table = np.where(np.isnan(table), np.inf, table)  # failed entries come last
    strata = np.concatenate([np.full(len(there[0].objective[name]), position) for position, name in enumerate(names)])
    ranks = np.stack([mean_ranks(row[np.newaxis]) for row in table])
    bootstrap = Bootstrap(strata)
    found = [
        BoardRow(
            one,
            _ratio(bootstrap, tasks, players, one),
            bootstrap.mean(ranks[:, position]),
            max(_tail(named, players, one) for named in tasks),
            any(_tail(named, players, one) > named.task.tail_limit for named in tasks),
        )
        for position, one in enumerate(there)
    ]
    return sorted(found, key=lambda row: row.rank.value)


def _baseline(named: Named, players: Sequence[BoardEntry]) -> BoardEntry | None:
    wanted = named.task.baseline
    return next((one for one in players if one.name == wanted and named.name in one.objective), None)


def _ratio(bootstrap: Bootstrap, tasks: Sequence[Named], players: Sequence[BoardEntry], one: BoardEntry) -> Interval:
    """Return the ratio to the baselines; where more is better its inverse, so that below 1 is better throughout."""
    candidate_values: list[FloatArray] = []
    reference_values: list[FloatArray] = []
    for named in tasks:
        baseline = _baseline(named, players)
        if baseline is None:
            return Interval(math.nan, math.nan, math.nan)
        pair = one.objective[named.name], baseline.objective[named.name]
        if np.isnan(pair[0]).any():  # else it would pay to fail where others are better
            return Interval(math.nan, math.nan, math.nan)
        over, under = pair if is_less_better(named.task) else pair[::-1]
        candidate_values.append(over)
        reference_values.append(under)
    return bootstrap.ratio(np.concatenate(candidate_values), np.concatenate(reference_values))


def _tail(named: Named, players: Sequence[BoardEntry], one: BoardEntry) -> float:
    baseline = _baseline(named, players)
    if baseline is None:
        return math.nan
    goal = float(np.mean(baseline.tail[named.name]))
    return float(np.mean(one.tail[named.name])) / goal if goal > 0 else math.nan


def _of_division(division: Division, players: Sequence[BoardEntry]) -> list[BoardEntry]:
    return [one for one in players if one.origin == CLASSIC or one.division == division]


def _tables(tasks: Sequence[Named], players: Sequence[BoardEntry], where: str) -> Iterator[Part]:
    """Return tables and pictures of ranks for each division that anybody is in, then what makes all rows again."""
    commands: dict[str, BoardEntry] = {}
    for division in DIVISIONS:
        those = [one for one in _of_division(division, players) if all(named.name in one.objective for named in tasks)]
        if division != "untrained" and all(one.origin == CLASSIC for one in those):
            continue
        rows = _rows(tasks, those)
        if not rows:
            continue
        baselines = {named.task.baseline for named in tasks}
        kept = _kept(rows, baselines)
        commands |= {row.name: row.player for row in kept}
        yield _table(f"{where}, division {division}: {sum(_n_windows(rows, named) for named in tasks)} windows", kept)
        picture = _picture(tasks, kept, where, baselines)
        if picture is not None:
            yield picture
        pareto = _pareto(kept, where)
        if pareto is not None:
            yield pareto
    if commands:
        yield _command_table(where, commands.values())


def _command_table(where: str, players: Iterable[BoardEntry]) -> PageTable:
    """Return the commands, which are too long for a table of numbers."""
    rows = [Row(one.name, [Cell(one.command, is_code=True)], address=one.page) for one in players]
    columns = [PageColumn("command", is_number=False)]
    return PageTable(f"{where}: commands that reproduce the results", "entry", columns, rows, is_stacked=True)


def _n_windows(rows: Sequence[BoardRow], named: Named) -> int:
    return len(rows[0].player.objective[named.name])


def _kept(rows: Sequence[BoardRow], baselines: set[str]) -> list[BoardRow]:
    best = [row for row in rows if row.player.origin == CLASSIC][:MOST_CLASSIC]
    return [row for row in rows if row.player.origin != CLASSIC or row in best or row.name in baselines]


def _table(caption: str, rows: Sequence[BoardRow]) -> PageTable:
    scale = Scale.over(end for row in rows for end in row.ratio)
    columns = [
        PageColumn("mean rank", help="over all windows, among all classic policies and the results; 1 is the best"),
        PageColumn("ratio to the baseline", help="geometric mean over windows; below 1 is better"),
        PageColumn("", scale=Axis(scale, "better", "worse")),
        PageColumn("tail", help="mean tail over the baseline's, of the task where that is largest"),
        PageColumn("core-minutes", help="that its training took, as its author says"),
    ]
    return PageTable(caption, "entry", columns, [_line(row, scale) for row in rows], is_stacked=True)


def _line(row: BoardRow, scale: Scale) -> Row:
    one, (ratio, low, high) = row.player, row.ratio
    is_shown = not math.isnan(low) and not low <= 1 <= high
    mark = "" if not is_shown else "good" if ratio < 1 else "bad"
    is_learned = one.origin in ("models", SHIPPED)
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
        ],
        badge="" if one.origin == CLASSIC else "learned" if is_learned else one.origin,
        address=one.page,
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


def _pareto(rows: Sequence[BoardRow], where: str) -> Chart | None:
    """Draw quality against the cost of training, with a line through the best at each budget."""
    shown = [row for row in rows if math.isfinite(row.ratio.value)]
    if all(row.player.core_minutes == 0 for row in shown):
        return None
    ordered = sorted(shown, key=lambda row: (row.player.core_minutes, row.ratio.value))
    best = itertools.accumulate((row.ratio.value for row in ordered), min)
    front = [row for row, least in zip(ordered, best, strict=True) if row.ratio.value == least]
    front = [
        row for position, row in enumerate(front) if position == 0 or row.ratio.value < front[position - 1].ratio.value
    ]
    title = f"{where}: quality against training"
    with default_look():
        figure, (axes,) = canvas(None, 1, 1, size_in=(9.0, 3.5))
        for position, row in enumerate(ordered):
            low, high = (row.ratio.value if math.isnan(end) else end for end in row.ratio[1:])
            shade = colour(1) if row.player.core_minutes else colour(0)
            at = row.player.core_minutes
            axes.plot([at, at], [low, high], color=shade, linewidth=1)
            axes.plot([at], [row.ratio.value], "o", color=shade, markersize=6)
            if row in front or at:
                axes.annotate(
                    verbatim(shortened(row.name, 24)),
                    (at, row.ratio.value),
                    (8, 8 if position % 2 else -10),
                    textcoords="offset points",
                    fontsize=9,
                )
        minutes = [row.player.core_minutes for row in front]
        axes.step(minutes, [row.ratio.value for row in front], where="post", color=INK, linewidth=1)
        axes.set_xscale("symlog", linthresh=1.0)
        axes.set_yscale("log")
        ticks = Scale.over(end for row in shown for end in row.ratio).ticks()
        axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.set_xlim(-0.2, 3 * max(row.player.core_minutes for row in shown))
        plain_numbers(axes.xaxis)
        axes.set_xlabel("core-minutes of training")
        axes.set_ylabel("ratio to the baseline")
        names = ", ".join(row.name for row in front)
        return chart(figure, title, f"{title}; no entry is better at the same budget than {names}.", [])


def _index(tasks: Mapping[str, Named], players: Sequence[BoardEntry], refused: Sequence[Refused]) -> str:
    entered = [one for one in players if one.origin not in (CLASSIC, SHIPPED)]
    panels = []
    # Entries of all tasks that need no download are ranked; whole boards are those of single tasks.
    for title, ranked in _groups(tasks).items():
        panels.append(Panel(title, list(_tables(ranked, players, f"Small tasks of {title}"))))
    panels.insert(0, Panel("Tasks", [_task_table(tasks, players)]))
    if refused:
        panels.append(Panel("Not ranked", [_refused_table(refused)], "not-ranked"))
    n = len(entered)
    findings = Findings(
        "Ranking of scheduling policies",
        f"{n} result{'' if n == 1 else 's'} beside the policies that come with hdrl, on {len(tasks)} tasks.",
        "Ranks and ratios are means over windows, with 95% intervals of a bootstrap that keeps tasks apart; bars join "
        "those between which Wilcoxon's test, after Holm, shows no difference.",
        tuple(f"{one.name} is not ranked: {one.reason}." for one in refused),
    )
    return _rendered(findings, [("tasks", f"{len(tasks)}"), ("results", f"{n}"), ("hdrl", VERSION)], panels)


def _groups(tasks: Mapping[str, Named]) -> dict[str, list[Named]]:
    """Return the small tasks that are ranked together: the tasks of a setting, apart where nothing is known."""
    found: dict[str, list[Named]] = {}
    for named in tasks.values():
        if named.is_small:
            blind = ", blind" if named.task.known == "nothing" else ""
            _, at, name = named.name.partition(AT)
            blind += f", round {name}" if at else ""
            found.setdefault(f"{named.task.setting_name}{blind}", []).append(named)
    return found


def _task_table(tasks: Mapping[str, Named], players: Sequence[BoardEntry]) -> PageTable:
    facts = read_facts()
    columns = [
        PageColumn("description", is_number=False),
        PageColumn("information", is_number=False),
        PageColumn("objective", is_number=False),
        PageColumn("results"),
        PageColumn("best classic policy", is_number=False),
        PageColumn("gap", help="how many times worse than the yardstick the best classic policy is"),
        PageColumn("busy windows", help="share of windows in which jobs wait under the baseline"),
        PageColumn("agreement", help="Kendall's tau between the rankings by even and by odd windows"),
    ]
    rows = []
    for name, named in tasks.items():
        fact = facts.get(name)
        said = fact if fact is not None and fact.sha256 == named.task.sha256() else None
        n = sum(one.origin not in (CLASSIC, SHIPPED) and name in one.objective for one in players)
        words = [named.task.title, named.task.known, metric_words(named.task.objective), str(n or "")]
        rows.append(
            Row(name, [*map(Cell, words), *_fact_cells(said)], badge=f"v{named.task.version}", address=f"{name}.html")
        )
    return PageTable("Tasks", "task", columns, rows, is_stacked=True)


def _fact_cells(fact: Difficulty | None) -> list[Cell]:
    if fact is None:
        return [Cell() for _ in range(4)]
    return [Cell(fact.best), Cell(_number(fact.gap)), Cell(f"{fact.share_waiting:.0%}"), Cell(f"{fact.agreement:.2f}")]


def _refused_table(refused: Sequence[Refused]) -> PageTable:
    columns = [PageColumn("folder", is_number=False), PageColumn("reason", is_number=False)]
    rows = [Row(one.name, [Cell(Path(one.folder).name), Cell(one.reason)], address=one.page) for one in refused]
    return PageTable("Excluded results", "result", columns, rows)


def _page_of_result(result: BenchResult, tasks: Mapping[str, Named]) -> str:
    """Return the page of a result: what it is, and the commands that check it and make it again."""
    card, folder = result.card, result.folder.name
    withdrawn = result.withdrawn()
    said = [
        ("command", card.command),
        ("check", f"hdrl bench check {folder} --windows all"),
        ("folder", folder),
        ("division", card.division),
        ("kind", card.kind),
        ("policy", card.policy),
        ("files", ", ".join(card.files)),
        ("training", f"{card.training.core_minutes:g} core-minutes. {card.training.words}".strip()),
        ("made with hdrl", card.hdrl),
        ("withdrawn", withdrawn),
    ]
    rows = [Row(name, [Cell(text, is_code=True)]) for name, text in said if text]
    judged = [
        Row(name, [Cell(sha256, is_code=True)], address=f"{name}.html" if name in tasks else "")
        for name, sha256 in card.tasks.items()
    ]
    parts = [
        PageTable("Entry", "property", [PageColumn("value", is_number=False)], rows),
        PageTable("Tasks", "task", [PageColumn("SHA-256 of the task", is_number=False)], judged),
    ]
    notes = (f"It was withdrawn: {withdrawn}",) if withdrawn else ()
    answer = f"{len(card.tasks)} task{'' if len(card.tasks) == 1 else 's'}, division {card.division}."
    findings = Findings(f"Result of {card.name}", answer, "Its statements about training cannot be checked.", notes)
    return _rendered(findings, [("hdrl", card.hdrl)], [Panel("Result", parts)])


def _page_of_task(named: Named, players: Sequence[BoardEntry]) -> str:
    task = named.task
    parts = list(
        _tables([named], [_single_task_entry(one, named) for one in players if named.name in one.objective], named.name)
    )
    rules = [
        ("known", task.known),
        ("objective", task.objective),
        ("tail", f"{task.tail}, at most {task.tail_limit:g} times the baseline's"),
        ("baseline", task.baseline),
        ("budget", f"{task.budget_core_minutes:g} core-minutes"),
        ("version", f"{task.version}"),
    ]
    panels = [Panel("Ranks", parts)] if parts else []
    said = [*rules, ("SHA-256", task.sha256()), ("yardstick", task.yardstick.words)]
    said += [(key, str(value)) for key, value in task.sweep.items()]
    said += [(f"log {name}", f"{log.how} SHA-256 {log.sha256}") for name, log in task.logs.items()]
    rows = [Row(name, [Cell(text, is_code=True)]) for name, text in said]
    panels.append(
        Panel("Rules", [PageTable("Rules of the task", "rule", [PageColumn("value", is_number=False)], rows)])
    )
    best = _rows([named], players)
    answer = f"{best[0].name} has the best mean rank." if best else "Nothing was measured on it yet."
    findings = Findings(f"{task.title}: ranking", answer, f"{task.yardstick.words} is its yardstick.".capitalize(), ())
    return _rendered(findings, rules, panels)


def _single_task_entry(one: BoardEntry, named: Named) -> BoardEntry:
    """Return a player whose command is that of a single task."""
    if one.origin not in (CLASSIC, SHIPPED) or not one.command.startswith(f"hdrl bench run {one.name} "):
        return one
    return dataclasses.replace(one, command=f"hdrl bench run {one.name} --tasks {named.name} -o again")


def _rendered(findings: Findings, facts: Sequence[tuple[str, str]], panels: Sequence[Panel]) -> str:
    nothing = Packed([])
    shown = [panel for panel in panels if panel.parts]
    return render(findings, facts, shown, nothing.model, nothing.packs)
