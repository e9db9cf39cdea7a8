"""A number that no table knows is an error or NaN, never one of the others."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numba
import numpy as np
import pytest

from hdrl.compiled.borrow import borrow
from hdrl.compiled.lend import Lent
from hdrl.compiled.team import LEADER
from hdrl.envs import PolicyPairVectorEnv
from hdrl.errors import SimulationError
from hdrl.settings.batch.kernel import codes, entries, keys, mail, observe, selection, server
from hdrl.settings.batch.kernel.backfill import _candidate_key as candidate_key
from hdrl.settings.batch.kernel.decide import hear, run_pair
from hdrl.settings.batch.kernel.jobs import _run_steps, after_sleep
from hdrl.settings.batch.kernel.state import small_state
from hdrl.settings.batch.order import codes as order_codes
from hdrl.settings.batch.order import observe as order_observe
from hdrl.settings.batch.order.backfill import _candidate_key as order_candidate_key
from hdrl.settings.batch.order.entries import run_keys
from hdrl.settings.batch.order.queue import key_value
from hdrl.settings.batch.order.state import new_order_state, smallest_state

OUTSIDE = [-7, -1, 22, 57, 99, 102]

# What Python cannot call, a compiled function can.


@numba.njit
def value_of_key(state: Any, key: int) -> float:
    return keys.job_key(borrow(state), 0, key, 60.0)


@numba.njit
def value_of_candidate(state: Any, order: int) -> float:
    return candidate_key(borrow(state), 0, order)


@numba.njit
def value_of_group(state: Any, core_key: int) -> tuple[float, int]:
    lent = borrow(state)
    return selection._group_key(lent, 0, core_key), selection.choose_cores(lent, 0, core_key)


@numba.njit
def value_of_attribute(state: Any, which: int) -> float:
    return observe.attribute(borrow(state), 0, which)


@numba.njit
def run(state: Any, job_key: int, core_key: int, backfilling: int) -> int:
    return run_pair(borrow(state), job_key, core_key, backfilling, 1000)


@numba.njit
def met(state: Any, which: int, code: int) -> None:
    """Let the kernel meet a number as the kind of a request, a letter, an event, a step or a sleep."""
    lent = borrow(state)
    if which == 0:
        mail.add_op(lent, code, 0, 0, 0, 0.0)
        server._apply(lent, 0)
    elif which == 1:
        server.receive(lent, code, 0)
    elif which == 2:
        mail.tell(lent, code, 0)
        hear(lent)
    elif which == 3:
        lent.steps[0].kind = code
        lent.jobs[0].end_step = 1
        _run_steps(lent, 0)
    else:
        lent.jobs[0].sleep_kind = code
        after_sleep(lent, 0)


@numba.njit
def value_in_order(pool: Any, which: int, code: int) -> float:
    lent = borrow(pool)
    if which == 0:
        return key_value(lent, 0, code)
    if which == 1:
        return order_candidate_key(lent, 0, code, codes.JOB_FIRST)
    if which == 2:
        return order_observe._common_column(lent, code)
    return order_observe._own_column(lent, code, 0)


def first_of(pool: Any) -> Any:
    """Return the arrays of the first environment of a batch."""
    rows = {name: array[0] for name, array in pool._asdict().items() if array.ndim > 1 and name != "templates"}
    return pool._replace(**rows)


@pytest.mark.parametrize("key", [*OUTSIDE, codes.JOB_GIVEN, codes.JOB_INDEX])
def test_job_keys(key: int) -> None:
    assert math.isnan(value_of_key(small_state(), key))
    assert math.isnan(value_in_order(first_of(smallest_state()), 0, key))


@pytest.mark.parametrize("key", codes.JOB_KEYS[:-2])
def test_known_job_keys(key: int) -> None:
    assert not math.isnan(value_of_key(small_state(), key))


@pytest.mark.parametrize("order", [0, 4, *OUTSIDE])
def test_orders_of_backfilling(order: int) -> None:
    assert math.isnan(value_of_candidate(small_state(), order))
    assert math.isnan(value_in_order(first_of(smallest_state()), 1, order))


@pytest.mark.parametrize("core_key", [8, *OUTSIDE])
def test_core_keys(core_key: int) -> None:
    key, outcome = value_of_group(small_state(), core_key)
    assert math.isnan(key)
    assert outcome == selection.NO_SUCH_KEY


@pytest.mark.parametrize("which", [4, *OUTSIDE])
def test_attributes(which: int) -> None:
    assert math.isnan(value_of_attribute(small_state(), which))


@pytest.mark.parametrize("column", [18, *OUTSIDE])
def test_columns(column: int) -> None:
    pool = first_of(smallest_state())
    assert math.isnan(value_in_order(pool, 2, column))
    assert math.isnan(value_in_order(pool, 3, column))


@pytest.mark.parametrize("which", range(5), ids=["op", "letter", "event", "step", "sleep"])
@pytest.mark.parametrize("code", [-7, 10, 57])
def test_what_the_kernel_meets(which: int, code: int) -> None:
    state = small_state()
    met(state, which, code)
    s = state.scalars[0]
    assert (s["error"], s["error_core"]) == (codes.ERROR_UNKNOWN_CODE, code)


@pytest.mark.parametrize(
    ("policy", "what"),
    [
        ((22, 1, 0), "job key"),
        ((1, 8, 0), "core key"),
        ((1, 1, 5), "backfilling"),
        ((1, 1, -1), "backfilling"),
    ],
)
def test_policies(policy: tuple[int, int, int], what: str) -> None:
    lent = Lent(small_state())
    entries.begin(lent)
    state = lent.arrays
    assert run(state, *policy) == codes.ILLEGAL
    assert state.scalars["error"][0] == codes.ERROR_UNKNOWN_CODE
    job_key, core_key, backfilling = policy
    for call in (
        lambda: entries.schedule_pair(lent, job_key, core_key, backfilling),
        lambda: entries.run_pair(lent, job_key, core_key, 10, backfilling),
    ):
        with pytest.raises(SimulationError, match=f"the {what} is {max(policy) if min(policy) >= 0 else -1}; expected"):
            call()


@pytest.mark.parametrize("backfilling", [codes.NO_BACKFILLING, codes.EASY_FCFS, codes.CONSERVATIVE])
def test_an_index_needs_weights_and_easy(backfilling: int) -> None:
    lent = Lent(small_state())
    entries.begin(lent)
    state = lent.arrays
    with pytest.raises(SimulationError, match="the job key is 21, which needs weights and EASY"):
        entries.schedule_pair(lent, codes.JOB_INDEX, 1, backfilling)
    if backfilling != codes.CONSERVATIVE:
        assert run(state, codes.JOB_INDEX, 1, backfilling) == codes.ILLEGAL


def test_conservative_backfilling_does_not_run_without_calls() -> None:
    with pytest.raises(SimulationError, match="is 4; expected one of 0, 1, 2, 3"):
        entries.run_pair(Lent(small_state()), codes.JOB_FIRST, codes.CORE_RANDOM, 10, codes.CONSERVATIVE)


@pytest.mark.parametrize(
    ("name", "code"), [("commitment", 2), ("backfilling", 4), ("order_key", 20), ("objective", 11)]
)
def test_settings_of_a_pool(name: str, code: int) -> None:
    pool = smallest_state()
    pool.settings[name] = code
    with pytest.raises(SimulationError, match=f"is {code}; expected one of"):
        new_order_state(1, 1, jobs=pool.jobs, templates=pool.templates, settings=pool.settings, columns=pool.columns)


def test_a_run_of_a_pool_knows_its_keys() -> None:
    with pytest.raises(SimulationError, match="the job key is 20; expected one of"):
        run_keys(Lent(smallest_state()), [codes.JOB_GIVEN])


def test_no_two_things_in_one_place_have_the_same_number() -> None:
    job_keys = [value for name, value in vars(codes).items() if name.startswith("JOB_") and isinstance(value, int)]
    assert sorted(job_keys) == sorted({*codes.JOB_KEYS, *codes.ORDER_JOB_KEYS})
    backfillings = codes.NO_BACKFILLING, *codes.EASY, codes.CONSERVATIVE, codes.STRICT_FCFS
    assert len(set(backfillings)) == len(backfillings)
    assert {*codes.BACKFILLINGS, *codes.ORDER_BACKFILLINGS} == set(backfillings)
    tables = [codes.JOB_KEYS, codes.CORE_KEYS, codes.TOLD, order_codes.COLUMNS, order_codes.OBJECTIVES[:-1]]
    assert all(a < b for table in tables for a, b in itertools.pairwise(table))


@pytest.fixture(scope="module")
def batch() -> Iterator[PolicyPairVectorEnv]:
    env = PolicyPairVectorEnv(1, platform="learning", workload="learning", void=False)
    env.reset(seed=0)
    yield env
    env.close()


def test_requests_to_a_batch(batch: PolicyPairVectorEnv) -> None:
    with pytest.raises((ValueError, SimulationError)):  # the latter from code that is loaded without Numba
        batch._play(9, LEADER, np.ones(1, dtype=bool), np.zeros(1, dtype=np.int64))


@pytest.mark.parametrize(("column", "code"), [(0, 21), (0, 22), (1, 8), (2, codes.CONSERVATIVE)])
def test_policies_of_a_batch(batch: PolicyPairVectorEnv, column: int, code: int) -> None:
    batch.reset(seed=0)
    known = batch._rows.watches.pairs[0, column]
    batch._rows.watches.pairs[0, column] = code
    with pytest.raises(SimulationError):
        batch.step(np.zeros(1, dtype=np.int64))
    assert batch._rows.batch.scalars["error"][0, 0] == codes.ERROR_UNKNOWN_CODE
    batch._rows.watches.pairs[0, column] = known


def test_details_of_a_batch(batch: PolicyPairVectorEnv) -> None:
    known = batch._rows.watches.rows["detail"].copy()
    batch._rows.watches.rows["detail"] = 3
    with pytest.raises(SimulationError):
        batch.reset(seed=0)
    batch._rows.watches.rows["detail"] = known
