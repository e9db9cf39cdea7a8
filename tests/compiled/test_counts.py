"""What every step of a batch begins and ends with."""

from __future__ import annotations

import copy

import numba
import numpy as np
import pytest

from hdrl.compiled.borrow import borrow
from hdrl.compiled.borrowed import Borrowed
from hdrl.compiled.counts import ALL_LEGAL, NO_ACTION, Counts, counts_at, keep_count, new_counts, take_actions


@numba.njit
def take(positions, chosen, given, excused):
    return take_actions(counts_at(positions), chosen, given, excused)


@numba.njit
def keep(counts, chosen):
    return keep_count(borrow(counts), chosen)


@pytest.fixture
def counts() -> Counts:
    """Return two rows, of which the first has one legal action and the second two."""
    counts = new_counts(2, 2)
    counts.masks[:] = [[1, 0], [1, 1]]
    return counts


@pytest.mark.parametrize(
    ("given", "illegal"), [([0, 1], ALL_LEGAL), ([1, 1], 0), ([0, 2], 1), ([0, -1], 1), ([2, 2], 0), ([-(2**40), 0], 0)]
)
def test_the_first_illegal_action_is_found(counts: Counts, given: list[int], illegal: int) -> None:
    assert take(Borrowed(counts).addresses, np.array([True, True]), np.array(given), NO_ACTION) == illegal
    assert counts.actions.tolist() == given


def test_only_the_actions_of_chosen_rows_matter(counts: Counts) -> None:
    for given in ([1, 1], [7, 0]):
        assert take(Borrowed(counts).addresses, np.array([False, True]), np.array(given), NO_ACTION) == ALL_LEGAL


def test_an_excused_action_is_legal_but_only_that(counts: Counts) -> None:
    assert take(Borrowed(counts).addresses, np.array([True, True]), np.array([1, 1]), 1) == ALL_LEGAL
    assert take(Borrowed(counts).addresses, np.array([True, True]), np.array([2, 1]), 1) == 0
    counts.masks[:] = 0
    assert take(Borrowed(counts).addresses, np.array([True, True]), np.array([1, 0]), 1) == 1


def test_the_episodes_of_chosen_rows_are_counted() -> None:
    counts = new_counts(4, 1)
    counts.rewards[:], counts.returns[:], counts.lengths[:] = [1, 2, 4, 8], [8, 16, 32, 0], [5, 6, 7, 0]
    counts.terminations[:], counts.truncations[:] = [True, False, False, True], [False, True, False, False]
    assert keep(counts, np.array([True, True, True, False])) == 2
    assert counts.returns.tolist() == [9, 18, 36, 0]
    assert counts.lengths.tolist() == [6, 7, 8, 0]
    assert counts.has_ended.tolist() == [True, True, False, True]


def test_a_copy_of_lent_arrays_lends_its_own(counts: Counts) -> None:
    borrowed = Borrowed(counts)
    other = copy.deepcopy(borrowed)
    take(other.addresses, np.array([True, True]), np.array([0, 1]), NO_ACTION)
    assert other.arrays.actions.tolist() == [0, 1]
    assert borrowed.arrays.actions.tolist() == [0, 0]
