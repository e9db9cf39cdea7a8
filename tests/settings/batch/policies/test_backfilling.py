"""Priorities and EASY backfilling: against plain Python, by hand, and what EASY promises."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hdrl
from hdrl.settings.batch.kernel import codes, entries
from hdrl.settings.batch.platform import build_platform
from hdrl.settings.batch.policies import priority_names, read_pair
from hdrl.settings.batch.policies.backfilling import Easy as PythonEasy
from hdrl.settings.batch.policies.pairs import PRIORITIES
from hdrl.settings.batch.simulation.embedded import EmbeddedSimulator
from hdrl.settings.batch.workload.model import JOB_DTYPE, NO_WALLTIME, STEP_DTYPE
from hdrl.testing import check_policy

from .easy import Easy, Job
from .worlds import WORLDS as RANDOM_WORLDS
from .worlds import random_world


def machine(n_cores, *, memory_gb=1.0, nodes=1):
    """Return equal nodes of 1 Gflop/s cores."""
    return build_platform(
        {
            "clusters": [
                {
                    "id": "c",
                    "nodes": [{"type": "n", "number": nodes}],
                    "local_links": {"type": "l", "latency": "0us"},
                }
            ],
            "global_links": {"type": "l", "latency": "0us"},
            "types": {
                "nodes": {"n": {"processors": [{"type": "p", "number": 1}], "memory": {"capacity": memory_gb}}},
                "processors": {
                    "p": {"cores": n_cores, "clock_rate": 1.0, "dpflops_per_cycle": 1, "mem_bw": 1, "power": 1}
                },
                "networks": {"l": {"bandwidth": "10Gbps"}},
            },
        }
    )


def workload(jobs, memory_mib=()):
    rows = np.zeros(len(jobs), dtype=JOB_DTYPE)
    rows["submit_s"] = [job.submit_s for job in jobs]
    rows["cores"] = [job.cores for job in jobs]
    rows["requested_time_s"] = [job.requested_s for job in jobs]
    rows["walltime_s"] = NO_WALLTIME
    rows["profile"] = range(len(jobs))
    if len(memory_mib):
        rows["memory_mib"] = memory_mib
    steps = np.zeros(len(jobs), dtype=STEP_DTYPE)
    steps["kind"] = 1
    steps["amount"] = [job.run_s * 1e9 for job in jobs]
    names = tuple(str(i) for i in range(len(jobs)))
    return hdrl.Workload("w", rows, names, steps, np.arange(len(jobs) + 1), names)


def starts(policy, jobs, platform, **memory):
    return hdrl.simulate(platform, workload(jobs, **memory), policy).records["start_s"]


def arrival(job, index):
    return job.submit_s, str(index)


def shortest(job, index):
    return job.requested_s, job.submit_s, str(index)


def smallest_area(job, index):
    return job.requested_s * job.cores, job.submit_s, str(index)


ORDERS = {
    "fcfs+easy": (arrival, arrival),
    "fcfs+easy_sjbf": (arrival, shortest),
    "sjf+easy_priority": (shortest, shortest),
    "saf+easy": (smallest_area, arrival),
}


@pytest.mark.parametrize("policy", ORDERS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_like_plain_python(policy, data):
    """Distinct dates: no two things happen at once, so that messages make no difference."""
    n = data.draw(st.integers(2, 12))
    submits = data.draw(st.lists(st.integers(0, 60), min_size=n, max_size=n, unique=True))
    jobs = []
    for i, submit_s in enumerate(sorted(submits)):
        run_s = data.draw(st.integers(1, 30))
        # A different fraction of a second for each job keeps ends apart from each other and from submissions.
        jobs.append(
            Job(
                float(submit_s),
                run_s + (i + 1) / 64,
                float(run_s + data.draw(st.integers(1, 30))),
                data.draw(st.integers(1, 4)),
            )
        )
    expected = Easy(jobs, 4, *ORDERS[policy]).run()
    np.testing.assert_allclose(starts(policy, jobs, machine(4)), expected, atol=1e-5)


FIRST = Job(0, 10, 10, 3)
HEAD = Job(1, 10, 10, 4)


def test_a_short_job_fills_the_hole():
    assert starts("fcfs+easy", [FIRST, HEAD, Job(2, 8, 8, 1)], machine(4)) == pytest.approx([0, 10, 2], abs=1e-6)


def test_a_long_job_does_not_delay_the_head():
    assert starts("fcfs+easy", [FIRST, HEAD, Job(2, 9, 9, 1)], machine(4)) == pytest.approx([0, 10, 20], abs=1e-6)


def test_a_long_job_may_use_spare_cores():
    head = Job(1, 10, 10, 3)
    assert starts("fcfs+easy", [FIRST, head, Job(2, 90, 90, 1)], machine(4)) == pytest.approx([0, 10, 2], abs=1e-6)


def test_without_backfilling_nothing_overtakes():
    assert starts("fcfs", [FIRST, HEAD, Job(2, 8, 8, 1)], machine(4)) == pytest.approx([0, 10, 20], abs=1e-6)


def test_memory_counts_in_the_reservation():
    """The long job has its core, but at the shadow date the head would miss its memory."""
    head = Job(1, 10, 10, 3)
    jobs = [FIRST, head, Job(2, 90, 90, 1)]
    enough = starts("fcfs+easy", jobs, machine(4), memory_mib=[100, 300, 100])
    assert enough == pytest.approx([0, 10, 2], abs=1e-6)
    scarce = starts("fcfs+easy", jobs, machine(4), memory_mib=[100, 300, 200])
    assert scarce == pytest.approx([0, 10, 20], abs=1e-6)


def test_slower_cores_are_expected_to_take_longer():
    """On cores at half the mean speed a job of 8 s takes 16 s, too long for the hole of 10 s."""
    description = {
        "clusters": [
            {
                "id": "c",
                "nodes": [{"type": "fast", "number": 1}, {"type": "slow", "number": 1}],
                "local_links": {"type": "l", "latency": "0us"},
            }
        ],
        "global_links": {"type": "l", "latency": "0us"},
        "types": {
            "nodes": {
                kind: {"processors": [{"type": kind, "number": 1}], "memory": {"capacity": 1}}
                for kind in ("fast", "slow")
            },
            "processors": {
                "fast": {"cores": 1, "clock_rate": 3.0, "dpflops_per_cycle": 1, "mem_bw": 1, "power": 1},
                "slow": {"cores": 1, "clock_rate": 1.0, "dpflops_per_cycle": 1, "mem_bw": 1, "power": 1},
            },
            "networks": {"l": {"bandwidth": "10Gbps"}},
        },
    }
    platform = build_platform(description)  # the mean speed is 2 Gflop/s
    jobs = [Job(0, 30, 15, 1), Job(1, 10, 10, 2), Job(2, 8, 8, 1), Job(3, 3, 3, 1)]
    # The first runs on the fast core until 10 s (30 Gflop at 3 Gflop/s); of the others only the last fits before.
    found = starts("fcfs+easy", jobs, platform)
    assert found[0] == pytest.approx(0, abs=1e-6)
    assert found[3] < found[1] < found[2]


def test_names():
    assert len(priority_names()) == len(PRIORITIES) * (1 + len(KINDS))
    assert read_pair("wfp3+easy_sjbf-low_energy").name == "wfp3+easy_sjbf-low_power"
    assert read_pair("shortest+easy-high_mem").backfilling == 1
    for wrong in ("fcfs+esay", "fcfs-", "shortest", "low_mem_bw", "fcfs+", "+easy", "fcfs+easy-", ""):
        with pytest.raises(hdrl.base.errors.UnknownName):
            read_pair(wrong)


CORES = ("random", "high_gflops", "high_cores", "high_mem", "high_mem_bw", "low_power")
KINDS = ("easy", "easy_sjbf", "easy_priority", "conservative")


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("kind", KINDS)
def test_backfilling_works_with_any_core_selection(kind, core):
    """All of them under one priority each; the priorities take turns."""
    priorities = list(PRIORITIES)
    position = KINDS.index(kind) * len(CORES) + CORES.index(core)
    check_policy(f"{priorities[position % len(priorities)]}+{kind}-{core}", seed=position)
    check_policy(f"low_mem+{kind}-{core}", seed=position)


@pytest.mark.parametrize("kind", ["even", "uneven", "memory", "uneven with memory"])
@pytest.mark.parametrize("policy", ["fcfs+easy", "fcfs+easy_sjbf-low_power", "first+easy-high_mem"])
def test_easy_never_delays_the_head(kind, policy):
    """With estimates that are not too short, whatever the platform, the memory, and how much too long they are."""
    n_promises = 0
    for seed in range(20):
        promise = Promise(policy)
        simulate_watched(random_world(seed, **RANDOM_WORLDS[kind]), promise)
        n_promises += promise.n_kept
    assert n_promises > 20


class Promise:
    """Remembers when the first of the queue was promised to start."""

    def __init__(self, policy):
        self.policy = read_pair(policy)
        self.head, self.date_s, self.n_kept = None, np.inf, 0

    def look(self, state, started):
        if self.head in started:
            assert state.scalars["message_s"][0] <= self.date_s + 1e-5
            self.n_kept += 1
        queue = state.queue[: state.scalars["n_queue"][0]]
        head = int(queue[0]) if len(queue) else None
        if head != self.head:
            self.head, self.date_s = head, np.inf
        if head is not None:
            self.date_s = min(self.date_s, self.shadow_s(state, head))

    @staticmethod
    def shadow_s(state, head):
        """Return when there will be room for a job, by the expected ends of those that hold cores."""
        cores, memory_mib = state.n_free_on.astype(int), state.free_memory_mib.copy()
        asked_mib, wanted = float(state.jobs["memory_mib"][head]), int(state.jobs["n_requested"][head])
        node_of_core = state.processors["node"][state.processor_of]
        owners = state.cores["owner"]
        holding = sorted({int(job) for job in owners if job >= 0}, key=lambda job: state.jobs["expected_end_s"][job])
        for job in holding:
            held = np.bincount(node_of_core[owners == job], minlength=len(state.nodes))
            cores, memory_mib = cores + held, memory_mib + held * state.jobs["memory_mib"][job]
            by_memory = np.floor(memory_mib / asked_mib) if asked_mib else np.inf
            if np.minimum(cores, by_memory).sum() >= wanted:
                return float(state.jobs["expected_end_s"][job])
        return np.inf


def simulate_watched(world, promise):
    simulator = EmbeddedSimulator(world.platform, world.workload, energy=False)
    view = simulator.reset()
    pair = promise.policy
    while not view.is_over:
        if simulator.is_due:
            entries.schedule_pair(simulator._borrowed, pair.job_key, pair.core_key, pair.backfilling)
            state = simulator._state
            ops = state.ops[: state.scalars["n_ops"][0]]
            promise.look(state, set(ops["subject"][ops["kind"] == codes.EXECUTE].tolist()))
        view = simulator.step()


@pytest.mark.parametrize("order", ["fcfs", "sjf", "priority"])
def test_the_queue_is_read_once_to_find_who_may_overtake(order):
    class Queue(list):
        n_read = 0

        def __getitem__(self, position):
            self.n_read += 1
            return super().__getitem__(position)

    queue = Queue([3, 1, 0, 2])
    requested_s = [5.0, 3.0, 4.0, 9.0].__getitem__
    found = PythonEasy(order=order)._candidates(SimpleNamespace(requested_s=requested_s), queue, [0, 1, 2, 3])
    assert found == {"fcfs": [0, 1, 2], "sjf": [1, 2, 0], "priority": [1, 0, 2]}[order]
    assert queue.n_read == 1
