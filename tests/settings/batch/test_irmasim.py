"""IRMaSim's files, its contention model and the numbers that it has published."""

from __future__ import annotations

import copy
import itertools
import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import hdrl
from hdrl.base.errors import HdrlError, OptionsError, PlatformError, ReadError
from hdrl.batch import Duplex, MaxMin, MinMin, policy_names
from hdrl.experiment.run.inputs import parse_options
from hdrl.launcher.launch import launch
from hdrl.settings.batch.envs.machines import unpoolable_reason
from hdrl.settings.batch.envs.policy_pair_arguments import pstate_shares
from hdrl.settings.batch.kernel.dtypes import CURVE_DTYPE
from hdrl.settings.batch.kernel.energy import pace_on_curve
from hdrl.settings.batch.platform import build_platform, describe_platform, pstate_rules, read_platform, write_simgrid
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.platform.pstates import FREE, IDLE
from hdrl.settings.batch.report.gantt import platform_of
from hdrl.settings.batch.report.runs import read_run
from hdrl.settings.batch.workload import Workload, read_workload
from hdrl.testing import JobSpec, Node, Processor, small_platform, small_workload

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
CURVES = pstate_rules("modelV1")


def example(name: str, compatibility: str | None = None) -> tuple[Platform, Workload]:
    folder = EXPERIMENTS / f"irmasim-{name}"
    nodes = {"save": "two_nodes.json", "spread": "eight_nodes.json"}[name]
    platform = read_platform(folder / nodes, rules=pstate_rules("modelV1", compatibility=compatibility))
    return platform, read_workload(folder / "eight_jobs.json", platform)


# ------------------------------------------------------------------ its published numbers, and its model


@pytest.mark.parametrize(
    ("name", "pair", "makespan_s", "energy_j"),
    [
        # Two nodes: those with more digits are from its README, the others from the text there.
        ("save", "first-high_gflops", 35.34243583528412, 985.6822291088713),
        ("save", "first-low_power", 39.21, 834.45),
        ("spread", "first-high_gflops", 14.75, 837.53),
        ("spread", "first-high_cores", 5.32, 492.97),
    ],
)
def test_its_examples_give_its_numbers(name: str, pair: str, makespan_s: float, energy_j: float):
    trace = hdrl.simulate(*example(name, "irmasim"), pair, compatibility="irmasim")
    found = hdrl.compute_metrics(trace)
    digits = 8 if makespan_s == 35.34243583528412 else 2
    assert found["makespan_s"] == pytest.approx(makespan_s, abs=0.6 * 10**-digits)
    # It prints 834.45 of 834.455.
    assert found["energy_j"] == pytest.approx(energy_j, abs=0.6 * 10 ** -min(digits, 5))


def test_processors_without_a_job_are_charged_for_unless_its_numbers_are_wanted():
    (platform, workload), pair = example("spread"), "first-high_gflops"
    right = hdrl.compute_metrics(hdrl.simulate(platform, workload, pair))
    as_there = hdrl.compute_metrics(hdrl.simulate(*example("spread", "irmasim"), pair, compatibility="irmasim"))
    # Six of eight nodes are never used, one from 0.04 s on.
    unused_w = 0.05 * 6.14211
    missing_j = unused_w * (6 * right["makespan_s"] + 0.04)
    assert right["energy_j"] - as_there["energy_j"] == pytest.approx(missing_j, rel=1e-6)
    assert right["makespan_s"] == as_there["makespan_s"]


def share(curve: np.ndarray[Any, Any], total: float, own: float, others: int) -> float:
    """Return the speed of a core by the cases of the model, as IRMaSim's paper and code have them."""
    b, c, da, db, dc, dd = curve
    t = (own - (da - others) * db) / (dc - others * dd)
    smooth = 1.0 if t < 0 else 0.0 if t > 1 else 1 - t**3 * (t * (t * 6 - 15) + 10)
    least = smooth * (others * 0.6 / (1 + others * 0.6)) + 1 / (1 + others * 0.6)
    if total < c:
        return 1.0
    return least if total > (least + b * c - 1) / b else b * (total - c) + 1


def test_every_job_does_its_work_at_the_speeds_of_the_model():
    rng = hdrl.base.seeding.stream(3, "irmasim test")
    platform, _ = example("save")
    n_jobs, reference = 60, platform.reference_gflops
    jobs = [
        JobSpec(float(at), gflop=float(work), bandwidth_gbps=float(gbps))
        for at, work, gbps in zip(
            np.cumsum(rng.exponential(0.6, n_jobs)),
            rng.uniform(1, 12, n_jobs),
            rng.choice([0.5, 4, 9, 14, 40], n_jobs),
            strict=True,
        )
    ]
    trace = hdrl.simulate(platform, small_workload(*jobs), "first-high_mem_bw")
    start_s = trace.records["start_s"]
    end_s = start_s + trace.records["run_s"]
    core = np.array([trace.cores_of(job)[0] for job in range(n_jobs)])
    processor = platform.processor_of_core[core]
    speed_gflops = platform.peak_flops[processor] / 1e9
    demand = np.array([job.bandwidth_gbps for job in jobs]) * 1000 * speed_gflops / reference
    dates = np.unique(np.concatenate([start_s, end_s]))
    done, shares = np.zeros(n_jobs), set()
    for begin, end in itertools.pairwise(dates):
        running = np.flatnonzero((start_s < end) & (end_s > begin))
        for job in running:
            beside = running[processor[running] == processor[job]]
            pace = share(platform.curves[processor[job]], demand[beside].sum(), demand[job], len(beside) - 1)
            shares.add(round(pace, 3))
            done[job] += pace * speed_gflops[job] * (end - begin)
    assert done == pytest.approx([job.gflop for job in jobs], rel=1e-6)
    assert len(shares) > 20, "free, straight and smooth parts of the curves are met"
    assert 1.0 in shares


# ------------------------------------------------------------------ modelV2

FIT = {
    **{"aaa": 0.5, "aab": -2.0, "aba": 3.0, "abb": -40.0, "baa": -0.01, "bab": 0.02, "bba": -0.001, "bbb": 1.0},
    **{"caa": 0.2, "cab": -0.9, "cba": -0.05, "cbb": 0.2, "cca": -0.01, "ccb": 0.7},
    **{"daa": 0.01, "dab": 0.1, "dba": 0.005, "dbb": 0.2},
    **{"pidle": 3.0, "p00": 10.0, "p01": 4.0, "p02": -0.1, "p10": 6.0, "p11": -0.5, "p20": -0.3},
}
NODES_V2 = {
    "platform": {
        "p": {"model_name": "modelV2", "clusters": [{"nodes": [{"type": "fast"}, {"type": "slow", "number": 2}]}]}
    },
    "node": {
        "fast": {"id": "fast", "cores": 4, "clock_rate": 3.4, **FIT},
        "slow": {"id": "slow", "cores": 3, "clock_rate": 1.7, **FIT, "pidle": 1.0, "memory": {"capacity": 8}},
    },
}


def by_fit(total: float, own: float, n: int) -> float:
    """Return the speed of a task beside n others, term by term as IRMaSim's code has them."""
    f = FIT
    a = (f["abb"] + n * f["aba"]) + own * (f["aab"] + n * f["aaa"])
    b = (f["bbb"] + n * f["bba"]) + own * (f["bab"] + n * f["baa"])
    c = (f["ccb"] + n * f["cca"]) + own * (f["cbb"] + n * f["cba"]) + own**2 * (f["cab"] + n * f["caa"])
    d = (f["dbb"] + n * f["dba"]) + own * (f["dab"] + n * f["daa"])
    return b + (c - b) * math.exp(-math.exp(a * (total - d)))


def watts(pidle: float, total: float, n: int) -> float:
    f = FIT
    by_tasks = f["p00"] + f["p01"] * n + f["p02"] * n**2
    return pidle if n == 0 else by_tasks + f["p10"] * total + f["p20"] * total**2 + f["p11"] * total * n


def test_work_and_energy_are_those_of_the_fits(tmp_path: Path):
    rng = hdrl.base.seeding.stream(4, "irmasim test")
    platform = read(tmp_path, NODES_V2, rules=pstate_rules("modelV2"))
    n_jobs, reference = 60, platform.reference_gflops
    at, work, gbps = np.cumsum(rng.exponential(0.5, n_jobs)), rng.uniform(1, 12, n_jobs), rng.uniform(0, 0.2, n_jobs)
    jobs = [
        JobSpec(*one[:1], gflop=one[1], bandwidth_gbps=one[2]) for one in np.stack([at, work, gbps], axis=1).tolist()
    ]
    trace = hdrl.simulate(platform, small_workload(*jobs), "first-first")
    start_s, core = trace.records["start_s"], np.array([trace.cores_of(job)[0] for job in range(n_jobs)])
    end_s, node = start_s + trace.records["run_s"], platform.processor_of_core[core]
    speed_gflops = platform.peak_flops[node] / 1e9
    demand = gbps * speed_gflops / reference
    done, paces, energy_j = np.zeros(n_jobs), set(), 0.0
    dates = np.unique(np.concatenate([start_s, end_s]))
    for begin, end in itertools.pairwise([at[0], *dates]):
        running = np.flatnonzero((start_s < end) & (end_s > begin))
        for job in running:
            beside = running[node[running] == node[job]]
            pace = by_fit(demand[beside].sum(), demand[job], len(beside) - 1)
            paces.add(round(pace, 2))
            done[job] += pace * speed_gflops[job] * (end - begin)
        for which, pidle in enumerate((3.0, 1.0, 1.0)):
            here = running[node[running] == which]
            energy_j += watts(pidle, demand[here].sum(), len(here)) * (end - begin)
    assert done == pytest.approx(work, rel=1e-6)
    assert hdrl.compute_metrics(trace)["energy_j"] == pytest.approx(energy_j, rel=1e-6)
    assert np.nansum(trace.host_energy_j) == pytest.approx(energy_j + at[0] * 5.0, rel=1e-6), "and of single hosts"
    assert len(paces) > 15


def test_fits_are_cut_where_they_make_no_sense(tmp_path: Path):
    content = copy.deepcopy(NODES_V2)
    content["node"]["fast"] |= {"cbb": -50.0, "p10": -500.0}
    content["node"]["slow"] |= {"abb": 4000.0, "dbb": 0.01}
    platform = read(tmp_path, content, rules=pstate_rules("modelV2"))
    jobs = [JobSpec(gflop=0.034, bandwidth_gbps=1.0) for _ in range(6)]
    trace = hdrl.simulate(platform, small_workload(*jobs), "first-first")
    assert trace.records["run_s"].max() == pytest.approx(10.0, rel=0.1), "a thousandth of the peak"
    assert hdrl.compute_metrics(trace)["energy_j"] > 0


def test_its_last_version_takes_off_nine_tenths_of_what_is_lost(tmp_path: Path):
    job = small_workload(JobSpec(gflop=3.4, bandwidth_gbps=0.3))
    runs_s = []
    for mode in (None, "irmasim"):
        platform = read(tmp_path, NODES_V2, rules=pstate_rules("modelV2", compatibility=mode))
        runs_s.append(float(hdrl.simulate(platform, job, "first-first", compatibility=mode).records["run_s"][0]))
    own = 0.3 * 3.4 / platform.reference_gflops
    high = FIT["bbb"] + own * FIT["bab"]
    pace = by_fit(own, own, 0)
    assert [1 / run_s for run_s in runs_s] == pytest.approx([pace, high + 0.9 * (pace - high)], rel=1e-5)


def test_nodes_of_a_fit_come_back(tmp_path: Path):
    rules = pstate_rules("modelV2")
    platform = read(tmp_path, NODES_V2, rules=rules)
    assert (platform.n_nodes, platform.n_cores, platform.memory_mib.tolist()[1:]) == (3, 10, [8192, 8192])
    assert build_platform(describe_platform(platform), name="p", rules=rules) == platform
    assert platform.peak_power_w[0] * 4 == pytest.approx(10 + 4 * 4 - 0.1 * 16)
    assert "slow each other down by fits" in (unpoolable_reason(small_nodes(tmp_path), small_workload(JobSpec())) or "")
    older = {"platform": {"p": {"clusters": [{"nodes": [{"type": "n"}]}]}}, "node": TYPES["node"]}
    older["processor"] = {"p": {"cores": 4, "clock_rate": 1.7, "dpflops_per_cycle": 1, "profile_version": 2, **FIT}}
    assert read(tmp_path, older, rules=rules).is_fitted, "fits of processors, as in its older files"
    with pytest.raises(PlatformError, match=r"'p' has no aaa \.\.\. p20, which contention 'modelV2' needs"):
        read(tmp_path, {"platform": TWO, **TYPES}, "#one", rules=rules)
    del content_of(older)["p11"]
    with pytest.raises(PlatformError, match="p11 is missing, aaa to dbb, pidle and p00 to p20 belong together"):
        read(tmp_path, older, rules=rules)
    content_of(older).update(p11=0, pidle=-1)
    with pytest.raises(PlatformError, match="pidle is -1, expected at least 0"):
        read(tmp_path, older, rules=rules)


def content_of(platform: dict[str, Any]) -> dict[str, Any]:
    return platform["processor"]["p"]


def small_nodes(tmp_path: Path) -> Platform:
    content = {**NODES_V2, "platform": {"p": {"clusters": [{"nodes": [{"type": "slow"}]}]}}}
    return read(tmp_path, content, rules=pstate_rules("modelV2"))


def test_options_follow_the_model_of_the_platform(tmp_path: Path):
    (tmp_path / "p.json").write_text(json.dumps(NODES_V2))
    assert options(tmp_path, {"type": "NodeWM"}, platform_name="p").contention == "modelV2"
    assert options(tmp_path, {"type": "NodeWM"}, platform_name="q").contention == "modelV1", "told by the platform"
    for file in ("p.json", "p.json#p"):
        assert options(tmp_path, platform_file=file, platform_name=None).contention == "modelV2", file


# ------------------------------------------------------------------ machines


def test_what_else_knows_machines_knows_curves(tmp_path: Path):
    platform, workload = example("spread")
    assert "slow each other down" in (unpoolable_reason(platform, workload) or "")
    assert unpoolable_reason(platform, small_workload(JobSpec(bandwidth_gbps=7.9))) is None
    with pytest.raises(PlatformError, match="expected simulator 'embedded', or another contention"):
        write_simgrid(platform, tmp_path / "platform.xml")
    with pytest.raises(PlatformError, match="expected simulator 'embedded'"):
        hdrl.simulate(platform, workload, "first-high_cores", simulator="exact")
    power = pstate_shares(platform)[1]
    serving_w = 5.59316 + 6.14211 / 4
    assert power[[FREE, IDLE]] == pytest.approx([6.14211 / 4 / serving_w, 0.05 * 6.14211 / 4 / serving_w])


# ------------------------------------------------------------------ platforms

TYPES: dict[str, Any] = {
    "node": {"n": {"processors": [{"type": "p", "number": 2}]}},
    "processor": {
        "p": {
            **{"cores": 4, "clock_rate": 2.0, "dpflops_per_cycle": 4, "power": 100, "llc_size": 8, "id": "x"},
            **{"static_power": 8, "dynamic_power": 3, "min_power": 0.5},
            **{"b": -1e-5, "c": 30000, "da": 1.5, "db": 2000, "dc": 50000, "dd": 6000},
        }
    },
}
TWO = {
    "one": {"id": "one", "clusters": [{"nodes": [{"type": "n"}]}], "model_name": "modelV1"},
    "many": {"clusters": [{"nodes": [{"type": "n", "number": 3}], "number": 2}]},
}


def read(tmp_path: Path, content: object, name: str = "", **choices: Any) -> Platform:
    path = tmp_path / "p.json"
    path.write_text(json.dumps(content))
    return read_platform(f"{path}{name}", **choices)


def test_a_file_may_hold_several_platforms(tmp_path: Path):
    content = {"platform": TWO, **TYPES}
    one, many = (read(tmp_path, content, f"#{name}", rules=CURVES) for name in TWO)
    assert (one.name, one.n_nodes, one.n_cores) == ("one", 1, 8)
    assert (many.name, many.n_nodes, [cluster.id for cluster in many.clusters]) == (
        "many",
        6,
        ["cluster0.0", "cluster1.1"],
    )
    # Static power is shared by the cores; what the file calls "power" is not looked at.
    assert one.full_w[0, [0, FREE, IDLE]] == pytest.approx([3 + 2, 2, 1])
    assert one.bandwidth_gbps.tolist() == [30.0, 30.0]
    assert one.curves.tolist() == [[-1e-5, 30000, 1.5, 2000, 50000, 6000]] * 2
    assert read(tmp_path, {"platform": {"one": TWO["one"]}, **TYPES}, rules=CURVES).sha256() == one.sha256()


def test_what_a_platform_says_comes_back(tmp_path: Path):
    platform = read(tmp_path, {"platform": TWO, **TYPES}, "#one", rules=CURVES)
    assert build_platform(describe_platform(platform), name="one", rules=CURVES) == platform


CURVE = {"b": -1e-5, "c": 30000, "da": 1.5, "db": 2000, "dc": 50000, "dd": 6000}
WHOLE = {
    "platform": {"a": {"model_name": "modelV1_1", "clusters": [{"nodes": [{"type": "n", "number": 2}]}]}},
    "node": {
        "n": {"cores": 4, "clock_rate": 2.0, "static_power": 8, "dynamic_power": 3, "min_power": 0.5, **CURVE},
    },
}


def test_nodes_of_model_v1_1_are_those_of_model_v1_as_a_whole(tmp_path: Path):
    platform = read(tmp_path, WHOLE, rules=CURVES)
    one = {**WHOLE["node"]["n"], "dpflops_per_cycle": 1, "min_power": 0.5 / 8}
    apart = {"node": {"n": {"processors": [{"type": "p"}]}}, "processor": {"p": one}}
    clusters = WHOLE["platform"]["a"]["clusters"]
    other = read(tmp_path, {"platform": {"a": {"clusters": clusters}}, **apart}, rules=CURVES)
    for name in ("full_w", "curves", "peak_flops", "first_core_of_processor"):
        assert getattr(platform, name).tolist() == getattr(other, name).tolist(), name
    # 2 s on a core of 2 Gop/s: 8 W and 3 W there, half a watt on the other node.
    found = hdrl.compute_metrics(hdrl.simulate(platform, small_workload(JobSpec(gflop=4.0)), "first-first"))
    assert found["energy_j"] == pytest.approx(2 * (8 + 3) + 2 * 0.5, rel=1e-6)
    (tmp_path / "p.json").write_text(json.dumps(WHOLE))
    assert options(tmp_path, {"type": "NodeWM"}, platform_name="a").contention == "modelV1"


@pytest.mark.parametrize(
    ("node", "says"),
    [
        ({"min_power": 9}, "node.n.min_power is 9, expected W of the node without a task: 0 to its static_power, 8"),
        ({"min_power": None}, "min_power"),
        ({"cores": None}, "node.n.cores is missing, which modelV1_1 needs instead of processors"),
    ],
)
def test_mistakes_in_nodes_of_model_v1_1_are_a_line(tmp_path: Path, node: dict[str, Any], says: str):
    content = copy.deepcopy(WHOLE)
    content["node"]["n"] |= node
    if node.get("cores", 1) is None:
        del content["node"]["n"]["cores"]
        content["node"]["n"]["processors"] = []
    with pytest.raises(PlatformError, match=says) as error:
        read(tmp_path, content, rules=CURVES)
    assert "\n" not in str(error.value)


def test_platforms_without_curves_have_the_hash_that_they_always_had():
    assert read_platform("learning").sha256().startswith("6d3f5dc30891d9da")


def without(key: str) -> dict[str, Any]:
    content = copy.deepcopy({"platform": TWO, **TYPES})
    del content["processor"]["p"][key]
    return content


def with_value(key: str, value: object) -> dict[str, Any]:
    content = copy.deepcopy({"platform": TWO, **TYPES})
    content["processor"]["p"][key] = value
    return content


@pytest.mark.parametrize(
    ("content", "name", "says"),
    [
        ({"platform": TWO, **TYPES}, "", "holds 2 platforms, expected #NAME after the file"),
        ({"platform": TWO, **TYPES}, "#on", "no platform 'on'; did you mean 'one'"),
        ({"platform": TWO, "nodes": {}}, "#one", "unknown key 'nodes'"),
        (
            {"platform": {"a": {**TWO["one"], "model_name": "modelV1_2"}}, **TYPES},
            "",
            "model_name is 'modelV1_2'; did you mean 'modelV1_1'",
        ),
        ({"platform": {"a": {}}, **TYPES}, "", "platform.a.clusters is missing, expected a list"),
        (with_value("static_power", 10**400), "#one", "static_power is a number of more than 100 digits"),
        (with_value("c", 10**400), "#one", "c is a number of more than 100 digits"),
        (without("dd"), "#one", "dd is missing, b, c, da, db, dc, dd belong together"),
        (without("min_power"), "#one", "min_power is missing, static_power, dynamic_power, min_power belong together"),
    ],
)
def test_mistakes_in_platforms_are_a_line(tmp_path: Path, content: object, name: str, says: str):
    with pytest.raises(PlatformError, match=says) as error:
        read(tmp_path, content, name, rules=CURVES)
    assert "\n" not in str(error.value)


def test_a_model_of_curves_needs_curves(tmp_path: Path):
    with pytest.raises(PlatformError, match="has no b, c, da, db, dc, dd, which contention 'modelV1' needs"):
        small_platform(Node((Processor(2, 1.0),)), contention="modelV1")
    flat = copy.deepcopy({"platform": {"a": TWO["one"]}, **TYPES})
    flat["processor"]["p"]["dc"] = 18000  # which only as many tasks as cores use up
    assert read(tmp_path, flat, rules=CURVES).curves[0, 4] == 18000
    with pytest.raises(PlatformError, match="holds one platform, expected no #x after the file"):
        read(tmp_path, describe_platform(read_platform("learning")), "#x")


# ------------------------------------------------------------------ workloads

JOBS = [
    {"subtime": 0, "res": 2, "profile": "A"},
    {
        "id": "b",
        "subtime": 1.5,
        "ntasks": 3,
        "nodes": 1,
        "req_ops": 4e9,
        "ipc": 2,
        "req_time": 7,
        "mem": 5,
        "mem_vol": 0,
    },
    {"subtime": 2, "nodes": 2, "ntasks_per_node": 3, "req_ops": 10},
]
PROFILES = {"A": {"req_ops": 21e9, "ipc": 1, "req_time": 5, "mem": 1000, "mem_vol": 1e6}}


def read_jobs(tmp_path: Path, content: object, platform: Platform | None = None) -> Workload:
    path = tmp_path / "w.json"
    path.write_text(json.dumps(content))
    return read_workload(path, platform)


def test_jobs_are_read_in_every_form(tmp_path: Path):
    platform, _ = example("spread")
    workload = read_jobs(tmp_path, {"nb_res": 16, "jobs": JOBS, "profiles": PROFILES}, platform)
    jobs = workload.jobs
    assert workload.job_ids == ("job0", "b", "job2")
    assert jobs["cores"].tolist() == [2, 3, 6]
    assert workload.steps["amount"].tolist() == [21e9, 2e9, 10]
    assert workload.nodes is not None
    assert workload.nodes.tolist() == [1, 1, 2]
    assert workload.requested_energy_j is None
    asked = [{**job, "req_energy": 5 + position} for position, job in enumerate(JOBS)]
    profiles = {"A": {**PROFILES["A"], "req_energy": 50}}
    workload = read_jobs(tmp_path, {"jobs": asked, "profiles": profiles}, platform)
    assert workload.requested_energy_j is not None
    assert workload.requested_energy_j.tolist() == [50, 6, 7]
    assert workload.take(np.array([2])).requested_energy_j.tolist() == [7]
    assert jobs["requested_time_s"].tolist() == [5, 7, -1]
    assert jobs["memory_mib"].tolist() == [1000, 5, 0]
    # 1 TB in the 5.25 s that the operations take at the mean speed of 4 Gflop/s
    assert jobs["bandwidth_gbps"] == pytest.approx([1000 / 5.25, 0, 0])


def test_tables_are_read(tmp_path: Path):
    path = tmp_path / "w.csv"
    path.write_text(
        "id,subtime,nodes,ntasks,req_time,req_ops,application\njob_0,3,1,1,12,120000000000,ep\nb,4.5,1,4,16,7,ua\n"
    )
    workload = read_workload(path)
    assert workload.job_ids == ("job_0", "b")
    assert workload.jobs["submit_s"].tolist() == [3, 4.5]
    assert workload.jobs["cores"].tolist() == [1, 4]
    assert workload.nodes.tolist() == [1, 1]
    path.write_text("subtime,ntasks,ntasks_per_node,req_ops\n0,5,2,7\n")
    assert read_workload(path).nodes.tolist() == [3], "as many nodes as tasks need"
    path.write_text("subtime,ntasks,req_ops\n0,5,7\n")
    assert read_workload(path).nodes.tolist() == [5], "one task on each node"
    path.write_text("id,subtime\n")
    with pytest.raises(ReadError, match="holds no jobs"):
        read_workload(path)


@pytest.mark.parametrize(
    ("job", "says"),
    [
        ({"res": 2, "ntasks": 2, "req_ops": 1, "ipc": 1}, "'res' and 'ntasks' are given, expected one of the two"),
        ({"req_ops": 1, "ipc": 1}, "has no 'res', 'ntasks' or 'nodes'"),
        ({"ntasks": 9, "nodes": 2, "ntasks_per_node": 4, "req_ops": 1}, "9 tasks do not fit on 2 nodes of 4"),
        ({"res": 0, "req_ops": 1}, "'res' is 0, expected a whole number of at least 1"),
        ({"res": 1, "req_ops": -1}, "'req_ops' is -1, expected a number from 0"),
        ({"res": 1, "req_ops": 1, "ipc": 0}, "'ipc' is 0, expected a number above 0"),
        ({"res": 1, "req_ops": 1, "mem_vol": 3}, "a platform is needed to turn its 'mem_vol' into bandwidths"),
    ],
)
def test_mistakes_in_jobs_are_a_line(tmp_path: Path, job: dict[str, Any], says: str):
    with pytest.raises(HdrlError, match=says):
        read_jobs(tmp_path, {"jobs": [{"subtime": 0, **job}]})


# ------------------------------------------------------------------ options

LEARNS = {
    "type": "Policy",
    "environment": {
        "objective": "makespan",
        "queue_sensitivity": 0.5,
        "actions": {"selection": [{"first": ["low_power", "high_mem"]}]},
    },
    "agent": {"name": "ActorCritic", "gamma": 0.9, "lr": 0.5, "hidden": 16, "phase": "train"},
}


def options(tmp_path: Path, manager: dict[str, Any] | None = None, **more: Any) -> Any:
    data = {"log_level": "DEBUG", "output_dir": "there", "env": {"objective": "nothing"}}
    data |= {"seed": 3, "platform_file": "p.json", "platform_name": "one", "workload_file": "w.json", **more}
    return parse_options(data if manager is None else {**data, "workload_manager": manager}, folder=tmp_path)


@pytest.mark.parametrize(
    ("manager", "policy"),
    [
        (None, "first-first"),
        ({"type": "NodeWM"}, "first-first"),
        ({"type": "Minimal"}, "first-first"),
        ({"type": "Heuristic"}, "first-node_first"),
        (
            {"type": "Heuristic", "job_selection": "longest", "resource_selection": "low_cores"},
            "longest-node_low_cores",
        ),
        ({"type": "Backfill", "resource_selection": "low_power"}, "fcfs+easy-node_low_power"),
        ({"type": "EnergyHeuristic"}, "energy_lowest+skip-node_energy_lowest"),
        (
            {"type": "EnergyHeuristic", "metric": "timetasks", "job_selection": "highest"},
            "timetasks_highest+skip-node_energy_lowest",
        ),
        ({"type": "HBackfill"}, "fcfs+hbackfill_first-node_first"),
        ({"type": "HBackfill", "node_selection": "low_power"}, "fcfs+hbackfill_first-node_low_power"),
        (
            {"type": "HBackfillR", "job_selection": "narrowest", "resource_selection": "edp_lowest"},
            "fcfs+hbackfillr_smallest-node_edp_lowest",
        ),
        ({"type": "BackfillFit"}, "fcfs+backfillfit_time_best-node_first"),
        ({"type": "BackfillFit", "metric": "core", "fit_criteria": "worst"}, "fcfs+backfillfit_core_worst-node_first"),
        ({"type": "BackfillBestFit", "resource_selection": "random"}, "fcfs+backfillbestfit-node_random"),
        ({"type": "Duplex"}, "duplex"),
        ({"type": "Duplex", "scheduling_option": "max_min"}, "max_min"),
        ({**LEARNS, "environment": {"actions": {"selection": [{"first": ["high_mem"]}]}}}, "first-high_mem"),
    ],
)
def test_each_manager_is_a_policy(tmp_path: Path, manager: dict[str, Any] | None, policy: str):
    read = options(tmp_path, manager)
    assert (read.agent_type, read.policy(), read.contention) == ("CLASSIC", policy, "modelV1")
    assert read.platform_file_path == "p.json#one"


@pytest.mark.parametrize(
    ("manager", "says"),
    [
        ({"type": []}, "workload_manager.type is a list"),
        (
            {"type": "HBackfill", "job_selection": ["first"]},
            "workload_manager.job_selection is a list",
        ),
        ({"type": "Heuristic", "resource_selection": {}}, "workload_manager.resource_selection is an object"),
        ({**LEARNS, "agent": {"name": {}}}, "workload_manager.agent.name is an object"),
        ({**LEARNS, "agent": {"phase": []}}, "workload_manager.agent.phase is a list"),
    ],
)
def test_words_that_are_none_are_told(tmp_path: Path, manager: dict[str, Any], says: str):
    with pytest.raises(OptionsError, match=says):
        options(tmp_path, manager)


def test_counts_have_a_bound(tmp_path: Path):
    with pytest.raises(OptionsError, match="nbtrajectories is '999"):
        options(tmp_path, LEARNS, nbtrajectories="9" * 5000)


def test_its_agent_learns(tmp_path: Path):
    read = options(tmp_path, LEARNS, nbtrajectories="4", runs=2)
    env, agent = read.pybatsim.env, read.pybatsim.agent
    assert (env.observation, env.actions.pairs(), env.actions.void) == (
        "minimal",
        ["first-low_power", "first-high_mem"],
        False,
    )
    assert (read.agent_type, agent.run, agent.lr, agent.hidden, agent.gamma) == ("LEARNING", "train", 0.5, 16, 0.9)
    assert (read.learning.algorithm, read.learning.n_envs, read.runs) == ("hdeeprm_actor_critic", 4, 2)
    assert read.learning.episodes.n_jobs is None
    assert options(tmp_path, {**LEARNS, "agent": {"phase": "eval"}}).pybatsim.agent.run == "test"


def test_trajectories_are_fixed_or_drawn(tmp_path: Path):
    fixed = options(tmp_path, LEARNS, trajectory_length="3", trajectory_origin=2).learning.episodes
    assert (fixed.n_jobs, fixed.start, fixed.train) == (3, 2, (0.0, 1.0))
    (tmp_path / "w.json").write_text(json.dumps({"jobs": [{}] * 7}))
    drawn = options(tmp_path, LEARNS, trajectory_length="random", trajectory_origin="random").learning.episodes
    assert (drawn.n_jobs, drawn.start) == ((1, 7), "random")
    classic = options(tmp_path, trajectory_length="3", trajectory_origin="2")
    assert (classic.nb_jobs, classic.workload.start) == (3, 2)
    both = {"trajectory_length": 3, "trajectory_origin": "random"}
    starts = {options(tmp_path, **both, seed=n).workload.start for n in range(40)}
    assert starts == {0, 1, 2, 3, 4}
    again = [options(tmp_path, **both, seed=7) for _ in range(2)]
    assert again[0].workload.start == again[1].workload.start
    lengths = {options(tmp_path, trajectory_length="random", seed=n).nb_jobs for n in range(80)}
    assert lengths == {1, 2, 3, 4, 5, 6, 7}


@pytest.mark.parametrize(
    ("manager", "more", "says"),
    [
        ({"type": "NodeWn"}, {}, "workload_manager.type is 'NodeWn', .* did you mean 'NodeWM'"),
        (
            {"type": "Heuristic", "job_selecton": "shortest"},
            {},
            "workload_manager has no key 'job_selecton'; did you mean 'job_selection'",
        ),
        ({"type": "BackfillMPI"}, {}, "'BackfillMPI', which no version of IRMaSim can start: .* nearest: HBackfillR"),
        ({"type": "HBackfillV1_1"}, {}, "a copy of another for modelV1_1 .* nearest: HBackfill"),
        ({"type": "Pareto"}, {}, "which needs IRMaSim's search through all orders of jobs; nearest: Duplex"),
        ({"type": "Action"}, {}, "with an agent of its own; nearest: Policy"),
        ({"type": "BackfillFit", "metric": "cores"}, {}, "workload_manager.metric is 'cores'; did you mean 'core'"),
        ({"type": "BackfillFit", "fit_criteria": "bad"}, {}, "fit_criteria is 'bad'; known: best, worst"),
        ({"type": "EnergyHeuristic", "metric": "ed"}, {}, "workload_manager.metric is 'ed'; did you mean 'edp'"),
        (
            {"type": "Duplex", "scheduling_option": "min"},
            {},
            "scheduling_option is 'min'; known: duplex, max_min, min_min",
        ),
        ({**LEARNS, "agent": {"name": "PPO"}}, {}, "workload_manager.agent.name is 'PPO'; known: ActorCritic"),
        ({**LEARNS, "agent": {"phase": "test"}}, {}, "workload_manager.agent.phase is 'test'"),
        (LEARNS, {"trajectory_origin": "random"}, "expected a trajectory_length, too"),
        (LEARNS, {"nbtrajectories": "some"}, "nbtrajectories is 'some', expected a number"),
        (None, {"trajectory_origin": "some"}, "trajectory_origin is 'some', expected a number or 'random'"),
        (None, {"workload_fiel": 1}, "the file has no key 'workload_fiel'"),
    ],
)
def test_mistakes_in_options_are_a_line(tmp_path: Path, manager: Any, more: dict[str, Any], says: str):
    with pytest.raises(OptionsError, match=says):
        options(tmp_path, manager, **more)


def test_launching_its_options_needs_no_change(tmp_path: Path):
    for file in ("low_power.json", "two_nodes.json", "eight_jobs.json"):
        shutil.copy(EXPERIMENTS / "irmasim-save" / file, tmp_path)
    folder = tmp_path / "run"
    result = CliRunner().invoke(launch, [str(tmp_path / "low_power.json"), "--quiet", "--out", str(folder)])
    assert result.exit_code == 0, result.output
    platform = platform_of(read_run(folder))
    assert platform is not None, "reports know the names of its nodes"
    assert platform.n_nodes == 2
    found = json.loads((folder / "metrics.json").read_text())
    assert found.get("metrics", found)["energy_j"] == pytest.approx(834.4548, abs=1e-3)


# ------------------------------------------------------------------ policies


def test_first_takes_cores_in_the_order_of_the_platform():
    platform = small_platform(Node((Processor(2, 1.0),)), Node((Processor(2, 3.0),)))
    jobs = [JobSpec(cores=1), JobSpec(cores=2), JobSpec(cores=1)]
    trace = hdrl.simulate(platform, small_workload(*jobs), "first-first")
    assert [trace.cores_of(job).tolist() for job in range(3)] == [[0], [1, 2], [3]]


@pytest.mark.parametrize("name", ["min_min", "max_min", "duplex"])
def test_mappings_have_names(name: str):
    assert name in policy_names()
    by_object = {"min_min": MinMin, "max_min": MaxMin, "duplex": Duplex}[name]()
    found, expected = (hdrl.simulate(*example("save"), policy) for policy in (name, by_object))
    assert found.records.tobytes() == expected.records.tobytes()


def test_labels_of_nodes_are_passed_over(tmp_path: Path):
    labelled = copy.deepcopy({"platform": {"a": TWO["one"]}, **TYPES})
    labelled["platform"]["a"]["clusters"][0]["nodes"][0]["id"] = "node0"
    assert read(tmp_path, labelled) == read(tmp_path, {"platform": {"a": TWO["one"]}, **TYPES})


@pytest.mark.parametrize(("demands", "expected"), [(3000.0, 1.0 / 2.8), (1000.0, 1.0)])
def test_where_nothing_lies_between_little_and_much_a_core_demands_one_or_the_other(demands: float, expected: float):
    curve = np.array([(-1.0, 0.0, 5.0, 1000.0, 6000.0, 2000.0)], dtype=CURVE_DTYPE)[0]
    in_python = getattr(pace_on_curve, "py_func", pace_on_curve)
    assert in_python(curve, 1e4, demands, 3) == pytest.approx(expected, rel=1e-9)
