"""Figures of matplotlib as pictures within a page: small, in two widths, for light and for dark screens."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable

import numpy as np

from hdrl.base.errors import HdrlError
from hdrl.figures.figure import Figure, OnPage, Run
from hdrl.figures.style import ALARM, FACTS, FAINT, GRID, INK, NAMES, PALETTE, default_look, require_matplotlib
from hdrl.figures.style import Figure as Drawing
from hdrl.report.page.parts import Chart, Picture

WIDE_IN, NARROW_IN = (9.4, 3.5), (4.3, 3.1)
"""Sizes of a picture on a large and on a small screen, in inches."""

_ON_DARK = ("#4fb0e6", "#ff8f45", "#35cf9f", "#e8a3cb", "#f3bd45", "#86cdf7", "#b398ea", "#bdbdbd")

COLOURS = {
    "text": (INK, "#e7e9ec"),
    "faint": (FAINT, "#a3acb8"),
    "line": (GRID, "#343a43"),
    "alarm": (ALARM, "#ff7a85"),
    **{f"run-{place}": pair for place, pair in enumerate(zip(PALETTE, _ON_DARK, strict=True))},
}
"""Colours of pictures by name, on light and on dark screens; the first is that of the figures."""

_NUMBERS = re.compile(r'( (?:d|x|y|transform|points)=")([^"]*)(")')
_LONG = re.compile(r"(\.\d\d)\d+")
_COLOUR = re.compile("|".join(light for light, _ in COLOURS.values()), re.IGNORECASE)


def chart_of(figure: Figure, on_page: OnPage, runs: list[tuple[int, Run]]) -> Chart | None:
    """Return a figure for the page; ``None`` if no run has what it is made of."""
    shown = [(position, run) for position, run in runs if _has(run, figure.needs)]
    if not shown:
        return None
    require_matplotlib()
    subjects = [run.folder if figure.reads == "trainings" else run.data for _, run in shown]
    try:
        with default_look():
            drawing = figure.draw(subjects, positions=[position for position, _ in shown], **on_page.choices)
        describe = on_page.describe or (lambda names, _: f"{on_page.title}: {', '.join(names)}.")
        words = describe([run.name for _, run in shown], subjects)
    except HdrlError:  # a run without energy, a training that was cut off: the others are shown
        if len(shown) == 1:
            return None
        able = [one for one in shown if chart_of(figure, on_page, [one]) is not None]
        return chart_of(figure, on_page, able) if len(able) < len(shown) else None
    return chart(drawing, on_page.title, words, [(position, run.name) for position, run in shown])


def chart(drawing: Drawing, title: str, words: str, names: list[tuple[int, str]], *, has_marks: bool = False) -> Chart:
    """Return a figure of matplotlib for the page, which has title and names beside it."""
    for ax in drawing.axes:
        ax.set_title("", loc="left")
        for note in [text for text in ax.texts if text.get_gid() == FACTS]:
            note.remove()
        box = ax.get_legend()
        if box is not None and box.get_gid() == NAMES:
            box.remove()
    return Chart(title, words, Picture(_svg(drawing, WIDE_IN), _svg(drawing, NARROW_IN)), names, has_marks)


def _svg(drawing: Drawing, size_in: tuple[float, float]) -> str:
    """Return a figure as the address of an SVG that follows the colours of the screen."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    drawing.set_size_inches(*size_in)
    picture = io.StringIO()
    undated = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with (
        default_look(svg__hashsalt="hdrl", svg__fonttype="none"),
        np.errstate(all="ignore"),  # values off the scale are not drawn
    ):
        for patch in (drawing.patch, *(ax.patch for ax in drawing.axes)):
            patch.set_facecolor("none")
        # Figure.savefig would draw everything twice, once to lay it out.
        write: Callable[..., None] = FigureCanvasSVG(drawing).print_svg
        write(picture, metadata=undated)
    text = picture.getvalue()
    text = text[text.index("<svg") :]
    text = _NUMBERS.sub(lambda found: found[1] + _LONG.sub(r"\1", found[2]) + found[3], text)
    by_colour = {light.lower(): name for name, (light, _) in COLOURS.items()}
    text = _COLOUR.sub(lambda found: f"var(--{by_colour[found[0].lower()]})", text)
    light, dark = ("".join(f"--{name}:{pair[face]};" for name, pair in COLOURS.items()) for face in (0, 1))
    faces = f"<style>svg{{fill:var(--text);{light}}}@media(prefers-color-scheme:dark){{svg{{{dark}}}}}</style>"
    end = text.index(">") + 1
    text = text[:end] + faces + text[end:]
    return "data:image/svg+xml;base64," + base64.b64encode(text.encode()).decode("ascii")


def _has(run: Run, needs: tuple[str, ...]) -> bool:
    return not needs or any((run.folder / file).is_file() for file in needs)
