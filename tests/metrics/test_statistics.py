"""Intervals, ratios and tests: by hand, against scipy, and by simulation."""

import math

import numpy as np
import pytest

from hdrl.metrics.planning import cautious_log_sd, smallest_visible_change, windows_needed
from hdrl.metrics.statistics import (
    Bootstrap,
    geometric_mean_ratio,
    holm,
    log_ratios,
    log_sd,
    rank_direction,
    wilcoxon_p,
)

scipy_stats = pytest.importorskip("scipy.stats", reason="scipy is not installed (extra report)")


def plain(n_windows: int, **choices) -> Bootstrap:
    return Bootstrap(np.zeros(n_windows, dtype=int), **choices)


def test_holm_by_hand():
    # Sorted: 0.01 x 4, 0.02 x 3, 0.03 x 2, 0.5 x 1; each at least as large as the one before.
    assert holm([0.03, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06])
    assert holm([0.9, 0.8]).tolist() == [1.0, 1.0], "never above 1"
    assert holm([]).tolist() == []
    adjusted = holm([0.04, math.nan, 0.03])
    assert adjusted[[0, 2]] == pytest.approx([0.06, 0.06])
    assert math.isnan(adjusted[1])


def test_holm_equals_what_scipy_would_do_for_bonferroni_s_first_step():
    p = np.random.default_rng(1).random(20)
    assert holm(p).min() == pytest.approx(min(1.0, p.min() * 20))
    assert np.all(holm(p) >= p)


def test_the_geometric_mean_by_hand():
    assert geometric_mean_ratio([2.0, 8.0], [1.0, 1.0]) == pytest.approx(4.0)
    assert geometric_mean_ratio([1.0, 4.0], [2.0, 2.0]) == pytest.approx(1.0), "half and double cancel"
    assert geometric_mean_ratio([[1.0, 4.0], [1.0, 4.0]], [[1.0], [1.0]]) == pytest.approx(2.0), "seeds too"
    assert geometric_mean_ratio([5.0], [2.0]) == pytest.approx(2.5)


def test_zeros_and_missing_values_have_a_rule():
    assert geometric_mean_ratio([0.0, 2.0], [0.0, 1.0]) == pytest.approx(math.sqrt(2)), "two zeros are equal"
    assert math.isnan(geometric_mean_ratio([0.0, 2.0], [1.0, 1.0])), "no ratio for one of them"
    assert math.isnan(geometric_mean_ratio([-1.0, 2.0], [1.0, 1.0]))
    assert geometric_mean_ratio([math.nan, 2.0], [1.0, 1.0]) == pytest.approx(2.0), "missing windows do not count"
    assert math.isnan(geometric_mean_ratio([], []))
    assert math.isnan(geometric_mean_ratio([math.nan], [1.0]))
    assert np.isnan(log_ratios([0.0, 1.0], [1.0, 1.0])).tolist() == [True, False]


def test_tables_of_different_windows_are_refused():
    for function in (geometric_mean_ratio, wilcoxon_p, log_ratios, log_sd):
        with pytest.raises(ValueError, match="2 windows against 3"):
            function([1.0, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="expected windows and seeds"):
        wilcoxon_p(np.ones((2, 2, 2)), np.ones(2))
    with pytest.raises(ValueError, match="values of 3 windows, expected 2"):
        plain(2).mean([1.0, 2.0, 3.0])


@pytest.mark.parametrize("n", [1, 5, 12, 30, 50, 51, 80])
def test_wilcoxon_is_scipy_s(n: int):
    rng = np.random.default_rng(n)
    ours, theirs = rng.lognormal(0, 1, n), rng.lognormal(0.3, 1, n)
    assert wilcoxon_p(ours, theirs) == scipy_stats.wilcoxon(np.log(ours) - np.log(theirs)).pvalue


@pytest.mark.parametrize("n", [2, 5, 8, 13, 14, 40])
def test_wilcoxon_of_equal_differences_is_scipy_s(n: int):
    differences = np.random.default_rng(n).integers(1, 4, n) * np.where(np.arange(n) % 3 == 0, -1.0, 1.0)
    assert wilcoxon_p(differences, np.zeros(n)) == scipy_stats.wilcoxon(differences).pvalue


def test_wilcoxon_by_hand():
    # Four pairs, all in favour of one side: of the 16 sign patterns 2 are as extreme.
    assert wilcoxon_p([1.0, 2.0, 3.0, 4.0], [2.0, 4.0, 7.0, 9.0]) == pytest.approx(2 / 16)
    assert wilcoxon_p([3.0], [5.0]) == 1.0, "one window shows nothing"


def test_wilcoxon_of_degenerate_pairs():
    assert wilcoxon_p([1.0, 2.0], [1.0, 2.0]) == 1.0
    assert math.isnan(wilcoxon_p([math.nan], [1.0]))
    assert math.isnan(wilcoxon_p([], []))
    # Zeros: no logarithm, so plain differences.
    assert wilcoxon_p([0.0, 1.0, 2.0, 0.0], [1.0, 3.0, 7.0, 4.0]) == pytest.approx(2 / 16)
    # Equal pairs do not count.
    assert wilcoxon_p([1.0, 2.0, 3.0, 4.0, 9.0], [2.0, 4.0, 7.0, 9.0, 9.0]) == pytest.approx(2 / 16)
    # Ties among the differences raise no warning (warnings are errors here).
    assert 0 < wilcoxon_p(np.arange(1.0, 9), np.arange(1.0, 9) + np.array([1, 1, 1, 1, 2, 2, -1, 3])) < 0.1


def test_what_differs_by_rounding_is_equal():
    base = np.random.default_rng(8).lognormal(3, 1, 12)
    nearly = base * (1 - 1e-9)
    assert wilcoxon_p(nearly, base) == 1.0
    assert geometric_mean_ratio(nearly, base) == 1.0
    assert plain(12).ratio(nearly, base) == (1.0, 1.0, 1.0)
    assert wilcoxon_p(base * (1 - 1e-5), base) < 0.001, "a real difference, however small"
    assert np.all(base != nearly), "what is given stays as it is"


def test_wilcoxon_averages_the_seeds_of_a_window():
    ours = np.array([[1.0, 4.0], [2.0, 2.0], [1.0, 1.0]])
    assert wilcoxon_p(ours, [1.0, 1.0, 3.0]) == pytest.approx(wilcoxon_p([2.0, 2.0, 1.0], [1.0, 1.0, 3.0]))


def test_the_same_seed_gives_the_same_interval():
    values = np.random.default_rng(0).lognormal(0, 1, (15, 3))
    assert plain(15, seed=1).mean(values) == plain(15, seed=1).mean(values)
    assert plain(15, seed=1).mean(values) != plain(15, seed=2).mean(values)


def test_the_interval_is_scipy_s_bca():
    values = np.random.default_rng(3).lognormal(0, 1, 40)
    ours = plain(40, n_resamples=50_000).mean(values)
    theirs = scipy_stats.bootstrap(
        (values,), np.mean, n_resamples=50_000, method="BCa", rng=np.random.default_rng(1)
    ).confidence_interval
    width = theirs.high - theirs.low
    assert ours.value == pytest.approx(values.mean())
    assert ours.low == pytest.approx(theirs.low, abs=0.03 * width)
    assert ours.high == pytest.approx(theirs.high, abs=0.03 * width)


def test_the_interval_of_crossed_windows_and_seeds_is_scipy_s_of_two_samples():
    rng = np.random.default_rng(5)
    values = rng.normal(0, 1, (30, 1)) + rng.normal(0, 2, (1, 8)) + rng.normal(0, 1, (30, 8)) + 10
    ours = plain(30, n_resamples=20_000).mean(values)

    def mean_of(windows, seeds, axis):
        del axis
        shape = np.broadcast_shapes(windows.shape[:-1], seeds.shape[:-1])
        w = np.broadcast_to(windows, (*shape, windows.shape[-1])).astype(int)
        s = np.broadcast_to(seeds, (*shape, seeds.shape[-1])).astype(int)
        return values[w[..., :, None], s[..., None, :]].mean(axis=(-1, -2))

    theirs = scipy_stats.bootstrap(
        (np.arange(30), np.arange(8)),
        mean_of,
        n_resamples=5_000,
        method="percentile",
        vectorized=True,
        rng=np.random.default_rng(1),
        batch=500,
    ).confidence_interval
    width = theirs.high - theirs.low
    assert ours.low == pytest.approx(theirs.low, abs=0.08 * width)
    assert ours.high == pytest.approx(theirs.high, abs=0.08 * width)
    assert width > 1.2, "the seeds vary most: an interval over windows alone would be far too narrow"
    narrow = plain(30).mean(values.mean(axis=1))
    assert narrow.high - narrow.low < width / 2


def test_intervals_hold_the_true_mean_as_often_as_they_say():
    rng, held, held_ratio = np.random.default_rng(11), 0, 0
    bootstrap = plain(25, n_resamples=999)
    for _ in range(400):
        ours = rng.normal(3.0, 1.0, 25)
        interval = bootstrap.mean(ours)
        held += interval.low <= 3.0 <= interval.high
        base = rng.lognormal(0, 1, 25)
        ratio = bootstrap.ratio(base * np.exp(rng.normal(math.log(0.9), 0.3, 25)), base)
        held_ratio += ratio.low <= 0.9 <= ratio.high
    assert 0.90 <= held / 400 <= 0.98
    assert 0.90 <= held_ratio / 400 <= 0.98


def test_intervals_over_seeds_and_windows_hold_the_true_mean():
    rng, held = np.random.default_rng(12), 0
    bootstrap = plain(20, n_resamples=999)
    for _ in range(200):
        effect = rng.normal(0, 1, (20, 1)) + rng.normal(0, 0.7, (1, 10)) + rng.normal(0, 0.5, (20, 10))
        interval = bootstrap.mean(effect)
        held += interval.low <= 0 <= interval.high
    assert 0.89 <= held / 200 <= 0.99


def test_a_paired_ratio_is_narrow_where_windows_vary_much_together():
    rng = np.random.default_rng(2)
    base = rng.lognormal(0, 2, 30)
    interval = plain(30).ratio(base * 0.9 * np.exp(rng.normal(0, 0.02, 30)), base)
    assert interval.value == pytest.approx(0.9, abs=0.02)
    assert interval.high - interval.low < 0.04


def test_strata_keep_their_share():
    values = np.array([1.0, 1.0, 1.0, 101.0, 101.0, 101.0])
    free, stratified = plain(6).mean(values), Bootstrap([0, 0, 0, 1, 1, 1]).mean(values)
    assert stratified == (51.0, 51.0, 51.0), "nothing varies within the workloads"
    assert free.high - free.low > 30
    single = Bootstrap([0, 1, 2, 3, 4, 5]).mean(values)
    assert single == free, "strata of one window each would have no variation: they are not kept"


def test_degenerate_intervals():
    assert plain(4).mean([7.0, 7.0, 7.0, 7.0]) == (7.0, 7.0, 7.0)
    assert plain(4).mean([0.1, 0.1, 0.1, 0.1]) == pytest.approx((0.1, 0.1, 0.1))
    assert plain(3).ratio([2.0, 4.0, 6.0], [2.0, 4.0, 6.0]) == pytest.approx((1.0, 1.0, 1.0))
    one = plain(1).mean([5.0])
    assert one.value == 5.0
    assert math.isnan(one.low)
    assert math.isnan(one.high)
    one_ratio = plain(1).ratio([5.0], [2.0])
    assert one_ratio.value == 2.5
    assert math.isnan(one_ratio.low)
    assert all(map(math.isnan, plain(2).mean([math.nan, math.nan])))
    assert all(map(math.isnan, plain(2).ratio([0.0, 1.0], [1.0, 1.0])))
    some = plain(4).mean([1.0, 2.0, math.nan, 3.0])
    assert some.value == 2.0
    assert 1.0 <= some.low < 2.0 < some.high <= 3.0


def test_wrong_numbers_are_refused():
    with pytest.raises(ValueError, match="n_resamples is 0"):
        plain(3, n_resamples=0)
    with pytest.raises(ValueError, match=r"confidence 1\.5"):
        plain(3, confidence=1.5)


def test_planning_follows_the_rule_of_thumb():
    assert 350 < windows_needed(0.95, 0.35) < 380
    assert 80 < windows_needed(0.9, 0.35) < 90
    assert 18 < windows_needed(0.8, 0.35) < 21
    assert windows_needed(1 / 0.8, 0.35) == pytest.approx(windows_needed(0.8, 0.35))
    assert windows_needed(1.0, 0.35) == math.inf
    assert (
        smallest_visible_change(87, 0.35, 51) > smallest_visible_change(87, 0.35, 2) > smallest_visible_change(87, 0.35)
    )
    change = smallest_visible_change(87, 0.35)
    assert change == pytest.approx(0.1, abs=0.002)
    assert windows_needed(1 - change, 0.35) == pytest.approx(87)


def test_the_cautious_sd():
    assert cautious_log_sd(0.05, 10) == 0.35
    assert cautious_log_sd(0.05, 100) == 0.2
    assert cautious_log_sd(0.5, 100) == 0.5
    assert cautious_log_sd(math.nan, 1) == 0.35
    assert log_sd([math.e, 1 / math.e], [1.0, 1.0]) == pytest.approx(math.sqrt(2))
    assert math.isnan(log_sd([1.0], [1.0]))


def test_signed_ranks_may_speak_against_the_mean():
    many_a_little_worse, few_much_better = np.full(85, 1.01), np.full(15, 0.5)
    values = np.concatenate([many_a_little_worse * np.linspace(1, 1.001, 85), few_much_better])
    reference = np.ones(100)
    assert geometric_mean_ratio(values, reference) < 0.95
    assert Bootstrap(np.zeros(100), n_resamples=500).ratio(values, reference).high < 1
    assert wilcoxon_p(values, reference) < 1e-3
    assert rank_direction(values, reference) == 1, "the ranks say that it is worse"
    assert rank_direction(1 / values, reference) == -1
    assert rank_direction([1.0, 2.0], [1.0, 2.0]) == 0
    assert rank_direction([2.0, 1.0], [1.0, 2.0]) == 0
    assert rank_direction([math.nan], [1.0]) == 0
