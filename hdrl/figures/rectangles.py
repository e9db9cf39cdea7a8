"""Drawing rectangles: a few as shapes with borders, many as one image."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hdrl.figures.raster import painted
from hdrl.figures.style import Axes

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Numbers = FloatArray | IntArray

MAX_SHAPES = 1_500
"""Up to so many rectangles are shapes, sharp at any size; more would be slower and heavier than an image."""

IMAGE_COLUMNS, IMAGE_ROWS = 1_600, 800
"""Pixels of such an image: a little more than the axes have."""


def draw_rectangles(
    ax: Axes,
    x: tuple[Numbers, Numbers],
    y: tuple[Numbers, Numbers],
    colour: IntArray,
    palette: FloatArray,
    *,
    n_parts: int = 1,
    borders: bool = True,
    min_opacity: float = 0.06,
) -> None:
    """Draw rectangles within the limits of the axes, which are to be set before.

    Parameters
    ----------
    x, y
        First and last border of each rectangle, in the units of the axes; shape ``(n,)`` each.
    colour
        Row of the colour of each in the palette, shape ``(n,)``.
    palette
        Red, green and blue of each colour from 0 to 1, shape ``(n_colours, 3)``.
    n_parts
        How many axes share the height of the figure.
    borders
        Whether shapes have white borders.
    min_opacity
        How opaque at least a pixel of the image is that something covers: what is rare must not vanish.
    """
    if len(colour) <= MAX_SHAPES:
        _shapes(ax, x, y, palette[colour], borders=borders)
        return
    low_x, high_x = ax.get_xlim()
    low_y, high_y = ax.get_ylim()
    shape = (max(120, IMAGE_ROWS // n_parts), IMAGE_COLUMNS)
    picture = painted(x, y, shape, colour, palette, extent=((low_x, high_x), (low_y, high_y)))
    picture[..., 3] = np.where(picture[..., 3] > 0, np.maximum(picture[..., 3] ** 0.7, min_opacity), 0.0)
    pixels = np.round(255 * picture).astype(np.uint8)
    ax.imshow(pixels, extent=(low_x, high_x, low_y, high_y), origin="lower", aspect="auto", interpolation="antialiased")


def _shapes(
    ax: Axes, x: tuple[Numbers, Numbers], y: tuple[Numbers, Numbers], colours: FloatArray, *, borders: bool
) -> None:
    from matplotlib.collections import PolyCollection

    corners = np.stack(
        [np.column_stack(pair) for pair in ((x[0], y[0]), (x[1], y[0]), (x[1], y[1]), (x[0], y[1]))], axis=1
    )
    width = (0.6 if len(colours) <= 300 else 0.3) if borders else 0.0
    ax.add_collection(
        PolyCollection(list(corners), facecolors=colours, edgecolors="white" if borders else "none", linewidths=width)
    )
