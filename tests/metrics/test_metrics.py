"""Metrics: values computed by hand, bounds that always hold, and a document in step with the code."""

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from hdrl import metrics
from hdrl.metrics.formulas import summaries
from hdrl.settings.batch.metrics import METRICS, compute_metrics
from hdrl.settings.batch.simulation.trace import JobState, OverUtilization
from hdrl.trace import TaskState

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"

# The three finished jobs wait 0, 0, 6 s and run 10, 8, 5 s on 2, 1, 4 of 4 cores; first submission 1 s, last end 16 s.
BY_HAND = {
    "n_jobs": 7,
    "n_finished": 3,
    "n_successful": 1,
    "n_failed": 0,
    "n_walltime_reached": 1,
    "n_killed": 1,
    "n_rejected": 1,
    "n_unfinished": 1,
    "n_not_started": 2,
    "success_rate": 1 / 7,
    "makespan_s": 15,
    "batsim_makespan_s": 16,
    "utilization": (2 * 10 + 1 * 8 + 4 * 5) / (4 * 15),
    "throughput_jobs_per_h": 720,
    "mean_wait_s": 2,
    "median_wait_s": 0,
    "p95_wait_s": 5.4,
    "p99_wait_s": 5.88,
    "max_wait_s": 6,
    "mean_turnaround_s": 29 / 3,
    "median_turnaround_s": 10,
    "p95_turnaround_s": 10.9,
    "p99_turnaround_s": 10.98,
    "max_turnaround_s": 11,
    "mean_slowdown": 1.4,
    "median_slowdown": 1,
    "p95_slowdown": 2.08,
    "p99_slowdown": 2.176,
    "max_slowdown": 2.2,
    "mean_bounded_slowdown": 3.1 / 3,
    "median_bounded_slowdown": 1,
    "p95_bounded_slowdown": 1.09,
    "p99_bounded_slowdown": 1.098,
    "max_bounded_slowdown": 1.1,
    "user_fairness": math.nan,  # one user
    "energy_j": 3000,
    "wasted_energy_j": 3000,  # the jobs of this trace have none
    "mean_power_w": 200,
    "energy_delay_product_js": 45000,
    "n_core_shortages": 2,
    "n_memory_shortages": 1,
    "n_bandwidth_overcommitments": 3,
    "bandwidth_overcommitted_s": 6 + 9,
    "bandwidth_overcommitted_processor_s": 4 + 4 + 9,
}


def test_metrics_by_hand(hand_made):
    found = compute_metrics(hand_made)
    assert list(found) == list(BY_HAND) == list(METRICS)
    assert found == pytest.approx(BY_HAND, rel=1e-12, nan_ok=True)
    assert {type(value) for value in found.values()} == {float}


def test_fairness_between_users_by_hand(make_trace):
    ended = JobState.COMPLETED_SUCCESSFULLY
    trace = make_trace([(0.0, 1, ended, 0.0, 10.0, 1), (0.0, 1, ended, 10.0, 10.0, 1), (0.0, 1, ended, 20.0, 10.0, 1)])
    jobs = trace.workload.jobs.copy()
    jobs["user"] = (7, 7, 3)  # bounded slowdowns of 1 and 2, and of 3
    trace = replace(trace, workload=replace(trace.workload, jobs=jobs))
    assert compute_metrics(trace)["user_fairness"] == pytest.approx((1.5 + 3) ** 2 / (2 * (1.5**2 + 3**2)))
    jobs["user"] = (7, 7, -1)  # one known user alone
    assert math.isnan(compute_metrics(trace)["user_fairness"])


def test_no_finished_job_gives_no_times(make_trace):
    found = compute_metrics(make_trace([(6.0, 9, JobState.REJECTED, -1.0, -1.0, 0)]))
    assert found["n_rejected"] == 1
    assert found["batsim_makespan_s"] == 0
    assert all(math.isnan(found[name]) for name in ("makespan_s", "utilization", "mean_wait_s", "max_slowdown"))


def test_no_jobs_at_all(make_trace):
    found = compute_metrics(make_trace([]))
    assert found["n_jobs"] == 0
    assert math.isnan(found["success_rate"])


def test_no_energy_is_not_zero_energy(make_trace):
    found = compute_metrics(make_trace([(0.0, 1, JobState.COMPLETED_SUCCESSFULLY, 0.0, 5.0, 1)]))
    assert all(math.isnan(found[name]) for name in ("energy_j", "mean_power_w", "energy_delay_product_js"))
    assert found["utilization"] == 0.25


def test_a_span_that_is_open_after_the_end_counts_nothing(make_trace):
    one = np.array([9.0])
    log = OverUtilization(np.zeros(0), np.zeros(0), np.array([0], np.int32), one, np.array([-1.0]))
    found = compute_metrics(make_trace([], end_s=5.0, overutilization=log))
    assert found["bandwidth_overcommitted_processor_s"] == 0


def test_the_states_are_those_of_the_trace():
    assert [int(state) for state in JobState] == [int(state) for state in TaskState]
    assert JobState.COMPLETED_WALLTIME_REACHED == TaskState.OVERRAN


# ---- formulas

times = st.lists(st.tuples(st.floats(0, 1e7), st.floats(1e-5, 1e7), st.integers(1, 64)), min_size=1, max_size=20).map(
    lambda rows: [np.array(column, float) for column in zip(*rows, strict=True)]
)


def test_bounded_slowdown_by_hand():
    np.testing.assert_allclose(metrics.bounded_slowdown([0, 0, 95, 90], [1, 20, 5, 10]), [1, 1, 10, 10])
    np.testing.assert_allclose(metrics.bounded_slowdown([9], [1], tau_s=1), [10])


def test_slowdown_by_hand():
    np.testing.assert_allclose(metrics.slowdown([0, 5, 9], [2, 5, 1]), [1, 2, 10])
    np.testing.assert_allclose(metrics.turnaround([0, 5, 9], [2, 5, 1]), [2, 10, 10])


@given(times, st.floats(1, 100))
@settings(max_examples=50, deadline=None)
def test_bounded_slowdown_lies_between_1_and_the_slowdown(columns, tau_s):
    wait_s, run_s, _ = columns
    bounded = metrics.bounded_slowdown(wait_s, run_s, tau_s)
    assert np.all(bounded >= 1)
    assert np.all(bounded <= metrics.slowdown(wait_s, run_s))
    longer = metrics.bounded_slowdown(wait_s + 1, run_s, tau_s)
    assert np.all(longer >= bounded)


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (metrics.bounded_slowdown, ([-1.0], [1.0]), "negative"),
        (metrics.bounded_slowdown, ([1.0, 2.0], [1.0]), "different shapes"),
        (metrics.bounded_slowdown, ([1.0], [1.0], 0.0), "tau_s is 0"),
        (metrics.bounded_slowdown, ([1.0], [1.0], math.nan), "tau_s is nan"),
        (metrics.slowdown, ([1.0], [0.0]), "run time is 0"),
        (metrics.turnaround, ([1.0], [-2.0]), "negative"),
        (metrics.utilization, ([1], [2], 0, 5), "n_cores is 0"),
    ],
)
def test_wrong_times_are_refused(function, arguments, message):
    with pytest.raises(ValueError, match=message):
        function(*arguments)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=10))
@settings(max_examples=60, deadline=None)
def test_covered_is_the_union(spans):
    seconds = {second for start, length in spans for second in range(start, start + length)}
    start_s, duration_s = [s for s, _ in spans], [d for _, d in spans]
    assert metrics.covered_s(start_s, duration_s) == len(seconds)


@given(times)
@settings(max_examples=30, deadline=None)
def test_summary_is_ordered(columns):
    found = metrics.summary(columns[0])
    ordered = [found[name] for name in ("median", "p95", "p99", "max")]
    assert ordered == sorted(ordered)
    assert found["mean"] <= found["max"] * (1 + 1e-12)


@given(npst.arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 60)), elements=st.floats(0, 1e9)))
@settings(max_examples=100, deadline=None)
def test_summaries_are_numpys_to_the_last_bit(rows):
    for found, values in zip(summaries(rows), rows, strict=True):
        numpys = [np.mean(values), *np.percentile(values, (50, 95, 99)), np.max(values)]
        assert list(found.values()) == numpys


def test_a_missing_time_makes_a_summary_missing():
    found = metrics.summary(np.array([1.0, math.nan, 2.0]))
    assert all(map(math.isnan, found.values()))


@given(times, st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_jobs_one_after_the_other_use_what_they_hold(columns, spare):
    """Jobs that hold a fixed number of cores and follow each other without a gap give that share of the platform."""
    _, run_s, _ = columns
    held = np.full(len(run_s), 3.0)
    assert metrics.utilization(held, run_s, 3 * spare, float(np.sum(run_s))) == pytest.approx(1 / spare)


# ---- the document, the imports


def test_every_metric_says_what_it_is():
    for name, info in METRICS.items():
        assert info.unit, name
        assert info.formula, name
        assert info.source, name
        assert "|" not in info.formula + info.source + info.unit, name
        unit = {"_s": "s", "_j": "J", "_w": "W", "_js": "J s", "_h": "1/h"}
        if name.startswith("n_"):
            assert info.unit == "1", name
        elif (suffix := "_" + name.rpartition("_")[2]) in unit:
            assert info.unit == unit[suffix], name
        else:
            assert info.unit == "1", name


def test_metrics_cannot_be_changed():
    with pytest.raises(TypeError):
        METRICS["x"] = METRICS["n_jobs"]


def test_the_document_holds_the_table():
    assert metrics.metrics_table(METRICS) in DOCUMENT.read_text(encoding="utf-8"), (
        "docs/metrics.md is out of date: put there what hdrl.metrics.metrics_table(METRICS) returns"
    )


def test_importing_metrics_does_not_import_the_simulation():
    code = "import sys, hdrl.metrics; print([m for m in sys.modules if m.startswith(('hdrl.settings', 'pandas'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
