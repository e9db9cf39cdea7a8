from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hdrl.base.errors import UnknownName, WorkloadError
from hdrl.settings.batch.platform import Platform, read_platform
from hdrl.settings.batch.workload import (
    SwfLog,
    Workload,
    check_fits,
    fits,
    max_cores,
    merge,
    offered_load,
    read_batsim_json,
    read_custom_workload,
    reference_run_times,
    workload_from_swf,
    workload_statistics,
)
from hdrl.settings.batch.workload.swf import SWF_DTYPE


def jobs_of(platform: Platform, *jobs: tuple[float, float, float, float]) -> Workload:
    """Jobs of (date, run time, cores, MiB per core)."""
    rows = np.full(len(jobs), -1.0).astype(SWF_DTYPE)
    rows["job_number"] = np.arange(len(jobs))
    for i, name in enumerate(("submit_s", "run_s", "requested_processors")):
        rows[name] = [job[i] for job in jobs]
    rows["requested_memory_kb"] = [job[3] * 1024 for job in jobs]
    return workload_from_swf(SwfLog("hand", rows), platform)


def placed(platform: Platform, memory_mib: float) -> int:
    """Count the cores by taking memory from the nodes, core by core."""
    free = platform.memory_mib.copy()
    count = 0
    for processor in platform.processor_of_core:
        node = platform.node_of_processor[processor]
        if free[node] >= memory_mib:
            free[node] -= memory_mib
            count += 1
    return count


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=4))
@settings(max_examples=25, deadline=None)
def test_max_cores_is_what_taking_memory_core_by_core_gives(memories):
    platform = SMALL
    assert max_cores(platform, np.array(memories, dtype=float)).tolist() == [placed(platform, m) for m in memories]


SMALL = read_platform("das2")


def test_max_cores_by_hand(learning):
    node_mib = learning.memory_mib[0]
    wanted = np.array([0.0, node_mib / 4, node_mib / 4 + 1, node_mib, node_mib + 1, 1e-300])
    assert max_cores(learning, wanted).tolist() == [4, 4, 3, 1, 0, 4]


def test_jobs_that_fit_pass_unchanged(learning):
    workload = jobs_of(learning, (0, 10, 4, 0), (1, 10, 1, 100))
    assert check_fits(workload, learning) is workload


def test_the_first_oversized_job_is_named(learning):
    workload = jobs_of(learning, (0, 10, 4, 0), (1, 10, 5, 0), (2, 10, 9, 0))
    with pytest.raises(WorkloadError) as error:
        check_fits(workload, learning)
    assert str(error.value) == (
        "hand: job 'w0!1' asks for 5 cores, platform learning has 4; 2 of 3 jobs can never run "
        "(--set workload.oversized=drop leaves them out; in Python, hdrl.check_fits(..., oversized='drop'))"
    )
    node_mib = learning.memory_mib[0]
    with pytest.raises(
        WorkloadError, match=r"asks for 3 cores with .* MiB each, platform learning has 2 \(its largest"
    ):
        check_fits(jobs_of(learning, (0, 10, 3, node_mib / 2)), learning)


def test_oversized_jobs_can_be_dropped(learning):
    workload = jobs_of(learning, (0, 10, 4, 0), (1, 10, 5, 0), (2, 10, 1, 0))
    kept = check_fits(workload, learning, oversized="drop")
    assert kept.job_ids == ("0", "2")
    assert kept.n_dropped == {"does not fit the platform": 1}
    assert np.all(fits(kept, learning))
    assert reference_run_times(kept, learning) == pytest.approx([10, 10])
    with pytest.raises(WorkloadError, match="none of its 1 jobs"):
        check_fits(workload.window(1, 1), learning, oversized="drop")
    with pytest.raises(UnknownName, match="did you mean 'drop'"):
        check_fits(workload, learning, oversized="drp")


def test_windows_follow_the_order_of_submission(learning):
    workload = jobs_of(learning, (30, 1, 1, 0), (10, 2, 1, 0), (20, 3, 1, 0), (20, 4, 1, 0))
    window = workload.window(1, 2)
    assert window.job_ids == ("2", "3")
    assert window.jobs["submit_s"].tolist() == [0, 0]
    assert workload.window(1, 2, shift=False).jobs["submit_s"].tolist() == [10, 10]
    assert reference_run_times(window, learning) == pytest.approx([3, 4])
    for start, n_jobs in ((-1, 1), (0, 0), (3, 2)):
        with pytest.raises(WorkloadError, match="window"):
            workload.window(start, n_jobs)


def test_statistics_by_hand(learning):
    workload = jobs_of(learning, (0, 10, 1, 100), (10, 20, 2, 200), (40, 30, 4, 300))
    numbers = workload_statistics(workload, learning)
    assert (numbers.n_jobs, numbers.span_s) == (3, 40)
    assert numbers.columns["size"].mean == pytest.approx(7 / 3)
    assert numbers.number("size", "median") == 2
    assert numbers.number("mem", "max") == 300
    assert numbers.number("req_time", "p95") == pytest.approx(29)
    assert numbers.number("run_time", "p99") == pytest.approx(29.8)
    assert (numbers.number("interarrival", "min"), numbers.number("interarrival", "max")) == (10, 30)
    assert numbers.offered_load == pytest.approx((10 + 40 + 120) / (40 * 4))
    with pytest.raises(UnknownName, match="did you mean 'mem'"):
        numbers.number("men", "max")
    with pytest.raises(UnknownName):
        numbers.number("mem", "p96")


def test_statistics_without_platform_span_or_jobs(learning):
    numbers = workload_statistics(jobs_of(learning, (5, 10, 1, 0)))
    assert numbers.offered_load is None
    assert "interarrival" not in numbers.columns
    assert offered_load(jobs_of(learning, (5, 10, 1, 0), (5, 1, 1, 0)), learning) is None
    empty = jobs_of(learning, (5, 10, 1, 0)).take(np.array([], dtype=np.int64))
    with pytest.raises(WorkloadError, match="no job"):
        workload_statistics(empty)


def test_run_times_of_composed_profiles(tmp_path, learning):
    (tmp_path / "w.json").write_text(
        '{"jobs": [{"id": 1, "subtime": 0, "res": 4, "profile": "x"},'
        ' {"id": 2, "subtime": 0, "res": 2, "profile": "t"}],'
        ' "profiles": {"d": {"type": "delay", "delay": 3}, "c": {"type": "parallel_homogeneous", "cpu": 4.2e9},'
        ' "t": {"type": "parallel_homogeneous_total", "cpu": 16.8e9},'
        ' "x": {"type": "composed", "seq": ["d", "c", "t"], "repeat": 2}}}'
    )
    workload = read_batsim_json(tmp_path / "w.json")
    assert reference_run_times(workload, learning) == pytest.approx([2 * (3 + 1 + 1), 2])
    both = merge([workload, workload])
    assert reference_run_times(both, learning) == pytest.approx([10, 2, 10, 2])


def test_a_step_that_fails_ends_a_profile(tmp_path, learning):
    (tmp_path / "w.json").write_text(
        '{"jobs": [{"id": 1, "subtime": 0, "res": 1, "profile": "x"}], "profiles": {'
        '"a": {"type": "delay", "delay": 3, "ret": 1}, "b": {"type": "delay", "delay": 5},'
        ' "x": {"type": "composed", "seq": ["b", "a", "b"]}}}'
    )
    assert reference_run_times(read_batsim_json(tmp_path / "w.json"), learning) == pytest.approx([8])


def test_limits_of_a_recorded_run(shared):
    folder = shared / "batsim-runs" / "hdeeprm_gaia200_padded"
    numbers = workload_statistics(read_batsim_json(folder / "workload.json"))
    import json

    limits = json.loads((folder / "job_limits.json").read_text())
    for column, key in (("req_time", "max_time"), ("size", "max_core"), ("mem", "max_mem"), ("mem_bw", "max_mem_bw")):
        assert numbers.number(column, "p99") == limits[key]


def test_a_recorded_custom_workload(shared, learning):
    path = shared / "batsim-runs" / "hdeeprm_learning4_2jobs" / "workload.json"
    assert read_custom_workload(path, learning).steps.tolist() == read_batsim_json(path).steps.tolist()


def test_taking_jobs_leaves_the_rest_as_it_was(learning):
    workload = jobs_of(learning, (0, 10, 4, 0), (1, 10, 2, 0))
    with pytest.raises(ValueError, match="read-only"):
        workload.jobs["cores"][0] = 1
    part = workload.take(np.array([1]))
    assert part.profile_names == workload.profile_names
    assert replace(part, jobs=workload.jobs).jobs is workload.jobs
