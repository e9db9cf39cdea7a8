"""Numbers of 80 bits against NumPy's, and what is kept in lists against the same in arrays."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hdrl.batsim.exact import ExactBatsim, energy, engine
from hdrl.batsim.exact.extended import (
    Extended,
    add_up,
    difference,
    fraction,
    rounded_fraction,
    six_decimals,
)
from hdrl.batsim.exact.jobs import SHORTEST_RUN_S, ExactJob, ExactWorkload
from hdrl.batsim.exact.outputs import ExactTimes, JobTimes, Totals
from hdrl.batsim.exact.profiles import Delay
from hdrl.batsim.exact.rows import ActionRows, ArrayRows, ListRows, Timer

from .conversations import FirstComeFirstServed
from .test_sharing_and_rounds import crowd

HAS_80_BITS = np.finfo(np.longdouble).nmant == 63
needs_80_bits = pytest.mark.skipif(not HAS_80_BITS, reason="NumPy has no numbers of 80 bits here")

_amounts = st.floats(0, 1e11) | st.floats(-1e3, 1e3) | st.integers(0, 10**6).map(float) | st.just(1e-9)
_lists = st.lists(_amounts, min_size=1, max_size=70)


def _in_80_bits(values: list[float]) -> np.longdouble:
    return np.longdouble(np.add.accumulate(np.array(values).astype(np.longdouble))[-1])


def _pair(value: np.longdouble) -> Extended:
    nearest = float(value)
    return nearest, float(value - nearest)


@needs_80_bits
@settings(max_examples=150, deadline=None)
@given(values=_lists, others=_lists)
@example(values=[2.0**53, 1.0, 2.0**-11], others=[0.0])  # halfway between two doubles, and between two of 80 bits
@example(values=[2.0**53, 2.0**-10], others=[1.0])
@example(values=[2.0**60], others=[2.0**5, 2.0**-4])
@example(values=[0.0, 0.0], others=[0.0])
def test_sums_differences_and_texts_are_those_of_80_bits(values: list[float], others: list[float]) -> None:
    ours, theirs = add_up(values), _in_80_bits(values)
    other, their_other = add_up(others), _in_80_bits(others)
    assert ours == _pair(theirs)
    assert difference(ours, other) == float(theirs - their_other)
    text = np.format_float_positional(theirs, precision=6, unique=False, fractional=True, trim="k")
    assert six_decimals(ours).replace("-0.000000", "0.000000") == text.replace("-0.000000", "0.000000")
    if their_other:
        assert float(rounded_fraction(fraction(ours) / fraction(other))) == float(theirs / their_other)


def test_a_fraction_is_rounded_to_64_bits_and_a_half_to_the_even_one() -> None:
    one = Fraction(2**63)
    assert [rounded_fraction(one + Fraction(k, 4)) - one for k in range(8)] == [0, 0, 0, 1, 1, 1, 2, 2]
    assert rounded_fraction(-one - Fraction(3, 4)) == -one - 1
    assert rounded_fraction(Fraction(0)) == 0


_dates = st.floats(0, 1e7) | st.integers(0, 10**6).map(float)


def _job(submission_s: float, waiting_s: float, run_s: float) -> ExactJob:
    job = ExactJob(
        ExactWorkload("w0"), "1", Delay(name="p", description={}, delay_s=1.0), {"subtime": submission_s, "res": 1}
    )
    job.start_s = submission_s + waiting_s
    job.end_s = job.start_s + run_s
    job.run_s = difference((job.end_s, 0.0), (job.start_s, 0.0)) or SHORTEST_RUN_S
    return job


@needs_80_bits
@settings(max_examples=150, deadline=None)
@given(jobs=st.lists(st.tuples(_dates, st.just(0.0) | _dates, st.just(0.0) | st.just(1e-10) | _dates), min_size=1))
@example(jobs=[(0.0, 1.0, 0.0), (0.0, 1.0, 1e7), (5.0, 1e-10, 3.2)])
def test_times_and_means_are_those_of_80_bits(jobs: list[tuple[float, float, float]]) -> None:
    totals, stretches, waitings = Totals(), [], []
    for dates in jobs:
        job = _job(*dates)
        start_s, submission_s = np.longdouble(job.start_s), np.longdouble(job.submission_s)
        run_s = np.longdouble(job.end_s) - start_s or np.longdouble("1e-5")
        turnaround_s = start_s + run_s - submission_s
        times = JobTimes(job)
        assert job.run_s == float(run_s)
        assert (times.finish_s, times.waiting_s, times.turnaround_s) == (
            float(start_s + run_s),
            float(start_s - submission_s),
            float(turnaround_s),
        )
        assert f"{times.stretch:f}" == f"{float(turnaround_s / run_s):f}"
        assert float(ExactTimes(job.submission_s, job.start_s, job.end_s).stretch) == float(turnaround_s / run_s)
        totals.add(job, times)
        stretches.append(turnaround_s / run_s)
        waitings.append(start_s - submission_s)
    columns = totals.columns()
    assert columns["max_slowdown"] == f"{float(max(stretches)):f}"
    for name, values in (("mean_slowdown", stretches), ("mean_waiting_time", waitings)):
        total = np.longdouble(0.0)
        for value in values:
            total += value
        assert columns[name] == f"{float(total) / len(jobs):f}"


class _Nothing:
    """What stands behind a timer."""

    def end(self) -> None:
        raise AssertionError


@settings(max_examples=60, deadline=None)
@given(
    durations=st.lists(st.tuples(st.floats(0.1, 1e6), st.sampled_from([1.0, 0.25, 1e-5])), min_size=1, max_size=12),
    steps=st.lists(st.sampled_from(["message", "next", "take", "rate", "brief", "long", "look"]), max_size=30),
)
def test_lists_and_arrays_end_the_same_actions_at_the_same_dates(
    durations: list[tuple[float, float]], steps: list[str]
) -> None:
    both: tuple[ActionRows, ActionRows] = (ListRows(), ArrayRows())
    told = []
    for rows in both:
        timers = [Timer(-1, _Nothing()) for _ in durations]
        for timer, (duration_s, rate) in zip(timers, durations, strict=True):
            rows.put(timer, duration_s, rate, 1e-9)
        left = list(timers)
        seen: list[object] = []
        for step in steps:
            if not left:
                break
            if step in ("brief", "long"):
                timers.append(Timer(-1, _Nothing()))
                rows.put(timers[-1], 1e-3 if step == "brief" else 500.0, 1.0, 1e-9)
                left.append(timers[-1])
            elif step == "look":
                seen.append(rows.left_s())
            elif step == "take":
                rows.take(left.pop(0))
            elif step == "rate":
                rows.change_rate(left[-1], 2.0)
            else:
                ended = rows.advance(1e-10 if step == "message" else rows.left_s())
                seen.append(sorted(timers.index(timer) for timer in ended))  # type: ignore[arg-type]
                for timer in ended:
                    rows.take(timer)
                    left.remove(timer)  # type: ignore[arg-type]
            assert rows.sure_s <= min((rows.remains(timer) / rows.rate(timer) for timer in left), default=math.inf)
            seen += [(rows.remains(timer), rows.rate(timer)) for timer in left]
        told.append(seen)
    assert told[0] == told[1]


def test_many_hosts_and_actions_give_what_few_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From some number on they are kept in arrays."""
    options = crowd(tmp_path)
    few = ExactBatsim(options).run(FirstComeFirstServed())
    monkeypatch.setattr(energy, "MOST_IN_LISTS", 0)
    monkeypatch.setattr(engine, "MOST_IN_LISTS", 3)
    many = ExactBatsim(options).run(FirstComeFirstServed())
    for name in ("jobs", "energy", "machine_states", "pstate_changes"):
        assert getattr(few.outputs, name) == getattr(many.outputs, name)
