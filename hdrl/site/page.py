"""The report of an import for people: as text, and as a page in the style of all reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hdrl.base.errors import MissingExtra, OutputError, ReadError
from hdrl.base.files import atomic_write, read_json, write_json
from hdrl.figures.numbers import MISSING, time_unit
from hdrl.report.page.findings import Findings
from hdrl.report.page.page import render
from hdrl.report.page.parts import Cell, PageColumn, PageTable, Panel, Row
from hdrl.report.page.schedule import Packed
from hdrl.site.replay import limits_text

MOST_ROWS = 60
"""Rows of a table on the page; the JSON file has all."""


def read_report(path: str | Path) -> dict[str, Any]:
    """Read the report of an import.

    Raises
    ------
    ReadError
        If it is none.
    """
    path = Path(path)
    data = read_json(path)
    try:
        text_of(data)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError):
        raise ReadError(path, "is not a report of an import, expected a file that 'hdrl site import' wrote") from None
    found: dict[str, Any] = data
    return found


def page_of(report: Mapping[str, Any]) -> str:
    """Return the page of a report.

    Raises
    ------
    MissingExtra
        If Jinja2 is not installed.
    """
    site = report["site"]
    findings = Findings(f"Import of {site}", report["verdict"], report["certainty"], tuple(report["notes"]))
    panels = [
        Panel("Replay", _replay_tables(report), "replay", _replay_note(report)),
        Panel("Input", _read_tables(report), "read"),
        Panel("Machine", _machine_tables(report), "machine"),
        Panel("Next steps", [_commands()], "commands"),
    ]
    packed = Packed(())
    return render(findings, _facts(report), [one for one in panels if one.parts], packed.model, packed.packs)


def text_of(report: Mapping[str, Any]) -> str:
    """Return a report as text: what the page says."""
    lines = [f"{report['site']}: {report['verdict']}", report["certainty"], ""]
    lines += [f"{name}: {value}" for name, value in _facts(report)]
    lines += ["", *(f"- {note}" for note in report["notes"])]
    for table in (*_read_tables(report), *_replay_tables(report), *_machine_tables(report)):
        lines += ["", *text_table(table)]
    return "\n".join(lines) + "\n"


def new_folder(folder: Path) -> None:
    """Make the folder of an answer.

    Raises
    ------
    OutputError
        If it is there already, or cannot be made.
    """
    try:
        folder.mkdir()
    except OSError as error:
        raise OutputError(f"{folder}: cannot be made ({error.strerror}), expected the name of a new folder") from None


def write_forms(
    answer: Mapping[str, Any],
    folder: Path,
    names: tuple[str, str, str],
    text: Callable[[Mapping[str, Any]], str],
    page: Callable[[Mapping[str, Any]], str],
) -> list[str]:
    """Write an answer as JSON, as text and as a page; return what could not be written.

    Parameters
    ----------
    text, page
        Functions that make the text and the page; a page may need an extra.
    """
    write_json(folder / names[0], answer)
    with atomic_write(folder / names[1]) as file:
        file.write(text(answer))
    try:
        html = page(answer)
    except MissingExtra as error:
        return [f"no page {names[2]}: {error}"]
    with atomic_write(folder / names[2]) as file:
        file.write(html)
    return []


def text_table(table: PageTable) -> Iterator[str]:
    """Yield the lines of a table as text, numbers on the right."""
    titles = [column.title + (f" ({column.unit})" if column.unit else "") for column in table.columns]
    cells = [[row.title, *(f"{cell.text} {cell.aside}".rstrip() for cell in row.cells)] for row in table.rows]
    rows = [[table.about, *titles], *cells]
    widths = [max(len(row[position]) for row in rows) for position in range(len(rows[0]))]
    yield table.caption
    for first, *others in rows:
        words = [text.rjust(width) for text, width in zip(others, widths[1:], strict=True)]
        yield "  ".join(["", first.ljust(widths[0]), *words]).rstrip()


def _facts(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    jobs, machine, log = report["jobs"], report["machine"], report["log"]
    facts = [
        ("rows", f"{report['rows']['read']:,}"),
        ("jobs", f"{jobs['kept']:,}"),
        ("left out", f"{sum(jobs['left_out'].values()):,}"),
        ("nodes", f"{machine['nodes']:,}"),
        ("cores", f"{machine['cores']:,}"),
        ("from", log["begin"]),
        ("to", log["end"]),
    ]
    if log["utilization"] is not None:
        facts.append(("cores in use", f"{log['utilization']:.1%}"))
    return facts


def _counts(caption: str, about: str, counts: Mapping[str, int]) -> PageTable:
    return PageTable(
        caption, about, [PageColumn("number")], [Row(name, [Cell(f"{n:,}")]) for name, n in counts.items()]
    )


def _read_tables(report: Mapping[str, Any]) -> list[PageTable]:
    rows, jobs = report["rows"], report["jobs"]
    read = {
        "rows read": rows["read"],
        **rows["skipped"],
        "attempts to run a job": rows["attempts"],
        "different job ids": jobs["ids"],
        **{f"joined: {name}": n for name, n in jobs["joined"].items()},
        **{f"left out: {reason}": n for reason, n in jobs["left_out"].items()},
        "jobs kept": jobs["kept"],
    }
    tables = [
        _counts("Rows and jobs", "count", read),
        _counts("Final states of the kept jobs", "state", jobs["ended"]),
    ]
    files = [Row(one["name"], [Cell(one["sha256"], is_code=True)]) for one in report["files"]]
    return [
        *tables,
        PageTable(f"Files, read as {report['format']}", "file", [PageColumn("SHA-256", is_number=False)], files),
    ]


def _replay_note(report: Mapping[str, Any]) -> str:
    replay = report["replay"]
    if not replay["policies"]:
        return ""
    parts = [f"The last {replay['replayed']:,} jobs were replayed on an empty machine"]
    if replay["warm_up"]:
        parts.append(f"the first {replay['warm_up']:,} of them fill it and are not compared")
    if replay["requeued"]:
        parts.append(f"{replay['requeued']:,} that were requeued are not compared")
    parts += [
        f"{one['never_started']:,} never start under {one['policy']}{limits_text(one.get('limits', {}))}"
        " and are not compared with it"
        for one in replay["policies"]
        if one["never_started"]
    ]
    return "; ".join(parts) + "."


def _replay_tables(report: Mapping[str, Any]) -> list[PageTable]:
    policies = report["replay"]["policies"]
    if not policies:
        return []
    tables = [_distances("Difference from the log", "policy", [(one["policy"], one["all"]) for one in policies])]
    nearest = next((one for one in policies if one["policy"] == report["replay"]["nearest"]), None)
    if nearest is not None:
        for key, about in (("partitions", "partition"), ("weeks", "week")):
            rows = list(nearest[key].items())
            caption = f"By {about}, under {nearest['policy']}"
            if len(rows) > MOST_ROWS:
                caption += f" (the last {MOST_ROWS} of {len(rows)})"
            tables.append(_distances(caption, about, rows[-MOST_ROWS:]))
    return tables


def _distances(caption: str, about: str, rows: Sequence[tuple[str, Mapping[str, Any]]]) -> PageTable:
    largest = max((one[key] or 0.0 for _, one in rows for key in _WAITS), default=0.0)
    seconds, unit = time_unit(largest)

    def time(value: float | None) -> str:
        return MISSING if value is None else f"{value / seconds:,.1f}"

    def share(value: float | None) -> str:
        return MISSING if value is None else f"{value:.2%}"

    def ratio(value: float | None) -> str:
        return MISSING if value is None else f"{value:.2f}"

    columns: list[tuple[str, str, Callable[[Any], str], str]] = [
        ("jobs", "n_jobs", lambda value: f"{value:,}", ""),
        ("pairs in another order", "discordant_share", share, ""),
        ("mean wait", "mean_wait_s", time, unit),
        ("at the site", "site_mean_wait_s", time, unit),
        ("ratio", "wait_ratio", ratio, ""),
        ("median wait", "median_wait_s", time, unit),
        ("at the site", "site_median_wait_s", time, unit),
        ("p95 wait", "p95_wait_s", time, unit),
        ("at the site", "site_p95_wait_s", time, unit),
        ("mean shift of starts", "mean_shift_s", time, unit),
    ]
    return PageTable(
        caption,
        about,
        [PageColumn(title, unit) for title, _, _, unit in columns],
        [Row(name, [Cell(form(one[key])) for _, key, form, _ in columns]) for name, one in rows],
        is_stacked=True,
    )


_WAITS = ("mean_wait_s", "site_mean_wait_s", "p95_wait_s", "site_p95_wait_s")


def _machine_tables(report: Mapping[str, Any]) -> list[PageTable]:
    machine = report["machine"]

    def known(value: Any) -> str:
        return MISSING if value is None else f"{value:,}" if isinstance(value, int) else str(value)

    rows = [
        Row(
            one["name"],
            [
                Cell(known(one["n_nodes"])),
                Cell("" if one["nodes"] is None else one["nodes"][:200]),
                Cell(MISSING if one["max_time_s"] is None else f"{one['max_time_s'] / 3600:,.1f}"),
                Cell(known(one["tier"])),
                Cell(known(one["jobs"])),
            ],
        )
        for one in machine["partitions"][:MOST_ROWS]
    ]
    columns = [
        PageColumn("number of nodes"),
        PageColumn("nodes", is_number=False),
        PageColumn("longest job", "h"),
        PageColumn("tier"),
        PageColumn("jobs"),
    ]
    size = {
        "nodes": machine["nodes"],
        "cores": machine["cores"],
        "most cores that jobs had at one time": machine["peak_cores"],
    }
    if machine["gpus"]:
        size["GPUs"] = machine["gpus"]
    tables = [_counts("Size of the machine", "resource", size), PageTable("Partitions", "partition", columns, rows)]
    if machine["scheduler"]:
        values = [Row(key, [Cell(text, is_code=True)]) for key, text in machine["scheduler"].items()]
        tables.append(PageTable("Rules of the site's scheduler", "key", [PageColumn("value", is_number=False)], values))
    return tables


def _commands() -> PageTable:
    commands = {
        "run a policy": "hdrl-launch fcfs+easy options.json",
        "compare policies": "hdrl compare sjf+easy fcfs+easy -p platform.json -w jobs.swf --baseline fcfs+easy",
        "judge a learned policy": (
            "hdrl compare es-generalist -p platform.json -w jobs.swf --protocol held-out --set site_rules=false"
        ),
    }
    rows = [Row(name, [Cell(text, is_code=True)]) for name, text in commands.items()]
    return PageTable("Commands in this folder", "task", [PageColumn("command", is_number=False)], rows)
