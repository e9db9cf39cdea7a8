"""The compiled simulator against worlds solved by hand and against the plain one."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings

from hdrl.base.errors import SimulationError, UnknownName, WorkloadError
from hdrl.settings.pipelines.loads.load import PipelineLoad, Times
from hdrl.settings.pipelines.loads.pipeline import NEVER
from hdrl.settings.pipelines.machine import Units, read_machine
from hdrl.settings.pipelines.simulation.index import shipped_indices
from hdrl.settings.pipelines.simulation.policies import RULES, simulate
from hdrl.settings.pipelines.simulation.trace import PipelineTrace

from .oracle import World
from .worlds import chain, independent, released, worlds

PLAIN_RULES = [name for name in RULES if name not in ("static", "random", *shipped_indices())]


def runs(trace: PipelineTrace) -> list[tuple[int, ...]]:
    return [
        tuple(int(one[name]) for name in ("instance", "option", "unit", "start_us", "end_us")) for one in trace.runs
    ]


@pytest.mark.parametrize("policy", [name for name in PLAIN_RULES if not name.startswith(("cpu", "gpu"))])
@hypothesis_settings(max_examples=60)
@given(world=worlds())
def test_both_simulators_do_the_same(policy: str, world: tuple[Units, PipelineLoad]):
    machine, load = world
    trace = simulate(machine, load, policy)
    plain = World(machine, load).play(policy)
    expected = sorted((r.start_us, r.unit, r.instance, r.option, r.end_us, r.worst_us) for r in plain.runs)
    found = [
        tuple(int(one[name]) for name in ("start_us", "unit", "instance", "option", "end_us", "worst_us"))
        for one in trace.runs
    ]
    assert found == expected
    assert trace.end_us.tolist() == [plain.ended[instance] for instance in range(load.n_items)]
    assert trace.n_decisions == plain.n_decisions


@hypothesis_settings(max_examples=100)
@given(world=worlds())
def test_a_random_policy_leaves_a_possible_schedule(world: tuple[Units, PipelineLoad]):
    """Units do one thing at a time, kernels run once, after what they wait for and after their release."""
    machine, load = world
    trace = simulate(machine, load, "random", seed=3)
    ends: dict[tuple[int, int], int] = {}
    free = dict.fromkeys(range(machine.n_units), -1)
    for one in trace.runs:
        instance, unit = int(one["instance"]), int(one["unit"])
        pipeline = load.pipelines[int(load.instances["pipeline"][instance])]
        group = pipeline.options[int(one["option"])]
        assert one["start_us"] >= free[unit]
        assert one["start_us"] >= load.instances["release_us"][instance]
        assert one["start_us"] < one["end_us"] <= one["start_us"] + one["worst_us"]
        assert group.times_us[machine.kinds[unit]] == one["worst_us"]
        assert pipeline.ecu in (-1, machine.ecus[unit])
        free[unit] = one["end_us"]
        for kernel in group.kernels:
            assert (instance, kernel) not in ends
            ends[instance, kernel] = int(one["end_us"])
            for before in set(pipeline.predecessors[kernel]) - set(group.kernels):
                assert ends[instance, before] <= one["start_us"]
    assert len(ends) == int(load.first_kernels[-1])
    again = simulate(machine, load, "random", seed=3)
    assert runs(again) == runs(trace)


def test_a_world_of_two_pipelines_solved_by_hand():
    """One CPU, one GPU. The second pipeline is more urgent, takes the GPU, and keeps the first from it."""
    world = chain("a", (10, 4), (10, 5)), chain("b", (20, 8))
    load = released(world, (0, 0, 30), (1, 0, 9))
    trace = simulate(read_machine("1cpu+1gpu"), load, "edf")
    # b goes to the GPU, where it is faster (0-8); a0 to the idle CPU (0-10); a1 then to the GPU, faster (10-15).
    assert runs(trace) == [(0, 0, 0, 0, 10), (1, 0, 1, 0, 8), (0, 1, 1, 10, 15)]
    assert trace.is_missed.tolist() == [False, False]
    # Whoever waits for the unit that ends first: a0 on the GPU would end at 12, on the CPU at 10.
    assert runs(simulate(read_machine("1cpu+1gpu"), load, "edf_global")) == runs(trace)
    # On GPUs alone: b, then a0 and a1.
    gpu = simulate(read_machine("1cpu+1gpu"), load, "gpu")
    assert runs(gpu) == [(1, 0, 1, 0, 8), (0, 0, 1, 8, 12), (0, 1, 1, 12, 17)]


def test_a_queue_is_first_come_first_served():
    """The more urgent instance comes when the other one is queued already."""
    world = chain("a", (10, NEVER)), chain("b", (10, NEVER)), chain("c", (10, NEVER)), chain("d", (NEVER, 50))
    load = released(world, (0, 0, 100), (1, 0, 101), (3, 30, 200), (2, 5, 25))
    trace = simulate(read_machine("1cpu+1gpu"), load, "edf_global")
    assert [one[:1] + one[3:] for one in runs(trace)[:3]] == [(0, 0, 10), (1, 10, 20), (2, 20, 30)]
    assert [one[0] for one in runs(simulate(read_machine("1cpu+1gpu"), load, "edf"))[:3]] == [0, 2, 1]


def test_fused_kernels_end_together():
    pipeline = chain("a", (10, 10), (10, 10), (10, 10), groups={(0, 1): (12, 12), (0, 1, 2): (13, 40)})
    load = released((pipeline,), (0, 0, 50))
    assert runs(simulate(read_machine("1cpu"), load, "edf+fusion")) == [(0, 4, 0, 0, 13)]
    assert runs(simulate(read_machine("1gpu"), load, "edf+fusion")) == [(0, 3, 0, 0, 12), (0, 2, 0, 12, 22)]
    assert len(simulate(read_machine("1cpu"), load, "edf").runs) == 3


def test_work_at_the_same_date():
    """What ends frees its unit before what is released at that date is seen; an end at the deadline is in time."""
    trace = simulate(read_machine("1cpu"), independent((10, 0, 10), (5, 10, 15), (5, 10, 14)), "edf")
    assert runs(trace) == [(0, 0, 0, 0, 10), (2, 0, 0, 10, 15), (1, 0, 0, 15, 20)]
    assert trace.is_missed.tolist() == [False, True, True]


def test_units_are_not_preempted():
    trace = simulate(read_machine("1cpu"), independent((10, 0, 100), (1, 1, 3)), "edf")
    assert trace.end_us.tolist() == [10, 11]


def test_a_tolerance_forgives():
    pipeline = chain("a", (10, NEVER), tolerance_us=2)
    load = released((pipeline,), (0, 0, 8), (0, 10, 17))
    assert simulate(read_machine("1cpu"), load, "edf").is_missed.tolist() == [False, True]


def test_execution_times_are_those_of_the_load_whoever_decides():
    pipeline = chain("a", (1000, 1000), (2000, 2000))
    load = released((pipeline,), *((0, k * 5000, k * 5000 + 4000) for k in range(20)), times=Times(0.5, 7))
    lengths = {}
    for policy in ("edf", "cpu", "gpu"):
        trace = simulate(read_machine("1cpu+1gpu"), load, policy)
        lengths[policy] = (trace.runs["end_us"] - trace.runs["start_us"]).tolist()
        assert np.all(2 * (trace.runs["end_us"] - trace.runs["start_us"]) >= trace.runs["worst_us"])
    assert lengths["edf"] == lengths["cpu"] == lengths["gpu"]
    assert len(set(lengths["edf"])) > 30
    tail = simulate(read_machine("1cpu+1gpu"), load.window(10, 10), "edf")
    assert (tail.runs["end_us"] - tail.runs["start_us"]).tolist() == lengths["edf"][20:]


def test_pipelines_stay_on_their_ecu():
    machine = read_machine("2x(1cpu+1gpu)")
    load = released((chain("a", (9, 9), ecu=1), chain("b", (9, 9), ecu=1)), (0, 0, 10), (1, 0, 10), (0, 1, 11))
    trace = simulate(machine, load, "edf")
    assert set(trace.runs["unit"].tolist()) == {2, 3}
    assert trace.is_missed.sum() == 1


def test_what_cannot_run_is_refused():
    load = released((chain("a", (9, NEVER)),), (0, 0, 10))
    with pytest.raises(
        WorkloadError, match=r"pipeline 'a': kernel 0 \(a0\) runs on no unit, machine '1gpu' has only gpu"
    ):
        simulate(read_machine("1gpu"), load, "edf")
    with pytest.raises(WorkloadError, match="pipeline 'a' is for ECU 3, but machine '1cpu' has 1"):
        simulate(read_machine("1cpu"), released((chain("a", (9, 9), ecu=3),), (0, 0, 10)), "edf")
    with pytest.raises(
        SimulationError, match="policy 'gpu' starts nothing more at 0 s, but 1 instances have not ended"
    ):
        simulate(read_machine("1cpu+1gpu"), load, "gpu")
    with pytest.raises(UnknownName, match=r"no policy 'edff'; did you mean 'edf'\?"):
        simulate(read_machine("1cpu"), load, "edff")


def test_uncompiled_code_does_the_same():
    """The kernel is its own slow twin."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from worlds import chain, released\n"
        "from hdrl.settings.pipelines.machine import read_machine\n"
        "from hdrl.settings.pipelines.simulation.policies import RULES, simulate\n"
        "load = released((chain('a', (5, 3), (4, 9), groups={(0, 1): (7, 8)}), chain('b', (6, 2))),"
        " *((k % 2, 4 * k, 4 * k + 12) for k in range(30)))\n"
        "for name in sorted(set(RULES) - {'static'}):\n"
        "    print(name, simulate(read_machine('1cpu+2gpu'), load, name, seed=1).runs.tolist())\n"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", code, str(Path(__file__).parent)],
            capture_output=True,
            text=True,
            check=True,
            env={"NUMBA_DISABLE_JIT": disabled, "PATH": "", "HOME": "/tmp"},
        ).stdout
        for disabled in ("0", "1")
    ]
    assert told[0] == told[1]
    assert len(told[0]) > 1000


def test_indices_are_within_bounds():
    """Compiled code does not look."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(Path(__file__).parent / "guarded.py")],
        env={"NUMBA_DISABLE_JIT": "1", "PATH": "", "HOME": "/tmp"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 4000
