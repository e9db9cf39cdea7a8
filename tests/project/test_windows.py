"""Parts and windows: whoever asks for them, training, validation and test never share an item."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdrl.base.errors import OptionsError, WorkloadError
from hdrl.base.windows import check_window, index_of_share, n_side_by_side, overlap, range_of_shares, side_by_side
from hdrl.envs.episodes import plan_episodes
from hdrl.experiment.compare.cases import test_cases as cases_of
from hdrl.experiment.run.inputs import make_sweep, parse_options
from hdrl.experiment.train.world import part_of
from hdrl.setting import SETTINGS
from hdrl.settings.batch.platform import read_platform
from hdrl.settings.batch.workload import read_workload
from hdrl.settings.batch.workload.model import Workload

NAMES = ("train", "validation", "test")


@pytest.fixture(scope="module")
def workload() -> Workload:
    return read_workload("lublin_gaia_1000", read_platform("gaia"))


@given(
    n_jobs=st.integers(3, 1000),
    shares=st.lists(st.floats(0.01, 0.99), min_size=2, max_size=2, unique=True).map(sorted),
    askers=st.tuples(*[st.sampled_from(["options", "environment", "sweep"])] * 3),
)
def test_parts_share_no_job_whoever_asks(
    workload: Workload, n_jobs: int, shares: list[float], askers: tuple[str, str, str]
) -> None:
    cuts = [0.0, *shares, 1.0]
    parts = dict(zip(NAMES, itertools.pairwise(cuts), strict=True))
    if min(index_of_share(high, n_jobs) - index_of_share(low, n_jobs) for low, high in parts.values()) == 0:
        return
    some = dataclasses.replace(workload.take(np.arange(n_jobs)), name="some")
    ranges = [_range(asker, some, parts, name) for asker, name in zip(askers, NAMES, strict=True)]
    assert ranges[0][0] == 0
    assert ranges[-1][1] == n_jobs
    assert [end for _, end in ranges[:-1]] == [begin for begin, _ in ranges[1:]]


def _range(asker: str, workload: Workload, parts: dict[str, tuple[float, float]], name: str) -> tuple[int, int]:
    if asker == "options":
        episodes = {"n_jobs": 1} | {part: list(shares) for part, shares in parts.items()}
        options = parse_options(
            {
                "platform_file_path": "gaia",
                "workload_file_path": "lublin_gaia_1000",
                "learning": {"episodes": episodes},
                "pybatsim": {"agent": {"type": "LEARNING"}},
            }
        )
        return part_of(options, name, workload)
    if asker == "environment":
        window = plan_episodes([workload.n_jobs], part=parts[name]).windows[0]
        return window.start, window.start + window.n_jobs
    sweep = make_sweep({"platform": "gaia", "candidates": ["fcfs"], "workloads": ["some"], "range": list(parts[name])})
    (case,) = cases_of(sweep, [workload], setting=SETTINGS["batch"])
    return case.first_job, case.first_job + case.n_jobs


@given(
    first=st.integers(0, 50),
    n_items=st.integers(0, 200),
    length=st.integers(1, 40),
    count=st.none() | st.integers(1, 9),
)
def test_windows_side_by_side_share_nothing_and_stay_inside(
    first: int, n_items: int, length: int, count: int | None
) -> None:
    positions = first, first + n_items
    n_fitting = n_side_by_side(positions, length)
    assert n_fitting == n_items // length
    if count is not None and count > n_fitting:
        return
    windows = [(start, start + length) for start in side_by_side(positions, length, count)]
    assert len(windows) == (n_fitting if count is None else count)
    assert not any(overlap(one, other) for one, other in itertools.pairwise(windows))
    assert all(first <= begin and end <= first + n_items for begin, end in windows)
    if count is not None and count > 1:
        assert (windows[0][0], windows[-1][1]) == positions, "spread over all of the range"


def test_a_part_without_items_is_refused_in_one_line() -> None:
    for shares, text in (
        ((0.1, 0.12), r"range is \[0.1, 0.12\], which holds none of the 10 jobs of log"),
        ((0.5, 0.2), "expected two fractions from 0 to 1, the smaller one first"),
        ((0.5, 1.2), "expected two fractions from 0 to 1, the smaller one first"),
    ):
        with pytest.raises(OptionsError, match=text) as caught:
            range_of_shares(shares, 10, what="range", items="jobs of log")
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("start", "n_items", "problem"),
    [
        (100, 0, "log: a window has 0 jobs, expected at least 1"),
        (100, 5, "log: no window of 5 jobs after the first 100: it has 100 jobs"),
    ],
)
def test_windows_that_a_load_lacks_are_one_line(start: int, n_items: int, problem: str) -> None:
    with pytest.raises(WorkloadError, match=f"^{problem}$"):
        check_window("log", start, n_items, 100)
