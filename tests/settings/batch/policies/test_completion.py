"""Min-min, max-min and duplex on worlds solved by hand."""

import numpy as np
import pytest

import hdrl
from hdrl.base.errors import DecisionError
from hdrl.batch import Duplex, MaxMin, MinMin
from hdrl.testing import JobSpec, Node, Processor, small_platform, small_workload

# A core of 2 Gflop/s and one of 1: requested times are for their mean, so a job of r s takes 0.75 r or 1.5 r.
PLATFORM = small_platform(Node((Processor(1, 2.0),)), Node((Processor(1, 1.0),)))


def job(requested_s: float, submit_s: float = 0.0, cores: int = 1) -> JobSpec:
    return JobSpec(submit_s, cores, gflop=1.5 * requested_s, requested_time_s=requested_s)


def schedule(policy, *jobs: JobSpec, platform=PLATFORM) -> list[tuple[float, list[int]]]:
    trace = hdrl.simulate(platform, small_workload(*jobs), policy)
    starts = trace.records["start_s"].round(3).tolist()
    return [(start, trace.cores_of(number).tolist()) for number, start in enumerate(starts)]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        # The short job takes the fast core; behind it the long one is done at 9 s, on the slow core at 12 s.
        (MinMin(), [(0.0, [0]), (3.0, [0])]),
        # The long job takes the fast core until 6 s; the short one is done then on the slow core, too.
        (MaxMin(), [(0.0, [1]), (0.0, [0])]),
        (Duplex(), [(0.0, [1]), (0.0, [0])]),
    ],
)
def test_two_jobs_on_two_nodes(policy, expected):
    assert schedule(policy, job(4.0), job(8.0)) == expected
    assert schedule(policy, job(4.0), job(8.0)) == expected, "nothing is left of the last simulation"


def test_duplex_takes_the_plan_that_is_done_sooner():
    # A long job and two short ones: max-min is done at 12 s, min-min puts the long one behind others.
    jobs = [job(16.0), job(4.0), job(4.0)]
    ends = {}
    for policy in (MinMin(), MaxMin(), Duplex()):
        trace = hdrl.simulate(PLATFORM, small_workload(*jobs), policy)
        ends[type(policy).__name__] = round(trace.end_s, 3)
    assert ends["MaxMin"] == 12.0
    assert ends["Duplex"] == min(ends.values())
    assert ends["MinMin"] > 12.0


def test_a_plan_is_made_anew_when_jobs_come_and_end():
    # The fast core is busy until 7.5 s; at 1 s a short job comes, for which the slow one is sooner.
    assert schedule(MinMin(), job(10.0), job(2.0, 1.0)) == [(0.0, [0]), (1.0, [1])]


def test_jobs_stay_on_one_node_with_its_memory():
    platform = small_platform(*(Node((Processor(2, 1.0),)) for _ in range(2)))
    found = schedule(MinMin(), job(3.0), job(9.0, cores=2), job(3.0), platform=platform)
    nodes = [{core // 2 for core in cores} for _, cores in found]
    assert all(len(one) == 1 for one in nodes)
    with pytest.raises(DecisionError, match="job 0 wants 3 cores of one node, the widest node has 2"):
        schedule(MinMin(), job(1.0, cores=3), platform=platform)


@pytest.mark.parametrize("requested_s", [0.0, -1.0])
def test_jobs_without_requested_times_do_not_share_cores(requested_s):
    jobs = [JobSpec(0.0, 1, gflop=3.0, requested_time_s=requested_s) for _ in range(3)]
    found = schedule(MinMin(), *jobs, platform=small_platform(Node((Processor(1, 1.0),))))
    assert found == [(0.0, [0]), (3.0, [0]), (6.0, [0])]


def test_jobs_go_to_nodes_that_have_their_memory():
    platform = small_platform(Node((Processor(2, 2.0),), memory_gb=0.5), Node((Processor(2, 1.0),), memory_gb=1.0))
    large = JobSpec(0.0, 2, gflop=3.0, requested_time_s=3.0, memory_mib=400.0)
    assert schedule(MaxMin(), large, platform=platform) == [(0.0, [2, 3])]
    halves = small_platform(*(Node((Processor(2, 1.0),), memory_gb=0.5) for _ in range(2)))
    with pytest.raises(DecisionError, match="one node with 800 MiB, the largest such node has 512"):
        schedule(MaxMin(), large, platform=halves)


def test_all_jobs_of_a_log_run():
    platform = hdrl.read_platform("gaia")
    workload = hdrl.read_workload("lublin_gaia_1000", platform, n_jobs=60)
    narrow = workload.take(np.flatnonzero(workload.jobs["cores"] <= 12))
    for policy in (MinMin(max_planned=8), Duplex(max_planned=8)):
        metrics = hdrl.compute_metrics(hdrl.simulate(platform, narrow, policy))
        assert metrics["n_finished"] == narrow.n_jobs > 10
