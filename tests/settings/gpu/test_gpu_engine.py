"""The compiled simulator against the one in plain Python, and against worlds solved by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hdrl.base.errors import OptionsError, SimulationError, UnknownName, WorkloadError
from hdrl.settings.gpu.cluster.machine import NODE_DTYPE, GpuCluster, GpuType, read_cluster
from hdrl.settings.gpu.loads.load import GpuLoad, new_jobs
from hdrl.settings.gpu.loads.values import JobValues, ValueTable
from hdrl.settings.gpu.policies.names import policy_names, read_policy
from hdrl.settings.gpu.policies.rules import Rules
from hdrl.settings.gpu.simulation.events import new_world, simulate
from tests.settings.gpu.gpu_oracle import play

POLICIES = [
    *("fifo", "sjf", "ljf", "smallest", "priority", "srtf", "srsf", "las", "las-2d"),
    *("fifo+first-fit", "sjf+skip", "fifo+easy", "sjf+easy+first-fit", "priority+preempt", "srtf+first-fit+strict"),
    "las-2d+first-fit",
]


def make_cluster(*nodes: tuple[int, int, int], flops: tuple[float, ...] = (1.0,)) -> GpuCluster:
    """Return a cluster of nodes: type, GPUs, thousandths of cores."""
    types = tuple(GpuType(f"t{number}", one) for number, one in enumerate(flops))
    rows = np.zeros(len(nodes), dtype=NODE_DTYPE)
    for row, (kind, n_gpus, cpu) in zip(rows, nodes, strict=True):
        row["gpu_type"], row["n_gpus"], row["cpu_milli"], row["memory_mib"] = kind, n_gpus, cpu, 1000
    return GpuCluster("c", types, rows)


def make_load(*jobs: tuple[float, float, int], **given: list[float]) -> GpuLoad:
    """Return a load of jobs: arrival, work, GPUs; and more columns by name."""
    table = new_jobs(len(jobs))
    for name, column in zip(("arrival_s", "work", "n_gpus"), zip(*jobs, strict=True), strict=True):
        table[name] = column
    for name, column in given.items():
        table[name] = column
    return GpuLoad("l", table, speeds="flops", spread_speed=0.5)


@st.composite
def worlds(draw: st.DrawFn, *, may_end_early: bool = False) -> tuple[GpuCluster, GpuLoad]:
    """Draw a small cluster and jobs that it can run, which may end at their deadlines."""
    n_types = draw(st.integers(1, 2))
    shapes = draw(st.lists(st.tuples(st.integers(0, n_types - 1), st.sampled_from([1, 2, 4])), min_size=1, max_size=4))
    nodes = [(kind, size, 4000) for kind, size in shapes]
    cluster = make_cluster(*nodes, flops=(2.0, 1.0)[:n_types])
    most = max(cluster.gpus_of_type.tolist())
    n = draw(st.integers(1, 14))
    gaps = draw(st.lists(st.integers(0, 6), min_size=n, max_size=n))
    table = new_jobs(n)
    table["arrival_s"] = np.cumsum(gaps)
    table["work"] = draw(st.lists(st.integers(1, 20), min_size=n, max_size=n))
    sizes = draw(st.lists(st.integers(1, most), min_size=n, max_size=n))
    table["n_gpus"] = sizes
    shares = draw(st.lists(st.sampled_from([1000, 1000, 400, 700]), min_size=n, max_size=n))
    table["gpu_milli"] = [share if size == 1 else 1000 for share, size in zip(shares, sizes, strict=True)]
    cores = draw(st.lists(st.sampled_from([0, 0, 500, 1000]), min_size=n, max_size=n))
    table["cpu_milli"] = [core * size for core, size in zip(cores, sizes, strict=True)]
    table["priority"] = draw(st.lists(st.sampled_from([1.0, 2.0]), min_size=n, max_size=n))
    table["requested_s"] = draw(st.lists(st.sampled_from([np.nan, 3.0, 10.0]), min_size=n, max_size=n))
    values = None
    if may_end_early and draw(st.booleans()):
        table["deadline_s"] = table["arrival_s"] + draw(st.lists(st.integers(1, 40), min_size=n, max_size=n))
        line = np.array([[0.0, 1.0]] * 2)
        straight = ValueTable("v", 2, np.full((2, 1), 0.5), line, line, line[:, None])
        values = JobValues((straight,), np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64))
    spread_speed = draw(st.sampled_from([1.0, 0.5]))
    return cluster, GpuLoad("l", table, speeds="flops", spread_speed=spread_speed, values=values)


@settings(max_examples=250, deadline=None)
@given(
    world=worlds(may_end_early=True),
    policy=st.sampled_from(POLICIES),
    restart=st.sampled_from([0.0, 1.0, 2.5]),
    checkpoint=st.sampled_from([0.0, 2.0]),
    round_s=st.sampled_from([0.0, 0.0, 3.0]),
)
def test_simulates_as_the_oracle(
    world: tuple[GpuCluster, GpuLoad], policy: str, restart: float, checkpoint: float, round_s: float
) -> None:
    ends_early = world[1].values is not None
    checkpoint = 0.0 if ends_early else checkpoint  # jobs that adapt lose nothing
    rules = Rules(
        round_s=round_s, restart_s=(restart, restart), checkpoint_s=checkpoint, levels=(4.0, 10.0), node_order="file"
    )
    if restart and read_policy(policy).order in ("las", "las-2d", "srtf", "srsf") and checkpoint:
        checkpoint_free = Rules(round_s=round_s, restart_s=(restart, restart), levels=(4.0, 10.0))
        rules = checkpoint_free  # jobs that lose more than they do never end
    trace = simulate(*world, read_policy(policy), rules=rules)
    oracle = play(*world, read_policy(policy), rules)
    np.testing.assert_allclose(trace.tasks["start_s"], [job.first_start for job in oracle.jobs], rtol=1e-9)
    np.testing.assert_allclose(trace.tasks["end_s"], [job.end for job in oracle.jobs], rtol=1e-9)
    if ends_early:
        granted = [job.done / job.work for job in oracle.jobs]
        np.testing.assert_allclose(trace.outcomes["granted"], granted, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(trace.outcomes["value"], granted, rtol=1e-9, atol=1e-12)
    first = np.cumsum(world[0].nodes["n_gpus"]) - world[0].nodes["n_gpus"]
    stays = sorted(
        (job, start, tuple(int(first[node]) + gpu for node, gpu in held if gpu >= 0))
        for job, start, _, held, _ in oracle.stays
    )
    ours = sorted(
        (one["task"], one["start_s"], tuple(sorted(trace.stay_units[one["first_unit"] :][: one["n_units"]].tolist())))
        for one in trace.stays
    )
    assert [(job, units) for job, _, units in ours] == [(job, units) for job, _, units in stays]
    np.testing.assert_allclose([start for _, start, _ in ours], [start for _, start, _ in stays], rtol=1e-9)


def ends(cluster: GpuCluster, load: GpuLoad, policy: str, **rules: object) -> list[float]:
    """Return when jobs end."""
    return list(simulate(cluster, load, read_policy(policy), rules=Rules(**rules)).tasks["end_s"])  # type: ignore[arg-type]


def test_a_wide_job_blocks_fifo_but_not_easy() -> None:
    cluster = make_cluster((0, 2, 0))
    load = make_load((0, 10, 1), (1, 10, 2), (2, 5, 1), (3, 20, 1))
    assert ends(cluster, load, "fifo") == [10, 20, 25, 40]
    assert ends(cluster, load, "fifo+easy") == [10, 20, 7, 40]
    assert ends(cluster, load, "fifo+skip") == [10, 37, 7, 27]


def test_the_shortest_remaining_preempts_and_pays_for_restarts() -> None:
    cluster = make_cluster((0, 1, 0))
    load = make_load((0, 10, 1), (2, 3, 1))
    assert ends(cluster, load, "sjf") == [10, 13]
    assert ends(cluster, load, "srtf") == [13, 5]
    assert ends(cluster, load, "srtf", restart_s=(2.0, 2.0)) == [15, 5]
    assert ends(cluster, load, "srtf", checkpoint_s=1.5) == [13.5, 5]


def test_a_job_with_nothing_but_a_rounding_error_left_ends() -> None:
    """In binary, 0.1 + 0.2 is a little more than 0.3, when the second job arrives."""
    load = make_load((0.1, 0.2, 1), (0.3, 10, 1), priority=[1.0, 2.0])
    trace = simulate(make_cluster((0, 1, 0)), load, read_policy("priority+preempt"))
    np.testing.assert_allclose(trace.tasks["end_s"], [0.3, 10.3])
    assert trace.counts["n_preemptions"] == 0


def test_attained_service_moves_jobs_down_its_queues() -> None:
    cluster = make_cluster((0, 1, 0))
    load = make_load((0, 10, 1), (1, 10, 1))
    assert ends(cluster, load, "las", levels=(4.0,)) == [20, 14]
    with pytest.raises(OptionsError, match="needs rounds"):
        ends(cluster, load, "las", levels=())
    assert ends(cluster, load, "las", levels=(), round_s=1.0) == [20, 19]


def test_rounds_delay_what_arrives_between_them() -> None:
    assert ends(make_cluster((0, 1, 0)), make_load((1, 2, 1), (6, 2, 1)), "fifo", round_s=5.0) == [7, 12]


def test_faster_types_are_taken_first_and_spread_gangs_are_slow() -> None:
    cluster = make_cluster((0, 1, 0), (1, 1, 0), flops=(1.0, 3.0))
    assert ends(cluster, make_load((0, 3, 1), (0, 3, 1)), "fifo") == [2, 6]
    two = make_cluster((0, 2, 0), (0, 2, 0))
    assert ends(two, make_load((0, 5, 1), (0, 9, 1), (1, 4, 2)), "fifo+worst-fit") == [5, 9, 9]
    assert ends(two, make_load((0, 5, 1), (0, 9, 1), (1, 4, 2)), "fifo") == [5, 9, 5]


def test_a_cluster_may_name_more_types_than_it_has_gpus() -> None:
    """The kernel wrote behind the end of an array there."""
    cluster, load = make_cluster((9, 1, 0), flops=(1.0,) * 10), make_load((0, 10, 1), (1, 5, 1), priority=[1.0, 2.0])
    policy, rules = read_policy("priority+preempt"), Rules()
    world = new_world(cluster, load, policy, seed=0, rules=rules, restart_s=None, records=True)
    assert world.scratch.picked.shape[1] >= 10
    assert ends(cluster, load, "priority+preempt") == [15, 6]


def test_users_get_equal_dominant_shares() -> None:
    cluster = make_cluster((0, 1, 0), (0, 1, 0))
    load = make_load((0, 4, 1), (0, 4, 1), (0, 4, 1), user=[0, 0, 1])
    assert ends(cluster, load, "fifo") == [4, 4, 8]
    assert ends(cluster, load, "drf") == [4, 8, 4]


def test_a_cluster_is_full_of_shares_but_not_overfull() -> None:
    load = make_load((0, 4, 1), (0, 4, 1), (0, 4, 1), gpu_milli=[400, 600, 100])
    assert ends(make_cluster((0, 1, 0)), load, "fifo") == [4, 4, 8]


@pytest.mark.parametrize("name", policy_names())
def test_every_policy_ends_all_jobs_and_has_a_name_that_it_is_read_by(name: str) -> None:
    policy = read_policy(name)
    assert read_policy(policy.name) == policy
    rng = np.random.default_rng(1)
    n = 120
    jobs = [(float(i), float(rng.integers(1, 200)), int(rng.choice([1, 2, 4, 8]))) for i in range(n)]
    load = make_load(*jobs, user=rng.integers(0, 3, n).tolist())
    cluster = read_cluster("drl-gpu")
    trace = simulate(cluster, load, policy, seed=3)
    again = simulate(cluster, load, policy, seed=3)
    assert (trace.tasks["end_s"] > trace.tasks["start_s"]).all()
    assert trace.tasks.tobytes() == again.tasks.tobytes()
    assert trace.stay_units.tobytes() == again.stay_units.tobytes()
    done = np.bincount(trace.stays["task"], weights=(trace.stays["end_s"] - trace.stays["start_s"]), minlength=n)
    assert (done >= load.isolated_s(cluster) * (1 - 1e-9)).all()


def test_what_cannot_run_is_told_in_a_line() -> None:
    cluster = make_cluster((0, 2, 1000))
    with pytest.raises(WorkloadError, match="job 0 asks for 3 GPUs"):
        simulate(cluster, make_load((0, 1, 3)), read_policy("fifo"))
    with pytest.raises(WorkloadError, match="job 0 asks for 1 GPUs, 2 cores"):
        simulate(cluster, make_load((0, 1, 1), cpu_milli=[2000]), read_policy("fifo"))
    for text, word in (("sfj", "sjf"), ("sjf+fdg", "fgd")):
        with pytest.raises(UnknownName, match=word):
            read_policy(text)
    for text in ("srtf+easy", "sjf+fgd+packing", "drf+strict"):
        with pytest.raises(OptionsError):
            read_policy(text)
    assert issubclass(SimulationError, Exception)
