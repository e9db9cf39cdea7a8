"""Rectangles to pixels: areas are exact."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdrl.figures.rectangles import coverage, painted


def one(x0, x1, y0, y1, shape, **more):
    return coverage((np.array([x0]), np.array([x1])), (np.array([y0]), np.array([y1])), shape, **more)[0].tolist()


@pytest.mark.parametrize(
    ("rectangle", "expected"),
    [
        ((0, 3, 0, 2), [[1, 1, 1], [1, 1, 1]]),
        ((1, 2, 0, 1), [[0, 1, 0], [0, 0, 0]]),
        ((0.5, 2.25, 0.5, 1), [[0.25, 0.5, 0.125], [0, 0, 0]]),
        ((1.25, 1.5, 0.5, 1.5), [[0, 0.125, 0], [0, 0.125, 0]]),
        ((-5, 9, 1.75, 8), [[0, 0, 0], [0.25, 0.25, 0.25]]),
        ((2, 2, 0, 2), [[0, 0, 0], [0, 0, 0]]),
    ],
)
def test_areas_by_hand(rectangle, expected):
    assert one(*rectangle, (2, 3)) == expected


@given(
    st.lists(
        st.tuples(*[st.floats(0, 7, allow_subnormal=False)] * 2, *[st.floats(0, 5, allow_subnormal=False)] * 2),
        min_size=1,
        max_size=12,
    )
)
def test_no_area_is_lost(rectangles):
    table = np.array(rectangles)
    x, y = np.sort(table[:, :2], axis=1).T, np.sort(table[:, 2:], axis=1).T
    picture = coverage((x[0], x[1]), (y[0], y[1]), (5, 7))[0]
    assert picture.sum() == pytest.approx(np.sum((x[1] - x[0]) * (y[1] - y[0])), abs=1e-6)
    assert picture.min() >= 0


def test_colours_mix_by_area_and_nothing_stays_white():
    # Red fills a quarter of the first pixel, blue an eighth.
    x, y = (np.array([0.0, 0.5]), np.array([0.25, 0.625])), (np.zeros(2), np.ones(2))
    palette = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    picture = painted(x, y, (1, 2), np.array([0, 2]), palette)
    np.testing.assert_allclose(picture[0, 0], [2 / 3, 0, 1 / 3, 0.375])
    assert picture[0, 1].tolist() == [1, 1, 1, 0]


def test_layers_are_pictures_of_their_own():
    x, y = (np.array([0.0, 1.0, 0.0]), np.array([1.0, 2.0, 2.0])), (np.zeros(3), np.full(3, 0.5))
    found = coverage(x, y, (1, 2), np.array([0, 0, 1]), 2)
    assert found.tolist() == [[[0.5, 0.5]], [[0.5, 0.5]]]
    assert coverage(x, y, (1, 2)).tolist() == [[[1, 1]]]


def test_axes_may_begin_anywhere_and_run_downwards():
    x, y = (np.array([10.0]), np.array([15.0])), (np.array([2.0]), np.array([3.0]))
    assert coverage(x, y, (2, 2), extent=((0, 20), (2, 4))).tolist() == [[[0, 0.5], [0, 0]]]
    assert coverage(x, y, (2, 2), extent=((0, 20), (4, 2))).tolist() == [[[0, 0], [0, 0.5]]]
