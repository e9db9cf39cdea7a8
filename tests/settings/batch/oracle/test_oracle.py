"""The oracle against recorded runs of HDeepRM 0.3.1 on Batsim 4.2.1, and against worlds solved by hand."""

from __future__ import annotations

import csv
import gzip
import json
import random  # noqa: TID251 - seeds the choices of the oracle
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from defusedxml import ElementTree
from hypothesis import given, settings
from hypothesis import strategies as st

from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.platform.pstates import contention_model, pstate_rules
from hdrl.settings.batch.workload.model import JOB_DTYPE, STEP_DTYPE, StepKind, Workload

from .simulator import (
    CORE_KEYS,
    JOB_KEYS,
    OracleJob,
    OraclePlatform,
    OracleResult,
    jobs_from,
    simulate,
)

RUNS = Path(__file__).parents[4] / ".." / "shared" / "batsim-runs"
RECORDED = ("hdeeprm_learning4_2jobs", "hdeeprm_learning4_50jobs", "hdeeprm_gaia200_padded")

# what platform.xml does not say, by (first speed, first power): cores per processor, memory in GB, bandwidth in GB/s
PROCESSORS = {
    ("4.000Gf", "40.000"): (2, 32, 32.0),
    ("4.400Gf", "50.000"): (2, 32, 32.0),
    ("9.040Gf", "7.500"): (6, 48, 32.0),
    ("8.000Gf", "9.750"): (10, 1024, 51.2),
    ("19.200Gf", "8.906"): (8, 1024, 51.2),
    ("17.600Gf", "8.906"): (8, 64, 51.2),
    ("11.720Gf", "11.875"): (6, 48, 32.0),
    ("20.000Gf", "6.500"): (15, 3072, 85.0),
    ("19.200Gf", "7.125"): (10, 4096, 59.7),
}


# ------------------------------------------------------------------ recorded runs


def recorded_platform(file: Path) -> OraclePlatform:
    root = ElementTree.parse(file).getroot()
    node_of = {
        route.get("src"): route.find("link_ctn").get("id")
        for route in root.iter("route")
        if not route.get("src").startswith("rou")
    }
    hosts = sorted((h for h in root.iter("host") if h.get("id") != "master_host"), key=lambda h: h.get("id"))
    nodes: list[str] = []
    parts: dict[str, list[Any]] = {name: [] for name in ("node", "processor", "memory", "bandwidth", "speed", "watts")}
    room = 0
    for host in hosts:
        speeds = host.get("speed").split(", ")
        watts = host.find("prop").get("value").split(", ")
        size, memory_gb, bandwidth = PROCESSORS[speeds[0], watts[0].split(":")[0]]
        node = node_of[host.get("id")]
        if node not in nodes:
            nodes.append(node)
            parts["memory"].append(memory_gb * 1000.0)
        if room == 0:
            parts["node"].append(nodes.index(node))
            parts["bandwidth"].append(bandwidth)
        room = (room or size) - 1
        parts["processor"].append(len(parts["node"]) - 1)
        parts["speed"].append([float(s.rstrip("Gf")) * (1e9 if s.endswith("Gf") else 1.0) for s in speeds])
        parts["watts"].append([float(w.split(":")[0]) for w in watts])
    first = [parts["processor"].index(p) for p in range(len(parts["node"]))]
    return OraclePlatform(
        node_of_processor=parts["node"],
        processor_of_core=parts["processor"],
        memory_mib=parts["memory"],
        bandwidth_gbps=parts["bandwidth"],
        peak_flops=[parts["speed"][core][0] for core in first],
        peak_power_w=[parts["watts"][core][0] for core in first],
        speed_flops=parts["speed"],
        idle_w=parts["watts"],
        epsilon_w=parts["watts"],
        full_w=parts["watts"],
        message_s=[8e-10] * len(hosts),
    )


def recorded_jobs(file: Path) -> list[OracleJob]:
    content = json.loads(file.read_text())
    jobs = []
    for job in sorted(content["jobs"], key=lambda job: (job["subtime"], str(job["id"]))):  # as Batsim submits them
        profile = content["profiles"][job["profile"]]
        jobs.append(
            OracleJob(
                id=str(job["id"]),
                submit_s=float(job["subtime"]),
                cores=job["res"],
                flops=profile["cpu"],
                requested_time_s=profile["req_time"],
                memory_mib=profile["mem"],
                bandwidth_gbps=profile["mem_bw"],
            )
        )
    return jobs


def interval_text(cores: list[int]) -> str:
    """Cores as Batsim writes them: ``0-3 5``."""
    parts: list[list[int]] = []
    for core in cores:
        if parts and parts[-1][1] == core - 1:
            parts[-1][1] = core
        else:
            parts.append([core, core])
    return " ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


@pytest.fixture(scope="module", params=RECORDED)
def recorded(request: pytest.FixtureRequest) -> tuple[Path, list[OracleJob], OracleResult]:
    folder = RUNS / request.param
    if not folder.is_dir():
        pytest.skip(f"no recorded runs at {RUNS}")
    options = json.loads((folder / "options.json").read_text())
    ((job_key, core_keys),) = options["pybatsim"]["env"]["actions"]["selection"][0].items()
    jobs = recorded_jobs(folder / "workload.json")
    platform = recorded_platform(folder / "platform.xml")
    result = simulate(platform, jobs, job_key, core_keys[0], compatibility=True, seed=options["seed"])
    return folder, jobs, result


def test_recorded_jobs(recorded: tuple[Path, list[OracleJob], OracleResult]) -> None:
    folder, jobs, result = recorded
    with (folder / "out_jobs.csv").open() as file:
        rows = list(csv.DictReader(file))
    told = [
        (
            r["job_id"],
            r["final_state"],
            r["starting_time"],
            r["execution_time"],
            r["finish_time"],
            r["allocated_resources"],
        )
        for r in rows
    ]
    mine = []
    for index in result.completion_order:
        record = result.records[index]
        dates = (f"{record.start_s:f}", f"{record.run_s:f}", f"{record.end_s:f}")
        mine.append((jobs[index].id, record.state, *dates, interval_text(record.cores)))
    assert mine == told
    energies = [result.records[index].energy_j for index in result.completion_order]
    assert energies == pytest.approx([float(r["consumed_energy"]) for r in rows], rel=1e-9, abs=1e-6)


def test_recorded_energy(recorded: tuple[Path, list[OracleJob], OracleResult]) -> None:
    folder, _, result = recorded
    with (folder / "out_schedule.csv").open() as file:
        row = next(csv.DictReader(file))
    assert result.consumed_j == pytest.approx(float(row["consumed_joules"]), rel=1e-9)
    assert len(result.pstate_requests) == int(row["nb_grouped_switches"])
    assert sum(len(cores) for _, _, cores in result.pstate_requests) == int(row["nb_machine_switches"])


def test_recorded_conversation(recorded: tuple[Path, list[OracleJob], OracleResult]) -> None:
    folder, jobs, result = recorded
    with gzip.open(folder / "transcript.jsonl.gz", "rt") as file:
        lines = [json.loads(line) for line in file]
    replies = [json.loads(line["message"]) for line in lines if line["from"] == "scheduler"]
    told = [[(e["timestamp"], e["type"], *e["data"].values()) for e in r["events"]] for r in replies if r["events"]]
    mine = []
    for reply in result.replies:
        events = [(reply.now_s, "EXECUTE_JOB", f"w0!{jobs[job].id}", interval_text(c)) for job, c in reply.starts]
        events += [(reply.now_s, "SET_RESOURCE_STATE", interval_text(c), str(p)) for p, c in reply.requests]
        mine.append(events)
    assert mine == told
    assert result.n_exchanges == len(replies) - 1  # without SIMULATION_ENDS


def test_recorded_logs(recorded: tuple[Path, list[OracleJob], OracleResult]) -> None:
    folder, _, result = recorded
    states = [f"{time:g},0,0,0,{idle},{computing}" for time, idle, computing in result.machine_states]
    assert states == (folder / "out_machine_states.csv").read_text().splitlines()[1:]
    changes = []
    for time, pstate, cores in result.pstate_requests:
        changes += [f"{time:g},{interval_text(cores)},-1", f"{time:g},{interval_text(cores)},{pstate}"]
    assert changes == (folder / "out_pstate_changes.csv").read_text().splitlines()[2:]


def test_recorded_over_utilisation(recorded: tuple[Path, list[OracleJob], OracleResult]) -> None:
    folder, _, result = recorded
    told = json.loads((folder / "overutilizations.json").read_text())
    assert result.core_s == told["core"]
    assert result.memory_s == told["mem"]
    mine: dict[str, dict[str, Any]] = {}
    for processor, start, duration in result.bandwidth_spans:
        entry = mine.setdefault(str(processor), {"state": 0, "values": []})
        entry["state"] = int(duration < 0)
        entry["values"].append(start if duration < 0 else [start, duration])
    assert mine == told["mem_bw"]["procs"]


# ------------------------------------------------------------------ worlds solved by hand

FACTORS = {"step": (0.75,), "proportional": contention_model("proportional").speed_factors, "none": ()}


def world(*nodes: tuple[float, list[tuple[int, float, float]]], contention: str = "step") -> OraclePlatform:
    """Nodes of (memory in MiB, processors of (cores, Gflop/s, GB/s)); a core draws 100 W per 1 Gflop/s."""
    node_of: list[int] = []
    processor_of: list[int] = []
    bandwidth, peak = [], []
    for node, (_, processors) in enumerate(nodes):
        for cores, gflops, gbps in processors:
            processor_of += [len(node_of)] * cores
            node_of.append(node)
            bandwidth.append(gbps)
            peak.append(gflops * 1e9)
    first, *more = FACTORS[contention] or (1.0,)
    speed = [[peak[p], peak[p] * first, 0.001, 0.001, *(peak[p] * f for f in more)] for p in processor_of]
    watts = [[peak[p] / 1e7 * f for f in (1.0, 1.0, 0.15, 0.05, *(1.0 for _ in more))] for p in processor_of]
    return OraclePlatform(
        node_of_processor=node_of,
        processor_of_core=processor_of,
        memory_mib=[memory for memory, _ in nodes],
        bandwidth_gbps=bandwidth,
        peak_flops=peak,
        peak_power_w=[p / 1e7 for p in peak],
        speed_flops=speed,
        idle_w=watts,
        epsilon_w=watts,
        full_w=watts,
        message_s=[1e-9] * len(processor_of),
    )


def job(name: int, submit_s: float, cores: int = 1, gflop: float = 10.0, **more: Any) -> OracleJob:
    more.setdefault("requested_time_s", gflop)
    return OracleJob(str(name), submit_s, cores, gflop * 1e9, **more)


def starts(result: OracleResult) -> list[float]:
    return [round(record.start_s, 5) for record in result.records]


def ends(result: OracleResult) -> list[float]:
    return [round(record.end_s, 5) for record in result.records]


ONE_CORE = world((1000.0, [(1, 1.0, 100.0)]))
TWO_CORES = world((1000.0, [(2, 1.0, 10.0)]))


@pytest.mark.parametrize(
    ("contention", "gflop", "expected"),
    [
        ("step", 10.0, [12, 16]),
        ("step", 11.2, [13.6, 17.6]),
        ("proportional", 10.0, [14, 18]),
        ("none", 10.0, [10, 14]),
    ],
)
def test_overlapping_jobs_that_want_more_bandwidth_than_there_is(
    contention: str, gflop: float, expected: list[float]
) -> None:
    platform = world((1000.0, [(2, 1.0, 10.0)]), contention=contention)
    jobs = [job(n, s, gflop=gflop, bandwidth_gbps=8.0) for n, s in enumerate((0.0, 4.0))]
    result = simulate(platform, jobs, "first", "high_gflops", contention=contention)
    assert ends(result) == expected
    ((processor, start, duration),) = result.bandwidth_spans
    assert (processor, start) == (0, 4.0)
    assert duration == pytest.approx(expected[0] - 4.0, abs=1e-6)


def test_the_slowest_core_sets_the_pace() -> None:
    platform = world((1000.0, [(1, 2.0, 10.0), (1, 1.0, 10.0)]))
    result = simulate(platform, [job(0, 0.0, cores=2)], "first", "high_gflops")
    assert ends(result) == [10]


def test_a_core_freed_at_the_date_of_an_arrival_serves_it() -> None:
    result = simulate(ONE_CORE, [job(0, 0.0), job(1, 10.0)], "first", "high_gflops")
    assert starts(result) == [0, 10]
    assert ends(result) == [10, 20]


def test_nothing_overtakes_the_job_chosen_next() -> None:
    jobs = [job(0, 0.0), job(1, 1.0, cores=2), job(2, 2.0, gflop=1.0)]
    assert starts(simulate(TWO_CORES, jobs, "first", "high_gflops")) == [0, 10, 20]
    result = simulate(TWO_CORES, jobs, "shortest", "high_gflops")
    assert starts(result) == [0, 10, 2]
    assert result.core_s == [1.0, 2.0, 3.0]


def test_memory_blocks_although_cores_are_free() -> None:
    jobs = [job(0, 0.0, memory_mib=600.0), job(1, 1.0, memory_mib=600.0)]
    result = simulate(TWO_CORES, jobs, "first", "high_gflops")
    assert starts(result) == [0, 10]
    assert result.memory_s == [1.0]
    assert result.core_s == []


def test_memory_of_a_job_that_spans_nodes_counts_on_each() -> None:
    platform = world((1000.0, [(2, 1.0, 10.0)]), (1000.0, [(2, 1.0, 10.0)]))
    result = simulate(platform, [job(0, 0.0, cores=2, memory_mib=600.0)], "first", "high_gflops")
    assert result.records[0].cores == [0, 2]


@pytest.mark.parametrize(
    ("job_key", "order"),
    [("first", [0, 1, 2, 3]), ("shortest", [0, 2, 3, 1]), ("smallest", [0, 3, 1, 2]), ("low_mem", [0, 1, 3, 2])],
)
def test_order_of_jobs(job_key: str, order: list[int]) -> None:
    jobs = [
        job(0, 0.0, cores=2),
        job(1, 1.0, cores=2, gflop=9.0, memory_mib=1.0),
        job(2, 2.0, cores=2, gflop=3.0, memory_mib=3.0),
        job(3, 3.0, cores=1, gflop=6.0, memory_mib=2.0, bandwidth_gbps=1.0),
    ]
    result = simulate(TWO_CORES, jobs, job_key, "high_gflops")
    assert result.completion_order == order


@pytest.mark.parametrize(
    ("core_key", "compatibility", "core"),
    [
        ("high_gflops", False, 3),
        ("high_cores", False, 4),
        ("high_cores", True, 1),
        ("high_mem", False, 4),
        ("high_mem_bw", False, 3),
        ("low_power", False, 1),
    ],
)
def test_choice_of_a_core(core_key: str, *, compatibility: bool, core: int) -> None:
    """The first job takes core 0 whatever the key, for no other node has its memory."""
    platform = world((1500.0, [(3, 1.0, 10.0)]), (800.0, [(1, 3.0, 20.0)]), (900.0, [(3, 2.0, 15.0)]))
    jobs = [job(0, 0.0, memory_mib=1000.0, bandwidth_gbps=1.0), job(1, 1.0, memory_mib=1.0)]
    result = simulate(platform, jobs, "first", core_key, compatibility=compatibility)
    assert [record.cores for record in result.records] == [[0], [core]]


def test_walltime() -> None:
    jobs = [
        job(0, 0.0, walltime_s=4.0),
        job(1, 20.0, walltime_s=40.0),
        job(2, 40.0, delay_s=5.0, walltime_s=5.0),
        job(3, 60.0, delay_s=5.0, return_code=3),
    ]
    result = simulate(ONE_CORE, jobs, "first", "high_gflops")
    assert ends(result) == [4, 30, 45, 65]
    wall, good, failed = "COMPLETED_WALLTIME_REACHED", "COMPLETED_SUCCESSFULLY", "COMPLETED_FAILED"
    assert [record.state for record in result.records] == [wall, good, wall, failed]


def test_energy() -> None:
    """10 s on one of two cores of 100 W: the other draws 15 W."""
    result = simulate(TWO_CORES, [job(0, 5.0)], "first", "high_gflops")
    assert result.records[0].energy_j == pytest.approx(1000.0, rel=1e-8)
    assert result.consumed_j == pytest.approx(1150.0, rel=1e-8)
    without = simulate(TWO_CORES, [job(0, 5.0)], "first", "high_gflops", energy=False)
    assert (without.records[0].energy_j, without.consumed_j) == (-1.0, 0.0)
    assert ends(without) == ends(result)


def test_sleeping_jobs_draw_what_idle_hosts_draw() -> None:
    platform = world((1000.0, [(1, 1.0, 10.0)]))
    idle = OraclePlatform(**{**vars(platform), "idle_w": [[7.0, 7.0, 3.0, 2.0]]})
    result = simulate(idle, [job(0, 0.0, delay_s=10.0)], "first", "high_gflops")
    assert result.records[0].energy_j == pytest.approx(70.0, rel=1e-6)


def test_date_printed_upwards_is_slept_up_to() -> None:
    """7/3 s is printed 2.333333, down; 8/3 s is printed 2.666667, up: the next job starts then."""
    down = simulate(ONE_CORE, [job(0, 0.0, gflop=7 / 3), job(1, 0.0)], "first", "high_gflops")
    assert 2.3333333 < down.records[1].start_s < 2.3333334
    up = simulate(ONE_CORE, [job(0, 0.0, gflop=8 / 3), job(1, 0.0)], "first", "high_gflops")
    assert up.records[1].start_s == pytest.approx(2.666667, abs=1e-9)


def test_only_real_changes_of_pstates_are_requested() -> None:
    """At 10 s core 0 is freed and taken again: HDeepRM names it once more."""
    jobs = [job(0, 0.0), job(1, 1.0, gflop=30.0), job(2, 2.0)]
    requests = {}
    for compatibility in (False, True):
        result = simulate(TWO_CORES, jobs, "first", "high_gflops", compatibility=compatibility)
        requests[compatibility] = [(round(time), pstate, cores) for time, pstate, cores in result.pstate_requests]
    first = [(0, 0, [0]), (0, 2, [1]), (1, 0, [1])]
    assert requests[False] == [*first, (20, 2, [0]), (31, 3, [0, 1])]
    assert requests[True] == [*first, (10, 0, [0]), (20, 2, [0]), (31, 3, [0, 1])]


def test_span_of_a_core_that_wants_more_than_its_processor_has() -> None:
    """HDeepRM never ends such a span."""
    jobs = [job(0, 0.0, bandwidth_gbps=20.0)]
    right = simulate(TWO_CORES, jobs, "first", "high_gflops")
    assert right.bandwidth_spans[0] == pytest.approx((0, 0.0, 40 / 3), abs=1e-6)
    assert simulate(TWO_CORES, jobs, "first", "high_gflops", compatibility=True).bandwidth_spans == [(0, 0.0, -1.0)]


def test_job_that_never_fits_waits_for_ever() -> None:
    result = simulate(ONE_CORE, [job(0, 0.0, cores=2), job(1, 1.0)], "first", "high_gflops")
    assert [record.state for record in result.records] == ["SUBMITTED", "SUBMITTED"]


def test_random_choices_are_those_of_python() -> None:
    """All wait for the first job; then each end draws the next job, and each start draws from one core."""
    jobs = [job(n, 0.0) for n in range(6)]
    generator = random.Random(42)
    waiting, expected = list(range(6)), []
    while waiting:
        expected.append(generator.choice(waiting))
        waiting.remove(expected[-1])
        generator.choice([0])
        if waiting:
            generator.choice(waiting)  # peeked at, does not fit
    result = simulate(ONE_CORE, jobs, "random", "random", seed=42)
    assert result.completion_order == expected


# ------------------------------------------------------------------ what always holds

job_strategy = st.builds(
    job,
    st.just(0),
    st.integers(0, 40).map(float),
    st.integers(1, 4),
    st.integers(0, 20).map(float),
    memory_mib=st.sampled_from((0.0, 100.0, 400.0)),
    bandwidth_gbps=st.sampled_from((0.0, 4.0, 8.0)),
    walltime_s=st.sampled_from((-1.0, 5.0, 50.0)),
    delay_s=st.sampled_from((None, None, 10.0)),
)
PLANTS = {
    contention: world((1000.0, [(2, 1.0, 10.0), (2, 1.0, 6.0)]), (900.0, [(3, 2.0, 16.0)]), contention=contention)
    for contention in FACTORS
}


def check_schedule(platform: OraclePlatform, jobs: list[OracleJob], result: OracleResult) -> None:
    spans = sorted((r.start_s, r.end_s, i) for i, r in enumerate(result.records))
    for core in range(len(platform.processor_of_core)):
        mine = [(start, end) for start, end, i in spans if core in result.records[i].cores]
        assert all(second[0] >= first[1] - 1e-4 for first, second in pairwise(mine))
    for start, _, _ in spans:
        used: Counter[int] = Counter()
        for other_start, end, i in spans:
            if other_start <= start + 1e-9 and end > start + 1e-4:
                for core in result.records[i].cores:
                    used[platform.node_of_processor[platform.processor_of_core[core]]] += int(jobs[i].memory_mib)
        assert all(used[node] <= memory for node, memory in enumerate(platform.memory_mib))


@settings(max_examples=80, deadline=None)
@given(
    st.lists(job_strategy, min_size=1, max_size=12),
    st.sampled_from(JOB_KEYS),
    st.sampled_from(CORE_KEYS),
    st.sampled_from([("step", True), ("step", False), ("proportional", False), ("none", False)]),
)
def test_schedules_are_sound(drawn: list[OracleJob], job_key: str, core_key: str, mode: tuple[str, bool]) -> None:
    jobs = [OracleJob(**{**vars(one), "id": str(number)}) for number, one in enumerate(drawn)]
    contention, compatibility = mode
    platform = PLANTS[contention]
    result = simulate(platform, jobs, job_key, core_key, contention=contention, compatibility=compatibility, seed=1)
    assert sorted(result.completion_order) == list(range(len(jobs)))
    for one, record in zip(jobs, result.records, strict=True):
        assert len(set(record.cores)) == one.cores
        assert record.start_s >= one.submit_s
        if record.state == "COMPLETED_SUCCESSFULLY" and one.delay_s is None:
            fastest = max(platform.speed_flops[core][0] for core in record.cores)
            assert record.run_s >= one.flops / fastest * (1 - 1e-9)
        assert one.walltime_s < 0 or record.run_s <= one.walltime_s + 1e-9 or record.run_s == 1e-5
    check_schedule(platform, jobs, result)
    again = simulate(platform, jobs, job_key, core_key, contention=contention, compatibility=compatibility, seed=1)
    assert again == result
    if job_key == "first":
        by_arrival = sorted(range(len(jobs)), key=lambda i: jobs[i].submit_s)
        begun = [result.records[i].start_s for i in by_arrival]
        assert begun == sorted(begun)
    if not compatibility:
        assert all(duration >= 0 for _, _, duration in result.bandwidth_spans)


# ------------------------------------------------------------------ adapters


def small_platform(message_latency_s: float = 0.0) -> Platform:
    """The two cores of the other tests."""
    ints = {"node_of_processor": [0], "processor_of_core": [0, 0], "cluster_of_node": [0], "initial_pstate": [3, 3]}
    ints |= {"first_core_of_processor": [0, 2], "first_processor_of_node": [0, 1], "host_cores": [1, 1]}
    floats = ["memory_mib", "bandwidth_gbps", "peak_flops", "peak_power_w"]
    floats += ["speed_flops", "idle_w", "epsilon_w", "full_w"]
    parts: dict[str, Any] = {name: np.array(values, dtype=np.int32) for name, values in ints.items()}
    parts |= {name: np.array(getattr(TWO_CORES, name)) for name in floats}
    return Platform(
        name="small",
        clusters=(),
        global_link=None,
        rules=pstate_rules(),
        core_names=("a", "b"),
        message_s=np.full(2, 1e-9),
        message_latency_s=np.full(2, message_latency_s),
        **parts,
    )


def small_workload(*steps: tuple[int, float, int]) -> Workload:
    """One job for each step, of 2 cores."""
    jobs = np.zeros(len(steps), dtype=JOB_DTYPE)
    jobs["cores"], jobs["walltime_s"], jobs["requested_time_s"], jobs["memory_mib"] = 2, -1.0, 7.0, 5.0
    jobs["submit_s"] = np.arange(len(steps)) * 100.0
    jobs["profile"] = np.arange(len(steps))
    names = tuple(str(i) for i in range(len(steps)))
    return Workload("small", jobs, names, np.array(list(steps), dtype=STEP_DTYPE), np.arange(len(steps) + 1), names)


def test_adapters() -> None:
    platform = OraclePlatform.from_arrays(small_platform())
    assert platform == TWO_CORES
    workload = small_workload((StepKind.COMPUTE, 1e10, 0), (StepKind.COMPUTE_TOTAL, 1e10, 0), (StepKind.DELAY, 3.0, 1))
    jobs = jobs_from(workload)
    assert [(one.id, one.requested_time_s, one.memory_mib) for one in jobs] == [(str(i), 7.0, 5.0) for i in range(3)]
    assert ends(simulate(platform, jobs, "first", "high_gflops")) == [10, 105, 203]


def test_adapters_refuse_what_the_oracle_does_not_know() -> None:
    with pytest.raises(ValueError, match="latencies"):
        OraclePlatform.from_arrays(small_platform(message_latency_s=1e-6))
    with pytest.raises(ValueError, match="one step"):
        jobs_from(small_workload((StepKind.RETURN, 0.0, 1)))
