"""Which jobs an episode holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdrl.base.errors import OptionsError
from hdrl.envs.episodes import RLSCHEDULER_STARTS, Window, part_bounds, plan_episodes


def test_a_whole_workload_is_one_window() -> None:
    plan = plan_episodes([100])
    assert plan.windows == (Window(0, 0, 100),)
    assert [plan.window(episode, 0) for episode in (0, 1, 5)] == [Window(0, 0, 100)] * 3


def test_windows_follow_each_other_without_overlap() -> None:
    plan = plan_episodes([100, 60], n_jobs=20, start="consecutive", part="test")
    assert plan.windows == (Window(0, 70, 20),)
    plan = plan_episodes([100, 60], n_jobs=20, start="consecutive", part=(0.5, 1.0))
    assert plan.windows == (Window(0, 50, 20), Window(0, 70, 20), Window(1, 30, 20))
    assert plan.window(4, 12345) == Window(0, 70, 20)


def test_starts_can_be_named() -> None:
    plan = plan_episodes([10_000], n_jobs=1024, start=RLSCHEDULER_STARTS)
    assert [window.start for window in plan.windows] == list(RLSCHEDULER_STARTS)
    assert plan_episodes([50], n_jobs=10, start=40).windows == (Window(0, 40, 10),)
    assert plan_episodes([50], start=40).windows == (Window(0, 40, 10),)


def test_parts_do_not_overlap() -> None:
    bounds = [part_bounds(name, 1003) for name in ("train", "validation", "test")]
    assert bounds[0][0] == 0
    assert [bound[1] for bound in bounds] == [bounds[1][0], bounds[2][0], 1003]
    assert part_bounds((10, 20), 100) == (10, 20)


@given(bits=st.integers(0, 2**64 - 1), sizes=st.lists(st.integers(1, 300), min_size=1, max_size=4))
def test_drawn_windows_stay_in_their_part(bits: int, sizes: list[int]) -> None:
    sizes = [*sizes, 100]
    window = plan_episodes(sizes, n_jobs=15, part="train").window(0, bits)
    first, last = part_bounds("train", sizes[window.workload])
    assert first <= window.start
    assert window.start + window.n_jobs <= last


@given(bits=st.integers(0, 2**64 - 1))
def test_drawn_lengths_stay_in_their_range(bits: int) -> None:
    window = plan_episodes([400], n_jobs=(20, 50), part="train").window(0, bits)
    assert 20 <= window.n_jobs <= 50
    assert window.start + window.n_jobs <= 240
    assert window.start == plan_episodes([400], n_jobs=50, part="train").window(0, bits).start
    fixed = plan_episodes([400], n_jobs=[20, 50], start=7).window(0, bits)
    assert (fixed.start, fixed.n_jobs) == (7, window.n_jobs)
    assert plan_episodes([400], n_jobs=(30, 30)) == plan_episodes([400], n_jobs=30)


def test_every_length_is_drawn_equally_often_whatever_the_start() -> None:
    plan = plan_episodes([100], n_jobs=(1, 10))
    rng = np.random.default_rng(0)
    draws = [plan.window(0, int(bits)) for bits in rng.integers(0, 2**64, 20_000, dtype=np.uint64)]
    lengths, starts = (np.array([getattr(window, name) for window in draws]) for name in ("n_jobs", "start"))
    counts = np.bincount(lengths)[1:]
    assert len(counts) == 10
    assert counts.min() > 0.9 * 2000
    assert abs(np.corrcoef(lengths, starts)[0, 1]) < 0.03


def test_every_start_is_drawn_equally_often() -> None:
    plan = plan_episodes([20, 5, 20], n_jobs=10)
    rng = np.random.default_rng(0)
    draws = [plan.window(0, int(bits)) for bits in rng.integers(0, 2**64, 20_000, dtype=np.uint64)]
    assert {window.workload for window in draws} == {0, 2}
    counts = np.bincount([window.start + 11 * (window.workload == 2) for window in draws])
    assert len(counts) == 22
    assert counts.min() > 0.8 * 20_000 / 22


@pytest.mark.parametrize(
    ("sizes", "arguments", "message"),
    [
        ([], {}, "no workload"),
        ([10], {"n_jobs": 11}, "n_jobs is 11, but that part of workload 0 has 10 jobs"),
        ([10], {"n_jobs": 0}, "n_jobs is 0, expected a whole number of at least 1"),
        ([10], {"n_jobs": 2.5}, "n_jobs is 2.5"),
        ([10], {"n_jobs": (3, 2)}, r"n_jobs is \(3, 2\), expected the smaller number first"),
        ([10], {"n_jobs": (1, 2, 3)}, "expected a number, two numbers, or 'all'"),
        ([10], {"n_jobs": (1, 11)}, "n_jobs is 11, but that part of workload 0 has 10 jobs"),
        ([10], {"n_jobs": (1, 2), "start": "consecutive"}, "windows of drawn lengths have no order"),
        ([10], {"start": "random"}, "start is 'random', which needs n_jobs"),
        ([10], {"start": "rand", "n_jobs": 2}, "start is 'rand'; did you mean 'random'?"),
        ([10], {"start": 9, "n_jobs": 2}, "start is 9: no window of 2 jobs there, that part of workload 0 holds"),
        ([10], {"start": 2, "n_jobs": 2, "part": (5, 9)}, "start is 2: no window .* holds the jobs 5 to 8"),
        ([10], {"start": [], "n_jobs": 2}, "start is empty"),
        ([10], {"start": ["a"], "n_jobs": 2}, "start holds 'a', expected whole numbers"),
        ([10], {"part": (0, 11)}, "expected two indices from 0 to 10"),
        ([10], {"part": (0.5, 0.2)}, "expected two fractions from 0 to 1"),
        ([10], {"part": (0.0, 0.01)}, "holds none of the 10 jobs"),
        ([10], {"part": "trai"}, "part is 'trai'; did you mean 'train'?"),
        ([10], {"part": 3}, "part is 3, expected one of"),
    ],
)
def test_mistakes_are_told_in_one_line(sizes: list[int], arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionsError, match=message) as caught:
        plan_episodes(sizes, **arguments)
    assert "\n" not in str(caught.value)
