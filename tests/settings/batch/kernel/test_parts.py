"""The small parts of the kernel: rounding, heap, random numbers, state, cache."""

from __future__ import annotations

import math
import random  # noqa: TID251 - what the twister must repeat

import numba
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hdrl.base.seeding import seed_sequence
from hdrl.compiled import heap
from hdrl.compiled.fields import fields_of, grown
from hdrl.compiled.heap import SLOT_DTYPE
from hdrl.compiled.rounding import round6
from hdrl.compiled.twister import draw_below, python_twister_state, twister_state
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.state import BatchState, new_state
from hdrl.settings.batch.simulation import JobState
from hdrl.settings.batch.workload import StepKind
from hdrl.testing import check_worlds

LOGS = [name for name, field in fields_of(BatchState).items() if field.counted_by]

# What Python cannot call, a compiled function can.


@numba.njit
def rounded(value):  # type: ignore[no-untyped-def]
    return round6(value)


@numba.njit
def drawn(twister, bounds, draws):  # type: ignore[no-untyped-def]
    for i in range(len(bounds)):
        draws[i] = draw_below(twister, bounds[i])


@numba.njit
def push(slots, size, slot, key, seq):  # type: ignore[no-untyped-def]
    return heap.push(slots, size, slot, key, seq)


@numba.njit
def remove(slots, size, slot):  # type: ignore[no-untyped-def]
    return heap.remove(slots, size, slot)


# ------------------------------------------------------------------ rounding


def near_halves() -> st.SearchStrategy[float]:
    """Return dates a few steps of a double around halves of a millionth."""
    exact = st.integers(0, 10**15).map(lambda n: (n + 0.5) / 1e6)
    return st.builds(lambda value, steps: value + steps * math.ulp(value), exact, st.integers(-2, 2))


@settings(max_examples=500, deadline=None)
@example(0.0)
@example(0.0000005)
@example(0.5 / 2**6)
@example(2.5 / 2**6)
@example(1e9)
@example(1234567.8901235)
@given(st.floats(0.0, 1e9) | st.integers(0, 10**9).map(float) | near_halves())
def test_rounding_is_that_of_printing(value: float):
    if value <= 1e9:
        assert rounded(value) == float(f"{value:.6f}")


# ------------------------------------------------------------------ heap


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 11), st.sampled_from([None, 0.0, 1.0, 1.5, 2.0, 7.0, math.inf])), max_size=60))
def test_heap_keeps_the_earliest_on_top(calls: list[tuple[int, float | None]]):
    slots = np.zeros(12, dtype=SLOT_DTYPE)
    slots["position"] = -1
    expected: dict[int, float] = {}
    size = 0
    for seq, (slot, key) in enumerate(calls):
        if key is None:
            expected.pop(slot, None)
            size = remove(slots, size, slot)
        else:
            expected[slot] = key
            size = push(slots, size, slot, key, seq)
            assert slots["seq"][slot] == seq
        assert size == len(expected)
        inside = slots["heap"][:size].tolist()
        assert sorted(inside) == sorted(expected)
        assert [slots["position"][s] for s in inside] == list(range(size))
        assert (slots["position"] >= 0).sum() == size
        if expected:
            assert slots["key"][inside[0]] == min(expected.values())
    order = []
    while size:
        order.append(float(slots["key"][slots["heap"][0]]))
        size = remove(slots, size, int(slots["heap"][0]))
    assert order == sorted(expected.values())


# ------------------------------------------------------------------ random numbers


@pytest.mark.parametrize("seed", [0, 1, 42, 2**40])
def test_draws_are_those_of_python(seed: int):
    bounds = np.array([1, 2, 3, 7, 36, 1000, 2**20 + 1, 2**31 - 1] * 300, dtype=np.int64)
    draws = np.zeros_like(bounds)
    drawn(python_twister_state(seed), bounds, draws)
    generator = random.Random(seed)
    assert draws.tolist() == [generator.choice(range(bound)) for bound in bounds.tolist()]


def test_streams_of_other_names_and_seeds_differ():
    first = twister_state(1, "policy")
    assert first[1:624].tolist() == seed_sequence(1, "policy").generate_state(624)[1:].tolist(), "NumPy's own words"
    assert first.tolist() == twister_state(1, "policy").tolist()
    assert first.tolist() != twister_state(2, "policy").tolist()
    assert first.tolist() != twister_state(1, "other").tolist()


def test_draws_are_even():
    bounds = np.full(60_000, 6, dtype=np.int64)
    draws = np.zeros_like(bounds)
    drawn(twister_state(3, "policy"), bounds, draws)
    counts = np.bincount(draws, minlength=6)
    assert counts.shape == (6,)
    assert np.abs(counts - 10_000).max() < 500  # five standard deviations


# ------------------------------------------------------------------ state and codes


def test_codes_are_those_of_the_types():
    steps = [codes.STEP_DELAY, codes.STEP_COMPUTE, codes.STEP_COMPUTE_TOTAL, codes.STEP_RETURN]
    assert steps == list(StepKind)
    numbers = [
        codes.NOT_SUBMITTED,
        codes.WAITING,
        codes.RUNNING,
        codes.SUCCEEDED,
        codes.FAILED,
        codes.WALLTIME_REACHED,
        codes.KILLED_BY_REQUEST,
        codes.REJECTED,
    ]
    assert numbers == list(JobState)
    errors = [value for name, value in vars(codes).items() if name.startswith("ERROR_")]
    assert len(set(errors)) == len(errors)


def test_logs_that_are_half_full_are_doubled_with_their_rows():
    world = check_worlds()["same dates"]
    state = new_state(world.platform, world.workload, twister=twister_state(0, "policy"))
    n = len(state.machine_log) // 2
    state.machine_log["time_s"] = np.arange(len(state.machine_log))
    state.scalars["n_machine_log"] = n
    larger = grown(state, margin=10)
    assert len(larger.machine_log) == 2 * len(state.machine_log) + 10
    assert larger.machine_log["time_s"][:n].tolist() == list(range(n))
    assert not larger.machine_log["time_s"][n:].any()
    for name in set(LOGS) - {"machine_log"}:
        assert getattr(larger, name) is getattr(state, name)
    for name in set(state._fields) - set(LOGS):
        assert getattr(larger, name) is getattr(state, name)


def test_batches_keep_no_logs():
    world = check_worlds()["same dates"]
    state = new_state(world.platform, world.workload, twister=twister_state(0, "policy"), logging=False)
    assert all(len(getattr(state, name)) == 0 for name in ("machine_log", "pstate_cores", "core_fails", "spans"))
