"""Pictures: what draws them, and those that every setting has.

Every figure of `figures_of` is a function here: ``figure = figures.gantt("results")``, then ``figure.savefig(...)`` or
`hdrl.figures.style.save`. It takes runs (folders, or what its setting takes besides, one or a list of them)
and, to be part of a larger figure, the axes to draw on.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    """Return the function that draws a figure, of whatever setting."""
    if not name.startswith("_"):
        from hdrl.report.drawing import all_figures

        known = all_figures()
        if name in known:
            return known[name].draw
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
