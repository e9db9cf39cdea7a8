"""Threads that share the rows of a batch."""

from __future__ import annotations

import threading

import numba
import numpy as np
import pytest

from hdrl.kernel.team import LEADER, enter_round, leave_round, new_team, request_of, take_rows

IMPATIENT = 1


@numba.njit(nogil=True)
def work(team, done):
    request = request_of(team)
    first, end = take_rows(team)
    while first < end:
        for row in range(first, end):
            done[row] += request
        first, end = take_rows(team)


@numba.njit(nogil=True)
def attend(team, request, patience, done):
    is_on = enter_round(team, request, patience)
    while is_on:
        work(team, done)
        is_on = leave_round(team, patience)


def lead(team, request, done):
    attend(team, request, LEADER, done)


def assist(team, patience, stop, done):
    while stop[0] == 0:
        attend(team, 0, patience, done)


@pytest.mark.parametrize(("n_rows", "n_threads"), [(1, 1), (1, 3), (64, 1), (64, 2), (1000, 3)])
def test_every_row_is_done_once_in_every_round(n_rows: int, n_threads: int) -> None:
    team, done, stop = new_team(n_rows, n_threads), np.zeros(n_rows, dtype=np.int64), np.zeros(1, dtype=np.int64)
    lead(team, 0, done)  # compiled here, not within a round
    others = [threading.Thread(target=assist, args=(team, 1 << 16, stop, done)) for _ in range(n_threads - 1)]
    for other in others:
        other.start()
    expected = 0
    for request in range(1, 3000):
        lead(team, request, done)
        expected += request
        assert np.all(done == expected), request
    stop[0] = 1
    for other in others:
        other.join()


def test_who_helps_takes_rows_from_who_leads() -> None:
    team, done = new_team(4, 2), np.zeros(4, dtype=np.int64)

    @numba.njit(nogil=True)
    def open_only(team):
        enter_round(team, 5, LEADER)

    attend(team, 0, IMPATIENT, done)
    assert not done.any()
    open_only(team)
    attend(team, 0, IMPATIENT, done)  # all of them: nobody else is there
    assert done.tolist() == [5, 5, 5, 5]


def test_there_is_nothing_to_join_before_a_round_and_after_it() -> None:
    team, done = new_team(4, 2), np.zeros(4, dtype=np.int64)
    attend(team, 0, IMPATIENT, done)
    assert not done.any()
    lead(team, 1, done)
    attend(team, 0, IMPATIENT, done)
    assert np.all(done == 1)
