"""Rectangles to pixels: so many that drawing them one by one would take minutes, and most narrower than a pixel."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def coverage(
    x: tuple[FloatArray, FloatArray],
    y: tuple[FloatArray, FloatArray],
    shape: tuple[int, int],
    weights: FloatArray | None = None,
) -> FloatArray:
    """Return how much of each pixel rectangles cover: the exact area, however small.

    The overlap of an interval with the pixels of a line is a running sum of four numbers, two at either end; the area
    that a rectangle covers is the product of that for both axes. So a rectangle costs sixteen numbers whatever its
    size, and two running sums over the picture make the areas of all.

    Parameters
    ----------
    x, y
        First and last border of each rectangle, in pixels from 0 to the shape; shape ``(n,)`` each.
    shape
        Rows and columns of the picture.
    weights
        Layers of weights, shape ``(n_layers, n)``; a single layer of ones by default.

    Returns
    -------
    FloatArray
        The sum over the rectangles of covered area times weight, shape ``(n_layers, rows, columns)``; a pixel has
        area 1.
    """
    n_rows, n_columns = shape
    if weights is None:
        weights = np.ones((1, len(x[0])))
    columns, rows = _ends(x, n_columns), _ends(y, n_rows)
    size = (n_rows + 2) * (n_columns + 2)
    result = np.zeros((len(weights), size))
    for (column, of_column), (row, of_row) in itertools.product(columns, rows):
        position = row * (n_columns + 2) + column
        area = of_column * of_row
        for layer, weight in zip(result, weights, strict=True):
            layer += np.bincount(position, weights=area * weight, minlength=size)
    picture = result.reshape(len(weights), n_rows + 2, n_columns + 2)
    picture = np.cumsum(np.cumsum(picture, axis=1), axis=2)[:, :n_rows, :n_columns]
    picture[np.abs(picture) < 1e-9] = 0.0  # what rounding leaves of a sum that is zero
    return np.asarray(picture)


def _ends(borders: tuple[FloatArray, FloatArray], n_pixels: int) -> list[tuple[NDArray[np.int64], FloatArray]]:
    """Return positions and amounts whose running sum is the overlap of each interval with each pixel."""
    ends = []
    for border, sign in zip(borders, (1.0, -1.0), strict=True):
        inside = np.clip(border, 0.0, n_pixels)
        pixel = np.floor(inside).astype(np.int64)
        beyond = inside - pixel
        ends += [(pixel, sign * (1.0 - beyond)), (pixel + 1, sign * beyond)]
    return ends


def painted(
    x: tuple[FloatArray, FloatArray],
    y: tuple[FloatArray, FloatArray],
    shape: tuple[int, int],
    colours: FloatArray,
) -> FloatArray:
    """Return a picture of coloured rectangles, as red, green, blue and opacity from 0 to 1.

    A pixel has the mean colour of what covers it, and is as opaque as it is covered.

    Parameters
    ----------
    x, y
        First and last border of each rectangle, in pixels; shape ``(n,)`` each.
    shape
        Rows and columns of the picture.
    colours
        Red, green and blue of each rectangle from 0 to 1, shape ``(n, 3)``.

    Returns
    -------
    FloatArray
        Shape ``(rows, columns, 4)``.
    """
    layers = coverage(x, y, shape, np.vstack((np.ones(len(colours)), colours.T)))
    area = layers[0]
    picture = np.ones((*shape, 4))
    covered = area > 0
    picture[covered, :3] = np.clip(layers[1:, covered] / area[covered], 0.0, 1.0).T
    picture[..., 3] = np.clip(area, 0.0, 1.0)
    return picture
