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

from hdrl.platform.model import Platform
from hdrl.platform.pstates import contention_model, pstate_rules
from hdrl.workload.model import JOB_DTYPE, STEP_DTYPE, StepKind, Workload
from .simulator import (
    CORE_KEYS,
    JOB_KEYS,
    OracleJob,
    OraclePlatform,
    OracleResult,
    jobs_from,
    simulate,
)

RUNS = Path(__file__).parents[2] / ".." / "shared" / "batsim-runs"
RECORDED = ("hdeeprm_learning4_2jobs", "hdeeprm_learning4_50jobs", "hdeeprm_gaia200_padded")

# what platform.xml does not say, by its (first speed, first power): cores per processor, memory in GB and bandwidth in GB/s
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
    for job in content["jobs"]:
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
        (r["job_id"], r["final_state"], r["starting_time"], r["execution_time"], r["finish_time"], r["allocated_resources"])
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
