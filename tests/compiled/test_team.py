"""Threads that share the rows of a batch."""

from __future__ import annotations

import threading

import numba
import numpy as np
import pytest

from hdrl.compiled.team import LEADER, enter_round, leave_round, new_team, request_of, take_row

IMPATIENT = 1


@numba.njit(nogil=True)
def work(team, member, done):
    request = request_of(team)
    row = take_row(team, member)
    while row >= 0:
        done[row] += request
        row = take_row(team, member)


@numba.njit(nogil=True)
def attend(team, request, member, done):
    is_on = enter_round(team, request, member)
    while is_on:
        work(team, member, done)
        is_on = leave_round(team, member)


def lead(team, request, done):
    attend(team, request, LEADER, done)


def assist(team, member, stop, done):
    while stop[0] == 0:
        attend(team, 0, member, done)


@pytest.mark.parametrize(("n_rows", "n_threads"), [(1, 1), (1, 3), (64, 1), (64, 2), (1000, 3)])
def test_every_row_is_done_once_in_every_round(n_rows: int, n_threads: int) -> None:
    team, done, stop = new_team(n_rows, n_threads, 1 << 16), np.zeros(n_rows, dtype=np.int64), np.zeros(1, np.int64)
    lead(team, 0, done)  # compiled here, not within a round
    others = [threading.Thread(target=assist, args=(team, i, stop, done)) for i in range(1, n_threads)]
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
    team, done = new_team(4, 2, IMPATIENT), np.zeros(4, dtype=np.int64)

    @numba.njit(nogil=True)
    def open_only(team):
        enter_round(team, 5, LEADER)

    attend(team, 0, 1, done)
    assert not done.any()
    open_only(team)
    attend(team, 0, 1, done)  # all of them: nobody else is there
    assert done.tolist() == [5, 5, 5, 5]


def test_there_is_nothing_to_join_before_a_round_and_after_it() -> None:
    team, done = new_team(4, 2, IMPATIENT), np.zeros(4, dtype=np.int64)
    attend(team, 0, 1, done)
    assert not done.any()
    lead(team, 1, done)
    attend(team, 0, 1, done)
    assert np.all(done == 1)


def test_rows_are_done_by_who_did_them_before_unless_nobody_else_is_there() -> None:
    team = new_team(7, 2, IMPATIENT)

    @numba.njit(nogil=True)
    def taken(team, members):
        enter_round(team, 5, LEADER)
        return [take_row(team, member) for member in members]

    assert taken(team, np.array([0, 1, 0, 0, 0, 0, 0, 0])) == [0, 3, 1, 2, 4, 5, 6, -1]
    assert taken(team, np.array([0, 0, 0, 0, 0, 0, 0, 0])) == [0, 1, 2, 3, 4, 5, 6, -1]
    assert taken(team, np.array([0, 1, 0, 1, 1, 0, 1, 1])) == [0, 3, 1, 4, 5, 2, 6, -1]
