"""Policies: each is sound on small worlds, in Python as compiled, alone as beside others."""

from __future__ import annotations

import hashlib
import inspect
import os
import subprocess
import sys
from dataclasses import fields, replace

import numpy as np
import pytest

from hdrl.base.errors import DecisionError, SimulationError, UnknownName
from hdrl.settings.batch.policies import (
    VOID,
    action_table,
    normalise_policy_name,
    pair_names,
    policy_names,
    priority_names,
    read_pair,
    simulate,
)
from hdrl.settings.batch.policies.choices import BACKFILLINGS
from hdrl.settings.batch.simulation import BatchTrace, Decision, EmbeddedSimulator, Reject, SetPState, Start, View
from hdrl.settings.batch.workload.model import StepKind
from hdrl.testing import (
    JobSpec,
    Node,
    Processor,
    World,
    check_policy,
    check_trace,
    check_worlds,
    energy_of_cores,
    run_policy,
    small_platform,
    small_workload,
    trace_differences,
)

WORLDS = check_worlds()

# ------------------------------------------------------------------ names


def test_names():
    assert len(pair_names()) == 36
    shipped = ["es-generalist", "es-pausing", "es-unguarded"]
    of_sites = ["slurm", "multifactor", *(f"multifactor+{kind}" for kind in BACKFILLINGS)]
    named = ["min_min", "max_min", "duplex", *shipped, *of_sites]
    assert policy_names() == [*pair_names(), VOID, *priority_names(), *named]
    assert pair_names()[13] == "shortest-high_gflops"
    assert normalise_policy_name("shortest-high_flops") == "shortest-high_gflops"
    assert normalise_policy_name("longest-low_cores") == "ljf-low_cores"
    assert normalise_policy_name("low_mem_ops+easy-high_mem") == "low_mem_bw+easy-high_mem"
    assert len(action_table(None, void=False)) == 36, "low_cores is none of HDeepRM's"
    assert normalise_policy_name("first-low_energy") == "first-low_power"
    for number, name in enumerate(pair_names()):
        pair = read_pair(name)
        assert (pair.name, 6 * pair.job_key + pair.core_key) == (name, number)


def test_a_misspelt_name():
    with pytest.raises(UnknownName, match="no policy 'shortest-hi_gflops'; did you mean 'shortest-high_gflops'"):
        run_policy("shortest-hi_gflops", WORLDS["one job"])


def test_action_tables():
    assert action_table(None) == [*pair_names(), VOID]
    some = action_table([{"first": ["high_flops", "random"]}, {"random": ["low_power"]}], void=False)
    assert some == ["first-high_gflops", "first-random", "random-low_power"]


# ------------------------------------------------------------------ conformance


@pytest.mark.parametrize("name", [*pair_names(), *priority_names()])
def test_every_policy_is_sound(name: str):
    check_policy(name, seed=3)


def test_void_starts_nothing():
    assert run_policy(VOID, WORLDS["nothing"]).n_decisions > 0
    with pytest.raises(SimulationError, match="1 jobs are waiting"):
        run_policy(VOID, WORLDS["one job"])


def reject_all(view: View) -> list[Decision]:
    return [Reject(int(job)) for job in view.waiting]


def two_on_a_core(view: View) -> list[Decision]:
    return [Start(int(job), [0] * int(view.workload.jobs["cores"][job])) for job in view.waiting]


def test_checks_of_a_policy_can_fail():
    check_policy(reject_all, starts_all=False)
    with pytest.raises(AssertionError, match=r"world 'one job': jobs \[0\] were rejected"):
        check_policy(reject_all)
    with pytest.raises(DecisionError, match="is not free"):
        check_policy(two_on_a_core)


def capricious() -> object:
    """Return a policy that does not decide twice alike."""
    calls = []

    def decide(view: View) -> list[Decision]:
        calls.append(view.now_s)
        job = view.waiting[:1]
        core = view.free_cores[len(calls) % max(1, len(view.free_cores)) :][:1]
        return [Start(int(job[0]), core)] if len(job) and len(core) else []

    return decide


def test_policies_that_do_not_repeat_are_noticed():
    platform = small_platform(Node((Processor(5),)))
    world = World(platform, small_workload(*(JobSpec(float(k), gflop=30.0) for k in range(5))))
    with pytest.raises(AssertionError, match="a second run differs in"):
        check_policy(capricious(), worlds={"w": world})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "row", "value", "text"),
    [
        ("state", 3, 2, "job 3 has state RUNNING"),
        ("start_s", 5, 0.0, "job 5 started before it was submitted"),
        ("run_s", 4, 50.0, "serves jobs"),
        ("first_core", 2, 0, "serves jobs|ran on cores"),
        ("n_cores", 2, 1, "job 2 ran on cores"),
        ("energy_j", 1, 1.0, "job 1 took 1.0 J"),
        ("run_s", 0, 0.5, "job 0 computed 2e.09 of 5e.09 flop"),
    ],
)
def test_checks_of_a_trace_can_fail(field: str, row: int, value: float, text: str):
    trace = run_policy("first-high_gflops", WORLDS["memory and bandwidth"])
    check_trace(trace)
    records = trace.records.copy()
    records[field][row] = value
    with pytest.raises(AssertionError, match=text):
        check_trace(replace(trace, records=records))


def test_checks_end_at_late_dates():
    """Logs that keep their dates have seconds since 1970: there, the clock cannot tell 1e-7 s apart."""
    platform = small_platform(Node((Processor(2, 3.0),)))
    steps = tuple((StepKind.COMPUTE, k * 1e9 / 7, 0) for k in range(1, 6))
    jobs = [JobSpec(1.7e9 + k / 7, 1 + k % 2, steps=steps) for k in range(6)]
    check_trace(run_policy("first-high_gflops", World(platform, small_workload(*jobs))))


def test_checks_of_memory_and_of_the_whole_energy_can_fail():
    trace = run_policy("first-high_gflops", WORLDS["memory and bandwidth"])
    jobs = trace.workload.jobs.copy()
    jobs["memory_mib"] *= 3.0
    with pytest.raises(AssertionError, match=r"node \d lends"):
        check_trace(replace(trace, workload=replace(trace.workload, jobs=jobs)))
    with pytest.raises(AssertionError, match="the platform took"):
        check_trace(replace(trace, consumed_j=trace.consumed_j + 1.0))
    with pytest.raises(AssertionError, match="not every job has ended once"):
        check_trace(replace(trace, completion_order=trace.completion_order[1:]))


def test_energy_of_cores():
    """One of two cores computes for 10 s at 100 W; the other draws 15 W then, and each draws 5 W before and after."""
    world = World(
        small_platform(Node((Processor(2, power_w=200.0),))), small_workload(JobSpec(0.0), JobSpec(20.0, gflop=1.0))
    )
    trace = run_policy("first-high_gflops", world)
    assert energy_of_cores(trace, 0.0, 20.0) == pytest.approx([1050.0, 200.0], rel=1e-7)


# ------------------------------------------------------------------ in Python as compiled


def by_hand(view: View, job_key: str, core_key: str) -> list[Decision]:
    """Start the waiting jobs by a column of the jobs on processors in the order of a column of theirs."""
    platform, jobs = view.platform, view.workload.jobs
    waiting = view.waiting
    memory_mib, free = view.free_memory_mib, view.free_cores.tolist()
    keys = {"first": jobs["submit_s"], "shortest": jobs["requested_time_s"], "smallest": jobs["cores"]}[job_key]
    rank = {"high_gflops": -platform.peak_flops, "low_power": platform.peak_power_w}[core_key]
    decisions: list[Decision] = []
    for job in waiting[np.argsort(keys[waiting], kind="stable")]:
        chosen: list[int] = []
        left_mib = memory_mib.copy()
        for core in sorted(free, key=lambda core: (rank[platform.processor_of_core[core]], core)):
            node = platform.node_of_processor[platform.processor_of_core[core]]
            if len(chosen) < jobs["cores"][job] and left_mib[node] >= jobs["memory_mib"][job]:
                chosen.append(core)
                left_mib[node] -= jobs["memory_mib"][job]
        if len(chosen) < jobs["cores"][job]:
            break
        memory_mib = left_mib
        free = [core for core in free if core not in chosen]
        decisions.append(Start(int(job), chosen))
    return decisions


@pytest.mark.parametrize("core_key", ["high_gflops", "low_power"])
@pytest.mark.parametrize("job_key", ["first", "shortest", "smallest"])
def test_the_same_policy_in_python(job_key: str, core_key: str):
    for world in WORLDS.values():
        compiled = run_policy(f"{job_key}-{core_key}", world)
        plain = run_policy(lambda view: by_hand(view, job_key, core_key), world)
        # Nobody tells the simulator why a policy in Python starts nothing, and it is asked at every message.
        assert set(trace_differences(compiled, plain)) <= {"overutilization", "n_decisions"}
        for name in ("bandwidth_processor", "bandwidth_start_s", "bandwidth_duration_s"):
            mine, other = getattr(compiled.overutilization, name), getattr(plain.overutilization, name)
            assert mine.tolist() == other.tolist()


def test_views_fit_what_starts():
    """`View.fits` tells of the head of the queue whether the compiled policy starts it."""
    seen = set()

    def decide(view: View) -> list[Decision]:
        decisions = by_hand(view, "first", "high_gflops")
        if len(view.waiting):
            fits = view.fits(int(view.waiting[0]))
            assert fits == bool(decisions)
            seen.add(fits)
        return decisions

    run_policy(decide, WORLDS["memory and bandwidth"])
    assert seen == {True, False}


# ------------------------------------------------------------------ again, and beside others

BUSY = WORLDS["memory and bandwidth"]


def test_reset_twice_is_fresh_twice():
    simulator = EmbeddedSimulator(BUSY.platform, BUSY.workload, seed=5)
    traces = []
    for _ in range(2):
        view = simulator.reset()
        while not view.is_over:
            view = simulator.step(by_hand(view, "first", "high_gflops"))
        traces.append(simulator.trace)
        simulator.run_pair(0, 0)
        traces.append(simulator.trace)
    assert trace_differences(traces[0], traces[2]) == []
    assert trace_differences(traces[1], traces[3]) == []
    assert trace_differences(traces[1], run_policy("random-random", BUSY, seed=5)) == []


def test_a_reset_half_way_leaves_nothing_behind():
    simulator = EmbeddedSimulator(BUSY.platform, BUSY.workload)
    view = simulator.reset()
    for _ in range(20):
        view = simulator.step([*by_hand(view, "first", "high_gflops"), SetPState([0], 1)])
    view = simulator.reset()
    while not view.is_over:
        view = simulator.step(by_hand(view, "first", "high_gflops"))
    apart = run_policy(lambda view: by_hand(view, "first", "high_gflops"), BUSY)
    assert trace_differences(simulator.trace, apart) == []


def test_two_simulators_in_turns():
    worlds = [BUSY, WORLDS["kinds of jobs"]]
    simulators = [EmbeddedSimulator(world.platform, world.workload) for world in worlds]
    views = [simulator.reset() for simulator in simulators]
    while not all(view.is_over for view in views):
        for k, simulator in enumerate(simulators):
            if not views[k].is_over:
                views[k] = simulator.step(by_hand(views[k], "shortest", "low_power"))
    for world, simulator in zip(worlds, simulators, strict=True):
        apart = run_policy(lambda view: by_hand(view, "shortest", "low_power"), world)
        assert trace_differences(simulator.trace, apart) == []


@pytest.mark.parametrize("name", ["random-random", "random-high_gflops", "first-random"])
def test_seeds(name: str):
    traces = [run_policy(name, BUSY, seed=seed) for seed in (1, 1, 2)]
    assert trace_differences(traces[0], traces[1]) == []
    assert "records" in trace_differences(traces[0], traces[2])


def test_seeds_do_not_matter_where_nothing_is_random():
    assert trace_differences(*(run_policy("smallest-high_mem", BUSY, seed=seed) for seed in (1, 2))) == []


def test_progress_is_told():
    told: list[tuple[int, int]] = []
    simulate(BUSY.platform, BUSY.workload, "first-random", progress=lambda done, all_: told.append((done, all_)))
    assert told[-1] == (BUSY.workload.n_jobs, BUSY.workload.n_jobs)


# ------------------------------------------------------------------ without the compiler


def digest(trace: BatchTrace) -> str:
    """Return a hash of all bytes of a trace's arrays."""
    result = hashlib.sha256()
    for field in fields(BatchTrace):
        value = getattr(trace, field.name)
        if isinstance(value, np.ndarray):
            result.update(value.tobytes())
    for field in fields(trace.overutilization):
        result.update(getattr(trace.overutilization, field.name).tobytes())
    result.update(repr((trace.consumed_j, trace.end_s, trace.n_decisions)).encode())
    return result.hexdigest()


WITHOUT_COMPILER = """
import hashlib
from dataclasses import fields
import numpy as np
from hdrl.settings.batch.simulation import BatchTrace
from hdrl.settings.batch.workload.model import StepKind
from hdrl.testing import check_worlds, run_policy
{digest}
for policy in {policies!r}:
    print(digest(run_policy(policy, check_worlds()[{world!r}], seed=4)))
"""


def test_the_same_bytes_without_the_compiler():
    policies = ["random-random", "shortest-high_gflops", "low_mem_bw-high_mem_bw", "first-high_mem"]
    program = WITHOUT_COMPILER.format(digest=inspect.getsource(digest), policies=policies, world="memory and bandwidth")
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [digest(run_policy(policy, BUSY, seed=4)) for policy in policies]
