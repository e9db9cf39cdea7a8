"""Workloads of IRMaSim: its JSON, and its tables in CSV, as Batsim would describe them.

A job has an ``id`` (or the number of its row), ``subtime``, either ``res`` or two of ``nodes``, ``ntasks`` and
``ntasks_per_node``, and what it does: the name of a ``profile``, or the same keys itself:

==============  ====================================================================
``req_ops``     instructions of each task, which take ``req_ops / ipc`` operations
``ipc``         instructions per operation of the processor's peak (default 1)
``req_time``    requested time in seconds
``req_energy``  requested energy of each task in joules
``mem``         memory of each task in MB (default 0)
``mem_vol``     MB that each task moves to and from memory while it runs (default 0)
==============  ====================================================================

A task is a core here. Policies that choose nodes obey on how many nodes tasks are to be (`policies.node_policies`:
IRMaSim's managers Heuristic and Backfill); others give them any cores, as its managers Policy and Minimal do.
``mem_vol`` becomes the bandwidth that moves it in the time of the task on a core of the platform's mean speed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.csvfiles import read_records
from hdrl.base.errors import OptionsError, ReadError
from hdrl.base.textnumbers import float_of, int_of
from hdrl.options.problems import shown
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.workload.batsim_profiles import is_number
from hdrl.settings.batch.workload.build import MAX_AMOUNT, MAX_VALUE

MB_PER_GB = 1000.0


def read_csv(path: Path) -> dict[str, Any]:
    """Return the contents of a table of IRMaSim, as its JSON would hold them.

    Raise ReadError if it cannot be read, or has no jobs.

    ``path``: the file; its first line names the columns.
    """
    rows = read_records(path)
    if not rows:
        raise ReadError(path, "holds no jobs, expected a line with the names of columns and a line for each job")
    return {"jobs": [{key: _value(text) for key, text in row.items()} for row in rows]}


def _value(text: str | None) -> object:
    """Return a cell as a number if it is one."""
    for convert in (int_of, float_of):
        try:
            return convert(text or "")
        except ValueError:
            continue
    return text


def batsim_document(content: Mapping[str, Any], path: Path, platform: Platform | None) -> dict[str, Any]:
    """Return a workload of IRMaSim as one of Batsim.

    Raise ReadError if a job or a profile is wrong, OptionsError if jobs move memory and there is no platform.
    """
    profiles: dict[str, Any] = {}
    jobs = []
    for i, given in enumerate(content["jobs"]):
        if not isinstance(given, Mapping):
            raise ReadError(path, f"jobs[{i}]: is {shown(given)}, expected an object")
        job = {"id": f"job{i}", **given}
        where = f"job {job['id']!r}"
        name = job.get("profile")
        if name is None:
            name = f"of {job['id']}"
            profiles[name] = _profile(job, path, where, platform)
        elif name not in profiles:
            described = content.get("profiles", {})
            if not isinstance(described, Mapping) or not isinstance(described.get(name), Mapping):
                raise ReadError(path, f"{where}: 'profile' is {shown(name)}, no such profile")
            profiles[name] = _profile(described[name], path, f"profile {name!r}", platform)
        jobs.append(
            {"id": job["id"], "subtime": job.get("subtime"), "res": _n_tasks(job, path, where), "profile": name}
        )
    return {"jobs": jobs, "profiles": profiles}


def nodes_of_jobs(content: Mapping[str, Any]) -> NDArray[np.int32]:
    """Return on how many nodes the tasks of each job of a workload are to be, which `batsim_document` has found good.

    Jobs that say ``res`` are to be on one node, others on ``nodes``, or on as many as ``ntasks`` with
    ``ntasks_per_node`` on each (1 by default) need; none on more than it has tasks.
    """
    nodes = []
    for job in content["jobs"]:
        res, wanted, tasks = (job.get(key) for key in ("res", "nodes", "ntasks"))
        if wanted is None:
            wanted = 1 if res is not None else math.ceil(tasks / (job.get("ntasks_per_node") or 1))
        nodes.append(wanted if tasks is None else min(wanted, tasks))
    found = np.array(nodes, dtype=np.int32)
    found.flags.writeable = False
    return found


def energies_of_jobs(content: Mapping[str, Any], path: Path) -> NDArray[np.float64] | None:
    """Return the energy that each task of each job needs as its user says, in joules; ``None`` unless all jobs tell.

    Raise ReadError if one is no number.
    """
    profiles = content.get("profiles", {})
    source = [profiles[job["profile"]] if job.get("profile") is not None else job for job in content["jobs"]]
    if any(one.get("req_energy") is None for one in source):
        return None
    found = np.array([_number(one, "req_energy", None, path, f"jobs[{i}]", MAX_AMOUNT) for i, one in enumerate(source)])
    found.flags.writeable = False
    return found


def _n_tasks(job: Mapping[str, Any], path: Path, where: str) -> int:
    """Return the number of tasks of a job."""
    counts = {key: job[key] for key in ("res", "nodes", "ntasks", "ntasks_per_node") if job.get(key) is not None}
    for key, value in counts.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ReadError(path, f"{where}: {key!r} is {shown(value)}, expected a whole number of at least 1")
    if "res" in counts:
        if len(counts) > 1:
            raise ReadError(path, f"{where}: 'res' and {list(counts)[1]!r} are given, expected one of the two")
        return int(counts["res"])
    if "ntasks" in counts:
        each = counts.get("ntasks_per_node")
        if each is not None and counts.get("nodes", math.ceil(counts["ntasks"] / each)) * each < counts["ntasks"]:
            raise ReadError(path, f"{where}: {counts['ntasks']} tasks do not fit on {counts['nodes']} nodes of {each}")
        return int(counts["ntasks"])
    if "nodes" not in counts:
        raise ReadError(path, f"{where}: has no 'res', 'ntasks' or 'nodes'")
    return int(counts["nodes"]) * int(counts.get("ntasks_per_node", 1))


def _profile(source: Mapping[str, Any], path: Path, where: str, platform: Platform | None) -> dict[str, Any]:
    """Return the work of a job, as a profile of Batsim with HDeepRM's keys."""
    instructions = _number(source, "req_ops", None, path, where, MAX_AMOUNT)
    rate = _number(source, "ipc", 1.0, path, where, MAX_VALUE)
    volume_mb = _number(source, "mem_vol", 0.0, path, where, MAX_AMOUNT)
    if rate <= 0:
        raise ReadError(path, f"{where}: 'ipc' is {rate:g}, expected a number above 0")
    operations = math.ceil(instructions / rate)
    profile = {
        "type": "parallel_homogeneous",
        "com": 0,
        "cpu": operations,
        "req_ops": operations,
        "req_time": _number(source, "req_time", -1.0, path, where, MAX_VALUE),
        "mem": _number(source, "mem", 0.0, path, where, MAX_VALUE),
        "mem_bw": 0.0,
    }
    if volume_mb > 0 and operations > 0:
        if platform is None:
            raise OptionsError(f"{path}: a platform is needed to turn its 'mem_vol' into bandwidths")
        profile["mem_bw"] = volume_mb / MB_PER_GB / (operations / (platform.reference_gflops * 1e9))
    return profile


def _number(source: Mapping[str, Any], key: str, default: float | None, path: Path, where: str, most: float) -> float:
    value = source.get(key, default)
    if key == "req_time" and value == -1.0:
        return -1.0
    if value is None:
        raise ReadError(path, f"{where}: has no {key!r}")
    if not is_number(value) or not 0 <= value <= most:
        raise ReadError(path, f"{where}: {key!r} is {shown(value)}, expected a number from 0 to {most:g}")
    return float(value)
