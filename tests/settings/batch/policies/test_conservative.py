"""Conservative backfilling: by hand, against plain Python, and its promise: nobody is ever delayed."""

from dataclasses import replace

import numpy as np
import pytest

from hdrl.settings.batch.kernel import entries
from hdrl.settings.batch.policies import Conservative, Easy, read_pair, simulate
from hdrl.settings.batch.simulation.embedded import EmbeddedSimulator
from hdrl.testing import JobSpec, Node, Processor, check_trace, small_platform, small_workload

from .worlds import WORLDS, random_world

SEEDS = range(6)


def starts(policy, jobs, *nodes):
    platform = small_platform(*(nodes or (Node((Processor(4),)),)))
    return simulate(platform, small_workload(*jobs), policy).records["start_s"]


def job(submit_s, run_s, cores, requested_s=None, **more):
    return JobSpec(submit_s, cores, gflop=float(run_s), requested_time_s=float(requested_s or run_s), **more)


FIRST, SECOND, THIRD = job(0, 10, 3), job(1, 10, 4), job(2, 10, 3)


def test_a_hole_is_filled():
    found = starts("fcfs+conservative", [FIRST, SECOND, THIRD, job(3, 6, 1)])
    assert found == pytest.approx([0, 10, 20, 3], abs=1e-6)


def test_more_than_the_head_is_protected():
    """Beside the second job there is room for the fourth from 10 to 30 s, but the third needs it from 20 s on."""
    jobs = [job(0, 10, 3), job(1, 10, 3), job(2, 10, 4), job(3, 18, 1)]
    assert starts("fcfs+easy", jobs) == pytest.approx([0, 10, 21, 3], abs=1e-6)
    assert starts("fcfs+conservative", jobs) == pytest.approx([0, 10, 20, 30], abs=1e-6)


def test_what_ends_early_lets_others_move():
    """The first job ends after 4 of its 10 s: the second moves to 4, the third behind it."""
    found = starts("fcfs+conservative", [job(0, 4, 3, 10), SECOND, THIRD])
    assert found == pytest.approx([0, 4, 14], abs=1e-6)


def test_the_priority_decides_who_moves_first():
    """At 2 s two cores are free until 20 s, for one of two jobs with reservations at 20 s."""
    jobs = [job(0, 2, 2, 20), job(0, 20, 2), job(1, 9, 2), job(1, 5, 2)]
    assert starts("fcfs+conservative", jobs) == pytest.approx([0, 0, 2, 11], abs=1e-6)
    assert starts("sjf+conservative", jobs) == pytest.approx([0, 0, 7, 2], abs=1e-6)


def test_jobs_of_unknown_length_wait_for_free_cores():
    """As in workloads of Batsim without walltimes; nodes are planned here because jobs ask for memory."""
    jobs = [job(0, 10, 1, 50, memory_mib=250.0), job(1, 10, 1, -1, memory_mib=100.0), job(2, 10, 1, memory_mib=100.0)]
    found = starts("fcfs+conservative", jobs, Node((Processor(1),)))
    assert found == pytest.approx([0, 10, 20], abs=1e-6)


def test_a_late_job_of_high_priority_waits_for_all_reservations():
    jobs = [job(0, 10, 4), job(1, 20, 4), job(2, 1, 4)]
    assert starts("sjf", jobs) == pytest.approx([0, 11, 10], abs=1e-6)
    assert starts("sjf+conservative", jobs) == pytest.approx([0, 10, 30], abs=1e-6)


def test_a_job_that_overruns_delays_its_successors_only_as_long():
    found = starts("fcfs+conservative", [job(0, 10, 4, 5), job(1, 5, 4), job(2, 5, 4)])
    assert found == pytest.approx([0, 10, 15], abs=1e-6)


def test_memory_is_reserved_node_by_node():
    """Node 0 has memory for one of the two large jobs at a time; the small one may not take it from the second."""
    nodes = (Node((Processor(2),), memory_gb=1.0), Node((Processor(2),), memory_gb=0.25))
    large = {"memory_mib": 800.0}
    jobs = [job(0, 10, 1, **large), job(1, 10, 1, **large), job(2, 30, 1, memory_mib=300.0), job(3, 5, 2)]
    assert starts("fcfs+conservative", jobs, *nodes) == pytest.approx([0, 10, 20, 3], abs=1e-6)


def test_slower_cores_are_planned_for():
    """On the slow core the last job takes 8 s, which just fits before the reservation; one of 9 s would not."""
    nodes = (Node((Processor(1, 3.0),)), Node((Processor(1, 1.0),)))
    platform = small_platform(*nodes)
    jobs = [JobSpec(0.0, 1, gflop=30.0, requested_time_s=15.0), JobSpec(1.0, 2, gflop=10.0, requested_time_s=5.0)]
    jobs.append(JobSpec(2.0, 1, gflop=8.0, requested_time_s=4.0))
    found = simulate(platform, small_workload(*jobs), "fcfs+conservative").records["start_s"]
    assert found == pytest.approx([0, 10, 2], abs=1e-6)
    jobs[2] = JobSpec(2.0, 1, gflop=9.0, requested_time_s=4.5)
    found = simulate(platform, small_workload(*jobs), "fcfs+conservative").records["start_s"]
    assert found == pytest.approx([0, 10, 20], abs=1e-6)


@pytest.mark.parametrize(
    "policy",
    ["fcfs+conservative-low_power", Conservative(core_selection="low_power")],
    ids=["compiled", "in Python"],
)
def test_a_start_on_slow_cores_lets_others_start_on_fast_ones(policy):
    """The fourth job would get the slow core at first, and delay the third; the fifth takes that core."""
    nodes = (Node((Processor(1, 1.0, 10.0, 30.0),)), Node((Processor(2, 3.0, 10.0, 100.0),)))
    platform = small_platform(*nodes)
    jobs = [
        JobSpec(submit_s, cores, gflop=gflop, requested_time_s=gflop / platform.reference_gflops)
        for submit_s, cores, gflop in ((0.0, 1, 0.5), (0.1, 1, 30.0), (0.2, 3, 3.0), (1.0, 1, 15.0), (2.0, 1, 6.0))
    ]
    found = simulate(platform, small_workload(*jobs), policy).records["start_s"]
    assert found == pytest.approx([0, 0.1, 10.1, 2, 2], abs=1e-6)


@pytest.mark.parametrize("policy", ["fcfs+conservative", Conservative()], ids=["compiled", "in Python"])
def test_a_date_comes_a_little_before_the_cores_are_free(policy):
    """The last job may run 5 microseconds into the reservation, and the message of the first one's end comes before."""
    jobs = [job(0, 10, 2), job(1, 10, 4, memory_mib=1.0), job(5, 5.000005, 2)]
    assert starts(policy, jobs) == pytest.approx([0, 10, 5], abs=1e-4)


def requested(job, now_s):
    return job.requested_time_s


def expansion(job, now_s):
    asked_s = max(job.requested_time_s, 1.0)
    return -(max(0.0, now_s - job.submit_s) + asked_s) / asked_s


PAIRS = {
    "fcfs+conservative": lambda: Conservative(),
    "sjf+conservative-low_power": lambda: Conservative(requested, core_selection="low_power"),
    "lxf+conservative": lambda: Conservative(expansion),
    "fcfs+easy": lambda: Easy(),
    "lxf+easy_sjbf-low_power": lambda: Easy(expansion, order="sjf", core_selection="low_power"),
    "sjf+easy_priority": lambda: Easy(requested, order="priority"),
}


@pytest.mark.parametrize("kind", WORLDS)
@pytest.mark.parametrize("policy", PAIRS)
def test_in_python_as_compiled(kind, policy):
    own = PAIRS[policy]()
    for seed in SEEDS:
        world = random_world(seed, **WORLDS[kind])
        compiled = simulate(world.platform, world.workload, policy, energy=False)
        check_trace(compiled)
        # The same object again: it begins anew with each simulation.
        plain = simulate(world.platform, world.workload, own, energy=False)
        np.testing.assert_array_equal(plain.records["start_s"], compiled.records["start_s"])


# Worlds in which some forty jobs wait.
LONG_QUEUES = {"even": (1, 2, 3, 5), "uneven with memory": (2, 4), "overrun": (2,)}


@pytest.mark.parametrize("kind", LONG_QUEUES)
def test_long_queues_are_planned_as_short_ones(kind):
    """What is known of holes that are not there changes nothing: plain Python looks for all of them, always."""
    more = {"max_jobs": 50, "nodes": 5, "factors": (0.7, 1.0, 3.0, 10.0)}
    for seed in LONG_QUEUES[kind]:
        world = random_world(seed, **WORLDS[kind] | more)
        compiled = simulate(world.platform, world.workload, "sjf+conservative", energy=False)
        plain = simulate(world.platform, world.workload, Conservative(requested), energy=False)
        np.testing.assert_array_equal(plain.records["start_s"], compiled.records["start_s"])


@pytest.mark.parametrize("kind", ["even", "uneven with memory"])
def test_jobs_that_come_at_once_are_planned_as_others(kind):
    """All wait from the start, some for ends that are told microseconds apart: plain Python looks for every hole."""
    for seed in (3, 6):
        world = random_world(seed, **WORLDS[kind] | {"max_jobs": 40, "nodes": 3, "factors": (0.8, 1.0, 4.0)})
        jobs = world.workload.jobs.copy()
        jobs["submit_s"] = 0.0
        jobs["requested_time_s"] = np.ceil(jobs["requested_time_s"]) + 4e-6 * np.arange(len(jobs))
        jobs.flags.writeable = False
        workload = replace(world.workload, jobs=jobs)
        compiled = simulate(world.platform, workload, "sjf+conservative", energy=False)
        plain = simulate(world.platform, workload, Conservative(requested), energy=False)
        np.testing.assert_array_equal(plain.records["start_s"], compiled.records["start_s"])


@pytest.mark.parametrize("kind", ["even", "uneven with memory"])
def test_jobs_that_come_in_waves_are_planned_as_others(kind):
    """Between two waves nobody waits, or few: what was known of jobs like those that come is forgotten by then."""
    for seed in (1, 4):
        world = random_world(seed, **WORLDS[kind] | {"max_jobs": 45, "nodes": 3, "factors": (0.8, 1.0, 4.0)})
        jobs = world.workload.jobs.copy()
        jobs["submit_s"] = np.arange(len(jobs)) // 15 * 0.6 * jobs["requested_time_s"].sum() / len(jobs)
        jobs.flags.writeable = False
        workload = replace(world.workload, jobs=jobs)
        compiled = simulate(world.platform, workload, "sjf+conservative", energy=False)
        plain = simulate(world.platform, workload, Conservative(requested), energy=False)
        np.testing.assert_array_equal(plain.records["start_s"], compiled.records["start_s"])


@pytest.mark.parametrize("share", [0.02, 1.0], ids=["never short", "short"])
def test_memory_that_is_never_short_is_not_looked_at(share):
    """Nodes are planned by cores alone then; as long as memory is short somewhere, by both."""
    for seed in (2, 5):
        world = random_world(seed, memory=True, max_jobs=60, nodes=8, factors=(1.0, 3.0, 10.0))
        jobs = world.workload.jobs.copy()
        jobs["submit_s"] = 0.0
        jobs["memory_mib"] *= share
        jobs.flags.writeable = False
        workload = replace(world.workload, jobs=jobs)
        compiled = simulate(world.platform, workload, "fcfs+conservative", energy=False)
        plain = simulate(world.platform, workload, Conservative(), energy=False)
        np.testing.assert_array_equal(plain.records["start_s"], compiled.records["start_s"])


def reservations(world, policy):
    """Simulate; yield the date and the reservations of the waiting jobs after each decision, and at last the starts."""
    pair = read_pair(policy)
    simulator = EmbeddedSimulator(world.platform, world.workload, energy=False)
    view = simulator.reset()
    while not view.is_over:
        if simulator.is_due:
            entries.schedule_pair(simulator._borrowed, pair.job_key, pair.core_key, pair.backfilling)
            state = simulator._state
            queue = state.queue[: state.scalars["n_queue"][0]].tolist()
            yield {job: float(state.reservations["reserved_s"][job]) for job in queue}
        view = simulator.step()
    yield dict(enumerate(simulator.trace.records["start_s"].tolist()))


@pytest.mark.parametrize("kind", ["even", "uneven", "memory", "uneven with memory"])
@pytest.mark.parametrize("policy", ["fcfs+conservative", "sjf+conservative-high_mem", "wfp3+conservative-random"])
def test_nobody_is_ever_delayed(kind, policy):
    """With estimates that are not too short, no reservation ever becomes later, whatever comes and ends."""
    n_moved = 0
    for seed in range(20):
        promised = {}
        for now in reservations(random_world(seed, **WORLDS[kind]), policy):
            for index, date_s in now.items():
                assert date_s <= promised.get(index, np.inf) + 1e-5
                n_moved += date_s < promised.get(index, date_s) - 1e-3
                promised[index] = date_s
    assert n_moved > 20  # otherwise this has shown nothing


def test_with_exact_estimates_priorities_make_no_difference():
    """Nothing ends early, so nobody ever moves (Srinivasan et al. 2002); jobs of one date are told one by one here."""
    for seed in range(20):
        world = random_world(seed, factors=(1.0,), nodes=1)
        jobs = world.workload.jobs.copy()
        jobs["submit_s"] = np.arange(len(jobs)) * 1.5
        jobs.flags.writeable = False
        workload = type(world.workload)(
            **{name: getattr(world.workload, name) for name in world.workload.__dataclass_fields__} | {"jobs": jobs}
        )
        found = [
            simulate(world.platform, workload, f"{priority}+conservative", energy=False).records["start_s"]
            for priority in ("fcfs", "sjf", "largest")
        ]
        np.testing.assert_allclose(found[1], found[0], atol=1e-5)
        np.testing.assert_allclose(found[2], found[0], atol=1e-5)


def test_the_plan_survives_others():
    """A job that somebody else starts in between is noticed: the plan begins anew."""
    world = random_world(3, max_jobs=25)
    pair = read_pair("fcfs+conservative")
    simulator = EmbeddedSimulator(world.platform, world.workload, energy=False)
    view = simulator.reset()
    turn = 0
    while not view.is_over:
        if simulator.is_due:
            turn += 1
            backfilling = pair.backfilling if turn % 3 else 1  # every third time EASY decides
            entries.schedule_pair(simulator._borrowed, pair.job_key, pair.core_key, backfilling)
        view = simulator.step()
    check_trace(simulator.trace)


def close_world(seed):
    """Return a machine, and jobs whose dates and lengths are whole seconds but for some microseconds."""
    rng = np.random.default_rng(seed)
    n_jobs, n_cores = int(rng.integers(15, 50)), int(rng.integers(3, 9))
    unit_s = float(rng.choice([2.5e-6, 3.4e-6, 5e-6, 9e-6]))

    def close_to(value_s):
        return value_s + float(rng.integers(-4, 5)) * unit_s

    jobs, date_s = [], 0.0
    for _ in range(n_jobs):
        date_s += float(rng.integers(0, 4))
        whole_s = float(rng.integers(1, 15))
        run_s = whole_s if rng.random() < 0.4 else float(rng.integers(1, int(whole_s) + 1))
        requested_s = max(close_to(whole_s), 0.1)
        run_s = min(max(close_to(run_s), 0.05), requested_s) if rng.random() < 0.9 else run_s + 2
        submit_s = max(close_to(date_s), 0.0)
        cores = int(rng.integers(1, n_cores + 1)) if rng.random() < 0.5 else int(rng.integers(1, 3))
        jobs.append(job(submit_s, run_s, cores, requested_s))
    jobs.sort(key=lambda one: one.submit_s)
    half = n_cores // 2
    alone = rng.random() < 0.5
    nodes = (Node((Processor(n_cores),)),) if alone else (Node((Processor(half),)), Node((Processor(n_cores - half),)))
    return small_platform(*nodes), small_workload(*jobs)


# In 1242 two reservations overlap by more than the rounding when an event between their ends goes. In 2381 a job may
# move by a reservation that comes close to another event; in the last three, reservations hold each other up on an
# empty machine, until they are made anew.
@pytest.mark.parametrize("seed", [0, 1, 1242, 2381, 1088, 1162, 1177])
def test_dates_that_differ_by_rounding(seed):
    """Room comes and goes where events are microseconds apart: nobody is forgotten, compiled or not."""
    platform, workload = close_world(seed)
    for name, own in (("fcfs+conservative", Conservative()), ("sjf+conservative", Conservative(requested))):
        compiled = simulate(platform, workload, name, energy=False)
        plain = simulate(platform, workload, own, energy=False)
        np.testing.assert_array_equal(plain.records["start_s"], compiled.records["start_s"])
