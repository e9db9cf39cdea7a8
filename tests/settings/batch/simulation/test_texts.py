"""Numbers and interval sets as texts: those of printf and of ProcSet."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from procset import ProcSet

from hdrl.settings.batch.simulation.texts import fixed_texts, interval_texts


@given(st.lists(st.sets(st.integers(0, 120), max_size=30), max_size=8), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_interval_texts_are_procsets(sets, unused):
    """Slices in any order, with unused ids around them, print as ProcSet prints."""
    cores, first = [7] * unused, []
    for ids in reversed(sets):
        first.append(len(cores))
        cores += [*sorted(ids), *[7] * unused]
    first.reverse()
    texts = interval_texts(np.array(cores, np.int32), np.array(first, np.int64), np.array([len(s) for s in sets]))
    assert texts == [str(ProcSet(*ids)) if ids else "" for ids in sets]


def test_interval_texts_of_wide_ids():
    cores = np.array([0, 9, 10, 99, 100, 101, 99999, 100000], np.int32)
    assert interval_texts(cores, np.array([0]), np.array([8])) == ["0 9-10 99-101 99999-100000"]


def test_fixed_texts_by_hand():
    values = np.array([0.0, -0.0, 1.0, -1.0, 0.9999995, 0.99999949, 9.9999999, 1234567.5, -1e-9, 5e-7, 15e-7, 2.0**-7])
    assert fixed_texts(values) == [
        *("0.000000", "-0.000000", "1.000000", "-1.000000", "1.000000", "0.999999", "10.000000", "1234567.500000"),
        *("-0.000000", "0.000000", "0.000002", "0.007812"),
    ]
    assert fixed_texts(np.zeros(0)) == []


@given(
    st.lists(
        st.floats()
        | st.floats(-1e12, 1e12)
        # decimals half-way between two texts, and what they are after small sums
        | st.integers(-(10**13), 10**13).map(lambda n: n / 2e6)
        | st.tuples(st.integers(0, 10**9), st.integers(0, 2**20)).map(lambda pair: pair[0] + pair[1] / 2**20)
    )
)
@settings(max_examples=300, deadline=None)
def test_fixed_texts_are_those_of_printf(values):
    assert fixed_texts(np.array(values, dtype=float)) == [f"{value:f}" for value in values]
