"""Interval sets as texts: those of ProcSet."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from procset import ProcSet

from hdrl.settings.batch.simulation.texts import interval_texts


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
