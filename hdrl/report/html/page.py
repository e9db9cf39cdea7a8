"""The page: header with the answer, tabs, and everything that they need inside one file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from hdrl.errors import MissingExtra
from hdrl.report.html.figures import Figures
from hdrl.report.html.findings import Findings
from hdrl.report.html.markup import Markup, joined, script_json, tag
from hdrl.report.html.packing import packed_text
from hdrl.version import VERSION

SCRIPTS = ("data.js", "charts.js", "gantt.js", "page.js")

COLOURS = {
    "light": ("#0b5cad", "#c2410c", "#0a7f5a", "#7a3fb0", "#a8710a", "#c0246f", "#3d6b8f", "#6b5344"),
    "dark": ("#6db1f2", "#ff9a5c", "#4fd0a0", "#c69cf5", "#e8bd4a", "#ff8fc0", "#9fc3df", "#cdb4a2"),
}
"""Colours of the runs, told apart by lightness as well as by hue; beyond them, dashes."""

POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
"""What the page may load: nothing that is not in it."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One tab.

    Attributes
    ----------
    name
        A word for the address of the page.
    title
        What stands on the tab.
    content
        What it shows.
    has_figures
        Whether the browser draws something in it when it is opened.
    """

    name: str
    title: str
    content: Markup
    has_figures: bool = False


def chart_panel(figures: Figures, name: str, title: str, before: Markup | None = None) -> Panel | None:
    """Return a tab with all charts that belong to it, or ``None`` if there are none.

    Parameters
    ----------
    figures
        The figures of the report.
    name
        The panel that the charts name.
    title
        What stands on the tab.
    before
        What comes first.
    """
    charts = [chart for chart in figures.charts if chart["panel"] == name]
    if not charts:
        return None
    pieces: list[Markup] = [before or Markup()]
    for chart in charts:
        drawing = tag("div", id=f"chart-{chart['id']}", class_="chart", role="img", aria_label=chart["alt"])
        pieces += [tag("h2", chart["title"]), drawing, tag("div", class_="legend", id=f"legend-{chart['id']}")]
    return Panel(name, title, joined(pieces), has_figures=True)


def gantt_panel(names: Sequence[str]) -> Panel:
    """Return the tab of the schedules.

    Parameters
    ----------
    names
        Names of the runs.
    """
    options = [tag("option", name, value=index) for index, name in enumerate(names)]
    controls = [tag("label", "Run", tag("select", *options, class_="gantt-run"))]
    if len(names) > 1:
        nobody = tag("option", "none", value="", selected=True)
        controls.append(tag("label", "Below it", tag("select", nobody, *options, class_="gantt-run")))
    kinds = (("wait", "the waiting time"), ("cores", "the number of cores"), ("job", "jobs apart"))
    colours = [tag("option", words, value=value) for value, words in kinds]
    controls.append(tag("label", "Colour tells", tag("select", *colours, class_="gantt-colour")))
    buttons = (("in", "+", "Zoom in"), ("out", "\N{MINUS SIGN}", "Zoom out"), ("all", "All", "Show all"))
    zoom = [tag("button", text, type="button", data_zoom=what, aria_label=words) for what, text, words in buttons]
    controls.append(tag("div", *zoom, class_="zoom", role="group", aria_label="Zoom"))
    canvases = [
        tag("figure", tag("canvas", role="img", tabindex="0", aria_label="Gantt chart"), hidden=index > 0)
        for index in range(min(2, len(names)))
    ]
    note = tag("p", class_="gantt-note note", role="status")
    ends = [tag("span", class_="value") for _ in range(3)]
    strip = tag("span", class_="strip", aria_hidden="true")
    scale = tag("div", ends[0], strip, ends[2], tag("span", "middle ", ends[1]), class_="scale")
    root = tag("div", tag("div", *controls, class_="controls"), note, scale, *canvases, class_="gantt")
    return Panel(
        "schedule", "Schedule", joined((tag("h2", "Which job ran when on which cores"), root)), has_figures=True
    )


def page(
    findings: Findings,
    facts: Sequence[tuple[str, str]],
    panels: Sequence[Panel],
    figures: Figures,
    model: dict[str, Any],
) -> str:
    """Return the whole page.

    Parameters
    ----------
    findings
        What stands above everything.
    facts
        Pairs of a name and a value, shown in a line.
    panels
        The tabs.
    figures
        What the figures need.
    model
        What else the browser must know.

    Raises
    ------
    MissingExtra
        If plotly is not installed.
    """
    model = model | {"charts": figures.charts, "packs": figures.directory, "colours": COLOURS}
    data = [_data("model", script_json(model), "application/json")]
    data += [_data(name, text) for name, text in figures.packs.items()]
    if figures.charts:
        data.append(_data("plotly", packed_text(_plotly())))
    head = tag(
        "head",
        Markup('<meta charset="utf-8">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta name="color-scheme" content="light dark">'),
        Markup('<link rel="icon" href="data:,">'),
        tag("title", findings.question),
        tag("style", Markup(_asset("page.css"))),
    )
    body = tag(
        "body",
        _header(findings, facts),
        tag("main", _tabs(panels), *(_panel(panel) for panel in panels)),
        tag("footer", tag("p", f"Made by hdrl {VERSION}. This page is one file and loads nothing else.")),
        *data,
        tag("script", Markup("\n".join(["(() => {", '"use strict";', *map(_asset, SCRIPTS), "})();"]))),
    )
    return f'<!doctype html>\n<html lang="en">{head}{body}</html>\n'


def _header(findings: Findings, facts: Sequence[tuple[str, str]]) -> Markup:
    shown = [tag("div", tag("dt", name), tag("dd", value)) for name, value in facts]
    pieces = [
        tag("p", "Scheduling report", class_="kicker"),
        tag("h1", findings.question),
        tag("p", findings.verdict, class_="verdict"),
        tag("p", findings.certainty, class_="certainty") if findings.certainty else Markup(),
        tag("dl", *shown, class_="facts"),
    ]
    if findings.warnings:
        title = tag("h2", "Before you believe it", id="warnings")
        items = [tag("li", warning) for warning in findings.warnings]
        pieces.append(tag("section", title, tag("ul", *items), class_="warnings", aria_labelledby="warnings"))
    return tag("header", *pieces)


def _tabs(panels: Sequence[Panel]) -> Markup:
    buttons = [
        tag(
            "button",
            panel.title,
            type="button",
            role="tab",
            id=f"tab-{panel.name}",
            aria_controls=f"panel-{panel.name}",
            aria_selected="true" if index == 0 else "false",
            data_name=panel.name,
        )
        for index, panel in enumerate(panels)
    ]
    return tag("div", *buttons, class_="tabs", role="tablist", aria_label="Parts of the report")


def _panel(panel: Panel) -> Markup:
    return tag(
        "section",
        panel.content,
        id=f"panel-{panel.name}",
        role="tabpanel",
        aria_labelledby=f"tab-{panel.name}",
        data_figures=panel.has_figures,
    )


def _data(name: str, text: str, kind: str = "text/plain") -> Markup:
    return tag("script", Markup(text), type=kind, id=name)


def _asset(name: str) -> str:
    return resources.files("hdrl.report.html").joinpath("assets", name).read_text(encoding="utf-8")


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise MissingExtra("plotly", "report") from None
    return str(get_plotlyjs())
