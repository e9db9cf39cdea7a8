"""Intervals, ratios and tests: by hand, against scipy, and by simulation."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest

from hdrl.metrics.catalogue import MetricInfo
from hdrl.metrics.planning import cautious_log_sd, smallest_visible_change, windows_needed
from hdrl.metrics.statistics import (
    Bootstrap,
    Interval,
    across_groups,
    block_ratio,
    cliques,
    geometric_mean_ratio,
    holm,
    improvement_probability,
    kendall_tau,
    lag_one,
    log_ratios,
    log_sd,
    look_levels,
    look_sizes,
    mean_ranks,
    performance_profile,
    rank_direction,
    ratio_iqm,
    suspicious_lag,
    wilcoxon_p,
    without_each_group,
)
from hdrl.metrics.statistics.bootstrap import Stretch
from hdrl.metrics.statistics.student import student_quantile

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


def narrow(interval: Interval, factor: float) -> Interval:
    """Return an interval before it was stretched."""
    value, low, high = interval
    return Interval(value, value + (low - value) / factor, value + (high - value) / factor)


def test_the_interval_is_scipy_s_bca_but_for_the_stretch_of_few_windows():
    values = np.random.default_rng(3).lognormal(0, 1, 40)
    stretch = math.sqrt(40 / 39) * scipy_stats.t.ppf(0.975, 39) / scipy_stats.norm.ppf(0.975)
    ours = narrow(plain(40, n_resamples=50_000).mean(values), stretch)
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
    # Eight seeds vary most: about seven degrees of freedom.
    ours = narrow(ours, math.sqrt(8 / 7) * scipy_stats.t.ppf(0.975, 7) / scipy_stats.norm.ppf(0.975))
    assert ours.low == pytest.approx(theirs.low, abs=0.08 * width)
    assert ours.high == pytest.approx(theirs.high, abs=0.08 * width)
    assert width > 1.2, "the seeds vary most: an interval over windows alone would be far too narrow"
    of_windows = plain(30).mean(values.mean(axis=1))
    assert of_windows.high - of_windows.low < width / 2


@pytest.mark.parametrize("n", [8, 12, 30])
def test_intervals_hold_the_true_value_as_often_as_they_say(n: int):
    """93 to 97 % of a thousand: of means of normal values, and of ratios that are lognormal."""
    rng, held, held_ratio, below = np.random.default_rng(11), 0, 0, 0
    bootstrap = plain(n, n_resamples=999)
    for _ in range(1000):
        interval = bootstrap.mean(rng.normal(30.0, 1.0, n))
        held += interval.low <= 30.0 <= interval.high
        base = rng.lognormal(0, 1, n)
        ours = base * np.exp(rng.normal(math.log(0.9), 0.3, n))
        ratio = bootstrap.ratio(ours, base)
        held_ratio += ratio.low <= 0.9 <= ratio.high
        below += bootstrap.ratio_bound(ours, base, is_upper=True) >= 0.9
    assert 930 <= held <= 970
    assert 930 <= held_ratio <= 970
    assert 930 <= below <= 970, "one-sided"


@pytest.mark.parametrize(
    ("n", "n_trainings", "of_windows", "of_trainings", "of_both"),
    [(8, 10, 0.3, 0.15, 0.1), (12, 5, 0.1, 0.3, 0.1), (30, 10, 0.1, 0.1, 0.3)],
)
def test_intervals_over_trainings_and_windows_hold_the_true_ratio(
    n: int, n_trainings: int, of_windows: float, of_trainings: float, of_both: float
):
    rng, held = np.random.default_rng(12), 0
    bootstrap = plain(n, n_resamples=999)
    for _ in range(1000):
        base = rng.lognormal(0, 1, n)
        effect = rng.normal(0, of_windows, (n, 1)) + rng.normal(0, of_trainings, (1, n_trainings))
        effect = effect + rng.normal(0, of_both, (n, n_trainings))
        interval = bootstrap.ratio(base[:, np.newaxis] * np.exp(effect), base)
        held += interval.low <= 1 <= interval.high
    assert 930 <= held <= 970


def test_the_interval_of_an_average_shows_what_other_trainings_change():
    """The average of ten trainings varies over tens of trainings as their mean does."""
    rng, held, held_alone = np.random.default_rng(13), 0, 0
    bootstrap = plain(20, n_resamples=999)
    for _ in range(500):
        base = rng.lognormal(0, 1, 20)
        effect = rng.normal(0, 0.1, (20, 1)) + rng.normal(0, 0.3, (1, 10)) + rng.normal(0, 0.02, (20, 10))
        trainings, average = base[:, np.newaxis] * np.exp(effect), base * np.exp(effect.mean(axis=1))
        interval = bootstrap.ratio(average, base, trainings=trainings)
        held += interval.low <= 1 <= interval.high
        alone = bootstrap.ratio(average, base)
        held_alone += alone.low <= 1 <= alone.high
    assert 0.92 <= held / 500 <= 0.97
    assert held_alone / 500 < 0.7, "windows alone leave out most of what varies"


def test_equal_policies_are_called_different_in_five_of_a_hundred_comparisons_at_most():
    rng, better = np.random.default_rng(14), 0
    info = MetricInfo("1", "", "", lower_is_better=True)
    bootstraps = {n: plain(n, n_resamples=500) for n in (8, 12, 30)}
    for number in range(1000):
        n = (8, 12, 30)[number % 3]
        base = rng.lognormal(0, 1, n)
        ours = base * np.exp(rng.normal(0, 0.3, n))
        found = bootstraps[n].ratio(ours, base)
        p, level = wilcoxon_p(ours, base), 0.05
        is_shown = p < level and not found.low <= 1 <= found.high
        better += is_shown and found.value < 1 and info.lower_is_better is True
    assert better <= 50


def test_looks_spend_the_level_once():
    assert look_sizes(20, 160) == [20, 40, 80, 160]
    assert look_sizes(20, 100) == [25, 50, 100]
    assert look_sizes(20, 30) == [30]
    for sizes in ([20, 40, 80, 160], [25, 50, 100], [7]):
        levels = look_levels(sizes, 0.05)
        assert sum(levels) == pytest.approx(0.05)
        assert levels == sorted(levels), "nearly all at the end"
    assert look_levels([25, 50, 100], 0.05)[-1] > 0.04


def test_looking_again_makes_no_false_claims():
    """Of 1,000 comparisons of equal policies that are extended until decided, at most 5 % end in a claim."""
    rng = np.random.default_rng(15)
    sizes = look_sizes(10, 80)
    levels = look_levels(sizes, 0.05)
    spent = naive = 0
    for _ in range(1000):
        base = rng.lognormal(0, 1, sizes[-1])
        ours = base * np.exp(rng.normal(0, 0.3, sizes[-1]))
        p = [wilcoxon_p(ours[:size], base[:size]) for size in sizes]
        spent += any(one < level for one, level in zip(p, levels, strict=True))
        naive += any(one < 0.05 for one in p)
    assert spent <= 50
    assert naive > 80, "what it is good for"


def test_student_s_quantiles():
    for freedom in (1, 2, 3, 4, 7, 11.3, 29, 500):
        for share in (0.025, 0.2, 0.95, 0.975, 0.995):
            expected = scipy_stats.t.ppf(share, freedom)
            assert student_quantile(share, freedom) == pytest.approx(expected, rel=0.01)
    assert student_quantile(0.975, 1.5) == pytest.approx(scipy_stats.t.ppf(0.975, 1.5), rel=0.03)
    assert student_quantile(0.5, 1.5) == 0.0


def test_resamples_that_hold_every_window_once_are_ties():
    """Their sums equal the centre but for the order of its terms, which must not count on one side of it."""
    values = np.random.default_rng(4).lognormal(0, 1, 5)
    for order in ([0, 1, 2, 3, 4], [4, 2, 0, 1, 3], [3, 4, 1, 0, 2]):
        bootstrap = plain(5, n_resamples=20_000)
        table, is_there = values[order], np.ones(5, dtype=bool)
        estimates = bootstrap._estimates(table[:, np.newaxis], is_there, "values")
        centre, moves = float(table.mean()), bootstrap._window_moves(table, is_there)
        nudged = estimates * (1 + 1e-15), estimates * (1 - 1e-15)
        ends = [bootstrap._ends(centre, one, moves, Stretch(1.0, math.inf), (0.025, 0.975)) for one in nudged]
        assert ends[0] == pytest.approx(ends[1], rel=1e-12)


def test_logs_are_a_random_effect():
    rng, held, pooled = np.random.default_rng(16), 0, 0
    groups = np.repeat(np.arange(5), 10)
    bootstrap = Bootstrap(groups, n_resamples=500)
    for _ in range(500):
        base = rng.lognormal(0, 1, 50)
        ours = base * np.exp(rng.normal(0, 0.3, 5)[groups] + rng.normal(0, 0.2, 50))
        over = across_groups(ours, base, groups)
        held += over.low <= 1 <= over.high
        alone = bootstrap.ratio(ours, base)
        pooled += alone.low <= 1 <= alone.high
    assert 0.93 <= held / 500 <= 0.97
    assert pooled / 500 < 0.6, "windows of the same logs say nothing of another log"
    assert math.isnan(across_groups(base, base, np.zeros(50)).low)
    assert without_each_group([1.0, 2.0, 4.0], [1.0, 1.0, 1.0], [0, 0, 1]) == pytest.approx({0: 4.0, 1: math.sqrt(2)})


def test_blocks_of_weeks():
    rng, held = np.random.default_rng(17), 0
    weights = rng.integers(50, 200, 40)
    for _ in range(300):
        base = rng.lognormal(0, 0.3, 40)
        ours = base * np.exp(rng.normal(-0.02, 0.2, 40))  # of mean 1
        interval, _ = block_ratio(ours, base, weights, n_resamples=300)
        held += interval.low <= 1 <= interval.high
    assert 0.91 <= held / 300 <= 0.98
    same, p = block_ratio(base, base, weights)
    assert (same, p) == ((1.0, 1.0, 1.0), 1.0)
    few, p = block_ratio([2.0] * 7, [1.0] * 7, [1.0] * 7)
    assert few.value == pytest.approx(2.0)
    assert math.isnan(few.low)
    assert math.isnan(p)
    seeds, p = block_ratio(np.outer(base, [0.5, 0.6, 0.7]), base, weights)
    assert seeds.low < 0.55 < seeds.value < 0.65 < seeds.high < 1
    assert p < 0.001


def test_alike_neighbours():
    rng = np.random.default_rng(18)
    noise = rng.normal(0, 1, (200, 20))
    assert sum(suspicious_lag(row) is not None for row in noise) <= 8, "one in a hundred by chance"
    assert suspicious_lag(np.arange(20.0)) == pytest.approx(0.85, abs=0.02)
    assert suspicious_lag(np.ones(20)) is None
    assert suspicious_lag([1.0, 2.0]) is None
    assert lag_one([1.0, -1.0, 1.0, -1.0]) == pytest.approx(-0.75)


def test_ranks_by_hand():
    assert improvement_probability([1.0, 2.0, 3.0, 4.0], [2.0, 2.0, 2.0, 2.0]) == pytest.approx(1.5 / 4)
    assert improvement_probability([1.0, 3.0], [2.0, 2.0], lower_is_better=False) == pytest.approx(0.5)
    assert math.isnan(improvement_probability([math.nan], [1.0]))
    ratios = np.exp([-9.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 99.0])
    assert ratio_iqm(ratios, np.ones(8)) == pytest.approx(math.exp(3.5)), "the middle four"
    assert ratio_iqm([2.0, 4.0, 8.0], np.ones(3)) == pytest.approx(4.0)
    table = [[1.0, 2.0, 2.0], [1.0, 3.0, 2.0]]
    assert mean_ranks(table).tolist() == [1.0, 2.75, 2.25]
    assert mean_ranks(table, lower_is_better=False).tolist() == [3.0, 1.25, 1.75]
    assert kendall_tau([1, 2, 3, 4], [1, 2, 4, 3]) == pytest.approx(4 / 6)
    assert kendall_tau([1, 2, 3, math.nan], [3, 2, 1, 0]) == pytest.approx(-1.0)
    assert kendall_tau([1, 1, 2], [1, 2, 3]) == pytest.approx(scipy_stats.kendalltau([1, 1, 2], [1, 2, 3]).statistic)
    assert math.isnan(kendall_tau([1, 1], [1, 2]))
    assert performance_profile([1.0, 2.0, 4.0], np.ones(3), [0.5, 1.0, 3.0]).tolist() == [0.0, 1 / 3, 2 / 3]


def test_cliques_join_what_does_not_differ():
    rng = np.random.default_rng(19)
    base = rng.lognormal(0, 1, 20)
    alike = base * np.exp(0.01 * np.resize([1.0, -1.0], 20) * rng.permutation(20))
    table = np.stack([alike, base, base * 3, base * 9])
    assert [set(clique) for clique in cliques(table.T)] == [{0, 1}]
    assert cliques((1 / table).T, lower_is_better=False) == cliques(table.T)
    assert cliques(np.stack([base, base, base]).T) == [(0, 1, 2)]


PROCESSORS = {
    "as it is": {},
    "Haswell": {"OPENBLAS_CORETYPE": "Haswell", "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX"},
    "no vectors": {"OPENBLAS_CORETYPE": "Nehalem", "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 AVX512F AVX512_SKX"},
}
SCRIPT = """
import warnings; warnings.simplefilter("ignore")
import numpy as np
from hdrl.metrics.statistics import *
rng = np.random.default_rng(0)
for n, k in ((5, 1), (8, 3), (20, 10)):
    base, values = rng.lognormal(0, 1, (n, 2)), rng.lognormal(0, 1, (n, k))
    bootstrap = Bootstrap(np.arange(n) % 2)
    print(bootstrap.mean(values), bootstrap.ratio(values, base), bootstrap.ratio_bound(values, base, is_upper=True))
    print(across_groups(values, base, np.arange(n) % 3), log_sd(values, base), wilcoxon_p(values, base))
    print(block_ratio(rng.lognormal(0, 1, (30, k)), rng.lognormal(0, 1, 30), np.ones(30)), ratio_iqm(values, base))
"""


def test_the_bytes_are_the_same_on_any_processor():
    found = {}
    for name, variables in PROCESSORS.items():
        wanted = os.environ | variables
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=wanted, capture_output=True, text=True, check=True, timeout=120
        )
        found[name] = done.stdout
    assert len(found["as it is"].splitlines()) == 9
    assert len(set(found.values())) == 1, found


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
    assert 0.0 <= some.low < 2.0 < some.high < 5.0, "a mean of what is not negative is not, either"


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
