"""The plan of conservative backfilling by hand, and against sums over all stays."""

from typing import NamedTuple

import numba
import numpy as np
import pytest

from hdrl.settings.batch.kernel import plan as kernel_plan
from hdrl.settings.batch.kernel.dtypes import JOB_STATE_DTYPE, SCALAR_DTYPE
from hdrl.settings.batch.kernel.plan import NOT_FOUND, RESERVATION_DTYPE, ROUNDING_S

CLEAR, HOLD, LEAVE = kernel_plan.clear, kernel_plan.hold, kernel_plan.leave_plan
PUT_IN, TAKE_OUT, MOVE = kernel_plan.put_in, kernel_plan.take_out, kernel_plan.move_earlier
FIRST_DATE, FIND_ROOM, STAYS_FREE = kernel_plan.first_date, kernel_plan.find_room, kernel_plan.stays_free


class Arrays(NamedTuple):
    """What the plan needs of a state."""

    scalars: np.ndarray
    jobs: np.ndarray
    reservations: np.ndarray
    plan_s: np.ndarray
    plan: np.ndarray
    plan_free: np.ndarray


# What Python cannot call, a compiled function can.


@numba.njit
def clear(state, n_free):
    CLEAR(state, n_free)


@numba.njit
def hold(state, job, end_s):
    return HOLD(state, job, end_s)


@numba.njit
def leave(state, job):
    LEAVE(state, job)


@numba.njit
def put_in(state, job, date_s, end_s):
    return PUT_IN(state, job, date_s, end_s)


@numba.njit
def take_out(state, job):
    TAKE_OUT(state, job)


@numba.njit
def move_earlier(state, job, date_s, end_s):
    return MOVE(state, job, date_s, end_s)


@numba.njit
def find_room(state, n, duration_s, from_s, limit_s, own_s):
    date_s, position = FIRST_DATE(state, n, from_s)
    return FIND_ROOM(state, n, duration_s, date_s, position, limit_s, own_s)[0]


@numba.njit
def stays_free(state, n, until_s):
    return STAYS_FREE(state, n, until_s, np.inf)


def empty_plan(n_free, *cores):
    """Return an empty plan for jobs of so many cores."""
    state = Arrays(
        np.zeros(1, SCALAR_DTYPE),
        np.zeros(len(cores), JOB_STATE_DTYPE),
        np.zeros(len(cores), RESERVATION_DTYPE),
        *(np.zeros(2 * len(cores) + 3, dtype) for dtype in (np.float64, np.int32, np.int32)),
    )
    state.reservations["n_requested"] = cores
    clear(state, n_free)
    return state


def room(state, n, duration_s, from_s=0.0, limit_s=np.inf, own_s=np.inf):
    return find_room(state, n, float(duration_s), float(from_s), float(limit_s), float(own_s))


def steps(state):
    """Return the dates of a plan at which what is free changes, and what is free from then on."""
    n = int(state.scalars["n_plan"][0])
    last = state.plan_s[1 : n + 1] > state.plan_s[:n]
    return list(zip(state.plan_s[:n][last].tolist(), state.plan_free[:n][last].tolist(), strict=True))


@pytest.fixture
def busy():
    """Of 4 cores, a job holds 3 until 10 s; then come reservations for 4 cores until 20 s, and for 3 until 30 s."""
    state = empty_plan(4, 3, 4, 3, 1)
    hold(state, 0, 10.0)
    put_in(state, 1, 10.0, 20.0)
    put_in(state, 2, 20.0, 30.0)
    return state


def test_what_is_free(busy):
    assert steps(busy) == [(-np.inf, 1), (10.0, 0), (20.0, 1), (30.0, 4)]
    assert stays_free(busy, 1, 10.0)
    assert not stays_free(busy, 1, 10.1)
    assert not stays_free(busy, 2, 1.0)


def test_the_earliest_room(busy):
    assert room(busy, 1, 10) == 0.0
    assert room(busy, 1, 10.1) == 20.0  # beside the last reservation
    assert room(busy, 2, 1) == 30.0
    assert room(busy, 1, 1, from_s=15) == 20.0
    assert room(busy, 2, 1, limit_s=30) == NOT_FOUND


def test_room_in_between(busy):
    """The second job leaves: between 10 and 20 s all is free, after that one core."""
    take_out(busy, 1)
    assert steps(busy) == [(-np.inf, 1), (10.0, 4), (20.0, 1), (30.0, 4)]
    assert room(busy, 3, 10) == 10.0
    assert room(busy, 3, 11) == 30.0
    assert room(busy, 1, 100) == 0.0


def test_what_ends_early_moves_up(busy):
    """The first job ends at 4 s: the second moves to 4 s, and the third uses 6 s of its own reservation."""
    busy.scalars["message_s"] = 4.0
    leave(busy, 0)
    assert busy.scalars["freed_s"][0] == busy.scalars["vacated_s"][0] == 10.0
    assert room(busy, 4, 10, own_s=10) == 4.0
    assert room(busy, 3, 6) == 4.0
    move_earlier(busy, 1, 4.0, 14.0)
    assert room(busy, 3, 10) == 30.0
    assert room(busy, 3, 10, limit_s=20, own_s=20) == 14.0
    move_earlier(busy, 2, 14.0, 24.0)
    assert steps(busy) == [(-np.inf, 4), (4.0, 0), (14.0, 1), (24.0, 4)]


def test_who_overruns_lets_all_move(busy):
    busy.scalars["message_s"] = 12.0
    leave(busy, 0)
    assert busy.scalars["freed_s"][0] == np.inf


def test_close_events_are_one():
    """Two cores are free from 10 s on, but for the reservation that begins some microseconds later."""
    state = empty_plan(2, 2, 2, 1)
    hold(state, 0, 10.0)
    assert put_in(state, 1, 10.0 + 0.4 * ROUNDING_S, 20.0) == (True, False)
    assert room(state, 1, 0.2 * ROUNDING_S) == 20.0
    assert put_in(state, 2, 20.0 - 3.0 * ROUNDING_S, 21.0) == (False, False)


def test_a_job_without_a_length_takes_nothing():
    state = empty_plan(4, 4, 3)
    hold(state, 0, 10.0)
    put_in(state, 1, 10.0, 10.0)
    assert steps(state) == [(-np.inf, 0), (10.0, 4)]
    take_out(state, 1)
    assert steps(state) == [(-np.inf, 0), (10.0, 4)]


def test_as_sums_over_all_stays():
    """Reservations come, move and go at random; each time the plan has what the stays leave, and finds the same."""
    draw = np.random.default_rng(3)
    n_jobs, n_cores = 40, 16
    cores = draw.integers(1, 9, n_jobs)
    state, stays = empty_plan(n_cores, *cores), {}
    n_moved = 0

    def free_at(date_s):
        return n_cores - sum(int(cores[job]) for job, (start_s, end_s) in stays.items() if start_s <= date_s < end_s)

    def earliest(n, duration_s):
        dates = sorted({0.0} | {date_s for stay in stays.values() for date_s in stay})
        for date_s in dates:
            inside = [one_s for one_s in dates if date_s <= one_s < date_s + duration_s - ROUNDING_S]
            if all(free_at(one_s) >= n for one_s in inside):
                return date_s
        raise AssertionError

    for _ in range(400):
        job = int(draw.integers(n_jobs))
        duration_s = float(draw.integers(1, 30))
        date_s = room(state, int(cores[job]), duration_s)
        assert date_s == earliest(cores[job], duration_s)
        if job not in stays:
            put_in(state, job, date_s, date_s + duration_s)
            stays[job] = (date_s, date_s + duration_s)
        elif draw.random() < 0.5 and date_s < stays[job][0] and date_s + duration_s <= stays[job][1]:
            move_earlier(state, job, date_s, date_s + duration_s)
            stays[job] = (date_s, date_s + duration_s)
            n_moved += 1
        else:
            take_out(state, job)
            del stays[job]
        assert all(free_at(date_s) == free for date_s, free in steps(state)[1:])
        assert state.plan_free[0] == n_cores
    assert n_moved > 20  # otherwise this has shown little
