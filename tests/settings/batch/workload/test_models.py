from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hdrl.base.errors import OptionsError, UnknownName, WorkloadError
from hdrl.base.seeding import stream
from hdrl.settings.batch.workload import lublin_log, lublin_workload, offered_load, read_swf, tsafrir_estimates
from hdrl.settings.batch.workload.estimates import number_of_values, queue_limit, value_sizes, value_times
from hdrl.settings.batch.workload.lublin import ALL, STREAMS, cycle_weights, draw_arrivals, draw_run_times, draw_sizes

BIG = 60_000


def test_sizes_have_the_shape_of_the_model():
    rng = stream(1, "sizes")
    sizes = draw_sizes(ALL.sized(128), BIG, 128, rng)
    logs = np.log2(sizes)
    assert np.mean(sizes == 1) == pytest.approx(ALL.serial, abs=0.01)  # the smallest parallel job has 2
    assert np.mean(logs == np.floor(logs)) > ALL.serial + (1 - ALL.serial) * ALL.pow2
    upper = (1 - ALL.serial) * (1 - ALL.size_probability)
    assert np.mean(sizes > 2**4.5) == pytest.approx(upper, abs=0.06)
    assert (sizes.min(), sizes.max()) == (1, 128)


def test_run_times_have_the_moments_of_the_hyper_gamma():
    sizes = np.full(BIG, 16.0)
    logs = np.log(draw_run_times(ALL, sizes, stream(1, "runs")) + 0.5)
    p = ALL.run_slope * 16 + ALL.run_offset
    from math import lgamma, log

    def truncated(shape: float, scale: float) -> tuple[float, float]:
        x = (np.arange(24_000) + 0.5) * (12 / 24_000)
        density = np.exp((shape - 1) * np.log(x) - x / scale - lgamma(shape) - shape * log(scale)) * (12 / 24_000)
        return float(density.sum()), float((density * x).sum())

    (mass1, mean1), (mass2, mean2) = truncated(ALL.run_a1, ALL.run_b1), truncated(ALL.run_a2, ALL.run_b2)
    expected = (p * mean1 + (1 - p) * mean2) / (p * mass1 + (1 - p) * mass2)
    assert logs.mean() == pytest.approx(expected, abs=0.05)
    assert logs.max() <= 12 + 1e-4
    longer = np.log(draw_run_times(ALL, np.full(BIG, 128.0), stream(1, "runs")) + 0.5).mean()
    assert longer > logs.mean() + 1


def test_arrivals_follow_the_day():
    weights = cycle_weights(ALL)
    assert weights.mean() == pytest.approx(1)
    assert 24 <= np.argmax(weights) <= 29  # early afternoon
    assert np.argmin(weights) == 10  # five in the morning
    submit_s = draw_arrivals(ALL, BIG, stream(2, "arrivals"))
    assert np.all(np.diff(submit_s) > 0)
    counts = np.bincount((submit_s % 86400 // 1800).astype(int), minlength=48) / BIG * 48
    assert counts == pytest.approx(weights, abs=0.25)
    assert np.corrcoef(counts, weights)[0, 1] > 0.98


def test_a_flat_day_leaves_the_gaps_as_drawn():
    from dataclasses import replace

    flat = replace(ALL, cycle_a=1.0, cycle_b=1e9)
    assert cycle_weights(flat) == pytest.approx(np.ones(48))
    gaps = np.diff(draw_arrivals(flat, 4000, stream(3, "arrivals")))
    rng = stream(3, "arrivals")
    logs = rng.gamma(ALL.gap_a, ALL.gap_b, 4000)
    assert np.mean(logs > 13) < 0.01
    keep = logs[1:][(logs[1:] <= 13)]
    assert np.median(gaps) == pytest.approx(np.exp(np.median(keep)), rel=0.02)


def test_it_resembles_a_log_of_the_same_model(shared):
    theirs = read_swf(shared / "traces" / "swf" / "lublin_256.swf.gz").rows
    ours = lublin_log(10_000, 256, seed=1).rows
    for share in (0.25, 0.5, 0.75, 0.9):
        assert np.quantile(ours["processors"], share) == pytest.approx(
            np.quantile(theirs["processors"], share), rel=0.3
        )
        a, b = np.quantile(ours["run_s"], share), np.quantile(theirs["run_s"], share)
        assert np.log(a) == pytest.approx(np.log(b), abs=0.35)
    assert np.mean(ours["processors"] == 1) == pytest.approx(np.mean(theirs["processors"] == 1), abs=0.02)
    assert np.diff(ours["submit_s"]).mean() == pytest.approx(np.diff(theirs["submit_s"]).mean(), rel=0.3)


@pytest.mark.parametrize("kind", list(STREAMS))
@pytest.mark.parametrize("n_cores", [1, 4, 100, 2280])
def test_every_kind_fits_every_machine(kind, n_cores):
    rows = lublin_log(300, n_cores, seed=5, kind=kind, load=0.7, n_users=3, n_executables=2).rows
    assert rows["processors"].min() >= 1
    assert rows["processors"].max() <= n_cores
    assert np.all(np.diff(rows["submit_s"]) >= 0)
    assert np.all(rows["requested_s"] >= rows["run_s"])
    assert set(rows["user"]) == {1, 2, 3}
    assert set(rows["executable"]) == {1, 2}
    span_s = np.ptp(rows["submit_s"])
    assert np.sum(rows["run_s"] * rows["processors"]) / span_s / n_cores == pytest.approx(0.7, rel=0.02)


def test_both_streams_have_their_queues():
    rows = lublin_log(500, 128, kind="batch+interactive").rows
    assert set(rows["queue"]) == {0, 1}
    assert rows["run_s"][rows["queue"] == 0].mean() < rows["run_s"][rows["queue"] == 1].mean()


def test_same_seed_same_log_other_seed_other_log():
    one, same, other = (lublin_log(50, 64, seed=seed).rows.tolist() for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_a_workload_for_a_platform(gaia):
    workload = lublin_workload(gaia, 400, load=0.9, seed=2, walltime="requested")
    assert offered_load(workload, gaia) == pytest.approx(0.9, rel=0.01)
    assert np.all(workload.jobs["walltime_s"] == workload.jobs["requested_time_s"])
    assert workload.origin["kind"] == "all"


HUGE = {"n_users": 10**23}


def test_what_the_model_refuses(gaia):
    for bad in ({"n_jobs": 0}, {"n_cores": 0}, {"load": 0.0}, {"load": -1.0}, {"load": 1e-300}, {"n_users": -1}, HUGE):
        with pytest.raises(OptionsError, match=next(iter(bad))):
            lublin_log(**({"n_jobs": 5, "n_cores": 5} | bad))
    with pytest.raises(UnknownName, match="did you mean 'batch'"):
        lublin_log(5, 5, kind="batc")
    with pytest.raises(UnknownName, match="did you mean 'tsafrir'"):
        lublin_log(5, 5, estimates="tsafri")


def test_estimates_are_few_round_and_popular():
    run_s = lublin_log(20_000, 256, seed=1).rows["run_s"]
    estimates = tsafrir_estimates(run_s, stream(1, "e"))
    values, counts = np.unique(estimates, return_counts=True)
    assert np.all(estimates >= run_s)
    assert len(values) <= number_of_values(20_000)
    assert len(values) > 0.7 * number_of_values(20_000)
    assert np.all(values % 60 == 0)
    assert np.sort(counts)[::-1][:20].sum() / 20_000 == pytest.approx(0.89, abs=0.02)
    assert values[np.argmax(counts)] == queue_limit(run_s.max()) == values.max()


def test_sizes_and_times_of_the_values():
    assert number_of_values(10_000) == round(0.653566 * 10_000**0.547761) == 101
    sizes = value_sizes(101)
    assert sizes.sum() == pytest.approx(1)
    assert sizes[:20].sum() == pytest.approx(0.89)
    assert np.all(np.diff(sizes[:20]) < 0)
    assert value_sizes(5).sum() == pytest.approx(1)
    times = value_times(100, 36_000.0)
    assert times[-1] == 36_000
    a = 1 + 12.1039 * 100**-0.6026
    assert np.ceil((a - 1) * 0.5 / (a - 0.5) * 600) * 60 in times


@given(st.lists(st.floats(0.5, 2e5), min_size=1, max_size=60), st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_every_estimate_covers_its_job(run_s, seed):
    run_s = np.array(run_s)
    estimates = tsafrir_estimates(run_s, stream(seed, "e"))
    assert np.all(estimates >= run_s)
    assert estimates.max() <= queue_limit(run_s.max())
    assert estimates.tolist() == tsafrir_estimates(run_s, stream(seed, "e")).tolist()


def test_what_estimates_refuse():
    with pytest.raises(WorkloadError, match="longer than the longest estimate"):
        tsafrir_estimates(np.array([100.0]), stream(1, "e"), longest_s=60)
    with pytest.raises(WorkloadError, match="expected positive"):
        tsafrir_estimates(np.array([0.0]), stream(1, "e"))
    assert tsafrir_estimates(np.array([]), stream(1, "e")).tolist() == []
