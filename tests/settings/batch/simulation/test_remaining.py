"""The scheduler's picture of the work that running jobs have left, on worlds solved by hand."""

import pytest

import hdrl
from hdrl.settings.batch.simulation import CallAt, SetPState, Start


def watch(platform, workload, placement, until_s, others=None):
    """Simulate with a placement by job and return, second by second, what is left of each running job.

    ``others`` are further decisions, by date.
    """
    seen, others = {}, dict(others or {})

    def policy(view):
        seen[view.now_s] = {int(job): view.remaining(int(job)) for job in view.running}
        decisions = [Start(int(job), placement[int(job)]) for job in view.waiting if int(job) in placement]
        decisions += others.pop(view.now_s, [])
        return [*decisions, CallAt(view.now_s + 1)] if view.now_s < until_s else decisions

    hdrl.simulate(platform, workload, policy)
    return seen


@pytest.fixture(scope="module")
def learning():
    platform = hdrl.read_platform("learning")
    return platform, hdrl.read_workload("learning", platform, custom=True)


def test_at_full_speed(learning):
    # Asked for: 5 s at 4.2 Gflop/s. Cores 0 and 2 run at 4.0 and 4.4 Gflop/s, alone in their processors.
    seen = watch(*learning, {0: [0], 1: [2]}, 4)
    assert seen[2.0][0] == pytest.approx(1 - 2 * 4.0 / 21)
    assert seen[2.0][1] == pytest.approx(1 - 2 * 4.4 / 21)


def test_contention_is_seen(learning):
    # 2 x 24 GB/s on a processor with 32: both cores run at 75 %.
    seen = watch(*learning, {0: [2], 1: [3]}, 5)
    assert seen[4.0] == {0: pytest.approx(1 - 4 * 3.3 / 21), 1: pytest.approx(1 - 4 * 3.3 / 21)}


def test_what_the_policy_does_to_pstates_is_seen(learning):
    # From 2 s on core 0 has the P-state of contention, 75 % of its 4 Gflop/s, though nobody contends.
    seen = watch(*learning, {0: [0], 1: [2]}, 5, {2.0: [SetPState([0], 1)]})
    assert seen[4.0][0] == pytest.approx(1 - (2 * 4.0 + 2 * 3.0) / 21)
    assert seen[4.0][1] == pytest.approx(1 - 4 * 4.4 / 21)


def test_a_job_that_overruns_has_nothing_left(learning):
    platform, workload = learning
    jobs = workload.jobs.copy()
    jobs["requested_time_s"] = 1
    seen = watch(platform, hdrl.Workload(**{**_fields(workload), "jobs": jobs}), {0: [0], 1: [2]}, 4)
    assert seen[3.0] == {0: 0.0, 1: 0.0}


def test_the_slowest_core_sets_the_pace(learning):
    platform, workload = learning
    jobs = workload.jobs.copy()
    jobs["cores"] = 2
    wide = hdrl.Workload(**{**_fields(workload), "jobs": jobs})
    seen = watch(platform, wide, {0: [0, 2], 1: [1, 3]}, 3)
    # Core 0 (4.0 Gflop/s) holds core 2 (4.4) back; with the second job both processors are contended.
    assert seen[2.0][0] == pytest.approx(1 - 2 * 0.75 * 4.0 / 21)


def _fields(workload):
    return {name: getattr(workload, name) for name in workload.__dataclass_fields__}
