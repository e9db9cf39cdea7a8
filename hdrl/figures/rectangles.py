"""Drawing rectangles: a few as shapes with borders, many as one image, each pixel with the exact area covered."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from hdrl.figures.style import Axes

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Numbers = FloatArray | IntArray
Extent = tuple[tuple[float, float], tuple[float, float]]

MAX_SHAPES = 1_500
"""Up to this many rectangles are shapes, sharp at any size; more would be slower and heavier than an image."""

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
        Number of axes that share the height of the figure.
    borders
        True if shapes have white borders.
    min_opacity
        Least opacity of a covered pixel of the image: rare things must not vanish.
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


_AT_ONCE = 32_768
"""Rectangles that are looked at together: few enough for what is computed of them to stay in the cache."""


def coverage(
    x: tuple[Numbers, Numbers],
    y: tuple[Numbers, Numbers],
    shape: tuple[int, int],
    layer: IntArray | None = None,
    n_layers: int = 1,
    *,
    extent: Extent | None = None,
) -> FloatArray:
    """Return the share of each pixel that rectangles cover: the exact area, however small.

    The overlap of an interval with the pixels of a line is a running sum of four numbers, two at either end; the area
    that a rectangle covers is the product of that for both axes. So a rectangle costs sixteen numbers whatever its
    size, and two running sums over the picture make the areas of all.

    Parameters
    ----------
    x, y
        First and last border of each rectangle, shape ``(n,)`` each.
    layer
        In which of several pictures each rectangle is, shape ``(n,)``; in the only one by default.
    extent
        Coordinates of the left and the right end of the picture, and of its first and last row; a first end may be
        above the last. Pixels from 0 on by default.

    Returns
    -------
    FloatArray
        The covered share of each pixel's area; shape ``(n_layers, rows, columns)``.
    """
    n_rows, n_columns = shape
    ends_x, ends_y = extent or ((0.0, n_columns), (0.0, n_rows))
    result = np.zeros((n_layers, n_rows + 2, n_columns + 2))
    numbers = result.reshape(-1)
    for first in range(0, len(x[0]), _AT_ONCE):
        part = slice(first, first + _AT_ONCE)
        offset = 0 if layer is None else layer[part] * result[0].size
        columns = _ends((x[0][part], x[1][part]), ends_x, n_columns)
        rows = _ends((y[0][part], y[1][part]), ends_y, n_rows)
        for (column, of_column), (row, of_row) in itertools.product(columns, rows):
            np.add.at(numbers, offset + row * (n_columns + 2) + column, of_column * of_row)
    np.cumsum(result, axis=1, out=result)
    np.cumsum(result, axis=2, out=result)
    picture = result[:, :n_rows, :n_columns]
    picture[np.abs(picture) < 1e-9] = 0.0  # rounding errors of a sum that is zero
    return picture


def _ends(
    borders: tuple[Numbers, Numbers], limits: tuple[float, float], n_pixels: int
) -> list[tuple[IntArray, FloatArray]]:
    """Return positions and amounts whose running sum is the overlap of each interval with each pixel."""
    low, high = limits
    ends = []
    for border, sign in zip(borders, (1.0, -1.0) if low < high else (-1.0, 1.0), strict=True):
        inside = np.clip((border - low) * (n_pixels / (high - low)), 0.0, n_pixels)
        pixel = np.floor(inside).astype(np.int64)
        beyond = inside - pixel
        ends += [(pixel, sign * (1.0 - beyond)), (pixel + 1, sign * beyond)]
    return ends


def painted(
    x: tuple[Numbers, Numbers],
    y: tuple[Numbers, Numbers],
    shape: tuple[int, int],
    colour: IntArray,
    palette: FloatArray,
    *,
    extent: Extent | None = None,
) -> FloatArray:
    """Return a picture of coloured rectangles, as red, green, blue and opacity from 0 to 1.

    A pixel has the mean colour of what covers it, and is as opaque as it is covered.

    Parameters
    ----------
    x, y
        First and last border of each rectangle, shape ``(n,)`` each.
    colour
        Row of the colour of each rectangle in the palette, shape ``(n,)``.
    palette
        Red, green and blue of each colour from 0 to 1, shape ``(n_colours, 3)``.
    extent
        Coordinates of the ends of the picture, as in `coverage`.

    Returns
    -------
    FloatArray
        Shape ``(rows, columns, 4)``.
    """
    layers = coverage(x, y, shape, colour, len(palette), extent=extent)
    area = layers.sum(axis=0)
    picture = np.empty((*shape, 4))
    picture[..., :3] = np.tensordot(layers, palette, (0, 0)) / np.where(area > 0, area, 1.0)[..., None]
    picture[area == 0, :3] = 1.0
    picture[..., 3] = area
    return np.clip(picture, 0.0, 1.0, out=picture)
