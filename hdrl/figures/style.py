"""Style of pictures: colours that everybody can tell apart, titles, axes of time, and files that appear whole.

Nothing here touches the state of ``matplotlib.pyplot``, or changes its settings for longer than it draws. Pictures do
not depend on the user's ``matplotlibrc``.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import MissingExtra, OptionsError
from hdrl.base.files import atomic_write_bytes
from hdrl.figures.figure import Drawn
from hdrl.figures.numbers import axis_number, time_unit

if TYPE_CHECKING:  # matplotlib's types, here for all modules that draw
    from matplotlib.axes import Axes as Axes
    from matplotlib.axis import Axis as Axis
    from matplotlib.figure import Figure as Figure
else:
    Axes = Axis = Figure = Any


PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#5D3A9B", "#4D4D4D")
"""Okabe and Ito's colours for all kinds of colour vision; their yellow, too bright for lines on white, is left out."""

LINE_STYLES = ("-", "--", ":", "-.")
INK, FAINT, GRID, ALARM = "#222222", "#6b6b6b", "#dddddd", "#b00020"
FORMATS = ("png", "svg", "pdf")
DPI = 150
WIDTH_IN, HEIGHT_IN = 10.0, 4.6
MAX_LABEL = 40

FACTS, NAMES = "facts", "names"
"""Marks of the line below a title, and of a legend of runs: a page shows both next to the picture, not in it."""


def require_matplotlib() -> None:
    """Say in one line how to install what draws, where it is not installed."""
    if sys.modules.get("matplotlib") is not None:
        return
    backend = os.environ.pop("MPLBACKEND", None)  # of a notebook, say; matplotlib cannot be imported if it is unknown
    try:
        import matplotlib as mpl
    except ImportError:
        raise MissingExtra("matplotlib", "report") from None
    finally:
        if backend is not None:
            os.environ["MPLBACKEND"] = backend
    if backend:
        with contextlib.suppress(ValueError):  # files need no backend
            mpl.rcParams["backend"] = backend


@contextlib.contextmanager
def default_look(**settings: object) -> Iterator[None]:
    """Draw with matplotlib's own defaults, whatever the user's ``matplotlibrc`` says.

    Texts keep the letters that their font lacks, without a warning for each.

    Parameters
    ----------
    **settings
        Changes of the defaults; two underscores stand for a dot.

    Raises
    ------
    MissingExtra
        If matplotlib is missing.
    """
    require_matplotlib()
    import matplotlib as mpl

    known: dict[Any, Any] = dict(mpl.rcParamsDefault)
    defaults = {name: value for name, value in known.items() if not name.startswith("backend")}
    defaults["font.sans-serif"] = [*defaults["font.sans-serif"][:1], *_wide_fonts()]
    own = {name.replace("__", "."): value for name, value in settings.items()}
    chosen: Any = defaults | own
    with mpl.rc_context(chosen), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


_WIDE_FONTS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Source Han Sans SC",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "IPAGothic",
    "Unifont",
)
"""Fonts with Chinese, Japanese and Korean letters, which matplotlib's own font lacks."""


@cache
def _wide_fonts() -> list[str]:
    from matplotlib.font_manager import fontManager

    installed = set(fontManager.get_font_names())
    return [name for name in _WIDE_FONTS if name in installed]


def canvas(
    ax: Axes | None, n_rows: int = 1, n_columns: int = 1, *, size_in: tuple[float, float] = (WIDTH_IN, HEIGHT_IN)
) -> tuple[Figure, list[Axes]]:
    """Return a figure and its axes: the given ones, or new ones.

    Raises
    ------
    OptionsError
        If several axes are needed and one was given, or it belongs to no figure.
    """
    if ax is not None:
        if n_rows * n_columns > 1:
            raise OptionsError(f"one ax was given, but this picture of {n_rows * n_columns} parts needs one for each")
        tidy(ax)
        owner = ax.get_figure(root=True)
        if owner is None:
            raise OptionsError("the ax belongs to no figure")
        return owner, [ax]
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size_in, dpi=DPI, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    axes = list(np.ravel(figure.subplots(n_rows, n_columns, sharex=n_columns == 1, squeeze=False)))
    for one in axes:
        tidy(one)
    return figure, axes


def tidy(ax: Axes) -> None:
    """Leave of the frame and the grid only what helps to read."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(FAINT)
    ax.tick_params(colors=INK, labelsize=9)
    ax.xaxis.label.set_fontsize(10)
    ax.yaxis.label.set_fontsize(10)
    ax.grid(visible=True, color=GRID, linewidth=0.6)
    ax.set_axisbelow(True)


def colour(index: int) -> str:
    """Return the colour of the run at a position."""
    return PALETTE[index % len(PALETTE)]


def line_style(index: int) -> str:
    """Return the style of line of the run at a position: another one when the colours start again."""
    return LINE_STYLES[index // len(PALETTE) % len(LINE_STYLES)]


def rgb(colours: Sequence[str]) -> NDArray[np.float64]:
    """Return colours as red, green and blue from 0 to 1, shape ``(n, 3)``."""
    return np.array([[int(text[i : i + 2], 16) / 255 for i in (1, 3, 5)] for text in colours]).reshape(-1, 3)


def shortened(text: str, length: int = MAX_LABEL) -> str:
    """Return a text with its middle left out where it is too long."""
    text = " ".join(text.split())
    if len(text) <= length:
        return text
    tail = (length - 1) // 2
    return f"{text[: length - 1 - tail]}…{text[-tail:]}"


def verbatim(text: str) -> str:
    """Return a text that matplotlib shows as it is, though it may hold dollar signs."""
    return text.replace("$", r"\$")


def run_label(run: Drawn, runs: Sequence[Drawn]) -> str:
    """Return the label of a run in the legend: its name, and its policy where that differs between the runs."""
    policy = run.policy
    if policy and policy not in run.name and len({other.policy for other in runs}) > 1:
        return verbatim(shortened(f"{run.name} ({policy})"))
    return verbatim(shortened(run.name))


def write_title(ax: Axes, title: str, runs: Sequence[Drawn], facts: str = "") -> None:
    """Write the title above the axes: what it is, whose it is when there is one run, and what was simulated."""
    if len(runs) == 1:
        title = f"{title}: {verbatim(shortened(runs[0].name))}"
    facts = verbatim(facts)
    ax.set_title(title, loc="left", fontsize=12, fontweight="bold", color=INK, pad=22 if facts else 8)
    if facts:
        below_title(ax, shortened(facts, 130))


def below_title(ax: Axes, text: str) -> None:
    """Write a line between title and axes."""
    note = ax.annotate(
        text,
        (0, 1),
        (0, 7),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=9,
        color=FAINT,
        annotation_clip=False,
        gid=FACTS,
    )
    note.set_in_layout(False)  # it has its place below the title, and must not push axes aside


def legend(
    ax: Axes,
    n_entries: int,
    title: str | None = None,
    handles: Sequence[Any] | None = None,
    *,
    of_runs: bool = False,
    beside: float = 1.01,
) -> None:
    """Put a legend next to the axes, if there is something to tell apart.

    ``handles`` are what to list, by default all that has a label. With ``of_runs`` it only distinguishes runs. It
    begins at ``beside``, a multiple of the width of the axes.
    """
    if n_entries < 2:
        return
    box = ax.legend(
        handles=handles,
        title=title,
        loc="upper left",
        bbox_to_anchor=(beside, 1.0),
        borderaxespad=0.0,
        frameon=False,
        fontsize=9,
        title_fontsize=9,
        alignment="left",
    )
    if of_runs:
        box.set_gid(NAMES)
    for handle in box.legend_handles:
        if handle is not None:
            handle.set_alpha(1.0)


def time_axis(ax: Axes, runs: Sequence[Drawn]) -> float:
    """Make the horizontal axis one of time and return the seconds of its unit."""
    first_s, last_s = common_span(runs)
    seconds, name = time_unit(last_s - first_s)
    ax.set_xlabel(f"time since the start of the simulation ({name})")
    if last_s > first_s:
        ax.set_xlim(first_s / seconds, last_s / seconds)
    return seconds


def common_span(runs: Sequence[Drawn]) -> tuple[float, float]:
    """Return first and last date of all runs."""
    spans = [run.span_s for run in runs]
    return min(span[0] for span in spans), max(span[1] for span in spans)


def whole_numbers(axis: Axis) -> None:
    """Label an axis with whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins="auto", integer=True, steps=[1, 2, 2.5, 5, 10]))


def plain_numbers(axis: Axis) -> None:
    """Label an axis, logarithmic or not, with 1, 10, 1,000 and so on."""
    axis.set_major_formatter(lambda value, _: axis_number(value))


def check_format(path: Path) -> str:
    """Return the format that the name of a file asks for."""
    chosen = path.suffix.lower().removeprefix(".")
    if chosen not in FORMATS:
        raise OptionsError(f"{path}: expected a name that ends in {', '.join(f'.{name}' for name in FORMATS)}")
    return chosen


def save(figure: Figure, path: str | Path) -> None:
    """Save a figure in the format that the name of the file asks for; the same picture gives the same bytes."""
    path = Path(path)
    chosen = check_format(path)
    undated = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[chosen]
    picture = io.BytesIO()
    with (
        default_look(svg__hashsalt="hdrl", svg__fonttype="none", pdf__fonttype=42),
        np.errstate(all="ignore"),  # values off the scale are not drawn
    ):
        figure.savefig(picture, format=chosen, dpi=DPI, metadata=undated)
    with atomic_write_bytes(path) as out:
        out.write(picture.getvalue())
