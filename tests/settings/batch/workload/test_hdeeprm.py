from __future__ import annotations

import numpy as np
import pytest

from hdrl.base.errors import OptionsError, UnknownName, WorkloadError
from hdrl.settings.batch.workload import SwfLog, hdeeprm_workload, read_workload, write_swf
from hdrl.settings.batch.workload.hdeeprm import reference_gflops
from hdrl.settings.batch.workload.swf import SWF_DTYPE


def a_log(n: int, *, first_submit: float = 5000.0) -> SwfLog:
    rng = np.random.default_rng(4)
    rows = np.full(n, -1.0).astype(SWF_DTYPE)
    rows["job_number"] = np.arange(1, n + 1)
    rows["submit_s"] = first_submit + np.arange(n) * 13.7
    rows["requested_processors"] = rng.integers(1, 9, n)
    rows["requested_s"] = rng.choice([60.0, 3600.0, 7200.0], n)
    rows["requested_memory_kb"] = rng.choice([-1.0, -0.5, 500.0, 999_999.0, 2_048_000.0], n)
    rows["memory_kb"] = rng.choice([-1.0, 123_456.0], n)
    rows["requested_s"][::17] = -1
    rows["requested_processors"][::19] = -1
    return SwfLog("made", rows)


def generated(log: SwfLog, gflops: float, n_jobs: int, seed: int):
    """The rules of the original, one job after the other."""
    random = np.random.RandomState(seed)
    fractions = np.arange(0.05, 1.3, 0.05)
    weights = np.array([0.15, 0.09, 0.07] + 5 * [0.04] + 5 * [0.03] + 10 * [0.02] + [0.06, 0.08])
    jobs, profiles, shift = [], {}, None
    for row in log.rows.tolist():
        if len(jobs) == n_jobs:
            break
        fields = [int(value) for value in row]
        submit, cores, time, memory = fields[1], fields[7], fields[8], fields[9]
        if min(submit, cores, time) < 0:
            continue
        if memory < 0:
            memory = fields[6]
            if memory < 0:
                continue
        shift = shift or submit
        flop = int(gflops * random.choice(fractions, p=weights) * time * 1e9)
        memory = int(memory / 1000)
        bandwidth = int(random.choice(np.arange(4, 25, 4)))
        name = f"{time}_{memory}_{bandwidth}"
        profiles.setdefault(name, flop)
        jobs.append((submit - shift, cores, time, memory, bandwidth, name))
    return jobs, profiles


@pytest.mark.parametrize("first_submit", [5000.0, 0.0])
@pytest.mark.parametrize("seed", [2009, 0])
def test_jobs_are_those_of_the_original_rules(gaia, first_submit, seed):
    log = a_log(300, first_submit=first_submit)
    jobs, profiles = generated(log, reference_gflops(gaia), 120, seed)
    workload = hdeeprm_workload(log, gaia, n_jobs=120, seed=seed)
    assert workload.n_jobs == len(jobs) == 120
    assert workload.profile_names == tuple(profiles)
    assert workload.steps["amount"].tolist() == list(profiles.values())
    columns = ("submit_s", "cores", "requested_time_s", "memory_mib", "bandwidth_gbps")
    for row, job in zip(workload.jobs, jobs, strict=True):
        assert tuple(row[name] for name in columns) == job[:5]
        assert workload.profile_names[row["profile"]] == job[5]
    assert workload.job_ids[:3] == ("0", "1", "2")
    assert np.all(workload.jobs["walltime_s"] == -1)
    assert workload.n_dropped["no requested time"] > 0


def test_zero_is_no_date_to_shift_by(gaia):
    log = a_log(40)
    log.rows["requested_s"], log.rows["requested_processors"], log.rows["memory_kb"] = 60.0, 1.0, 5000.0
    log.rows["submit_s"][:4] = [0, 0, 30, 50]
    submit_s = hdeeprm_workload(log, gaia, n_jobs=4, seed=1).jobs["submit_s"]
    assert submit_s.tolist() == [0, 0, 0, 20]


def test_what_it_refuses(gaia):
    log = a_log(40)
    with pytest.raises(OptionsError):
        hdeeprm_workload(log, gaia, n_jobs=0, seed=1)
    with pytest.raises(OptionsError):
        hdeeprm_workload(log, gaia, n_jobs=1, seed=-1)
    log.rows["submit_s"][5:] = 10
    with pytest.raises(WorkloadError, match="negative submission date"):
        hdeeprm_workload(log, gaia, n_jobs=20, seed=1)
    log.rows["memory_kb"] = log.rows["requested_memory_kb"] = -1
    with pytest.raises(WorkloadError, match="no job of 40"):
        hdeeprm_workload(log, gaia, n_jobs=20, seed=1)


def test_by_name(tmp_path, gaia):
    log = a_log(60)
    write_swf(log, tmp_path / "made.swf")
    workload = read_workload(tmp_path / "made.swf", gaia, n_jobs=30, seed=5, compatibility="hdeeprm-0.3.1")
    assert workload.jobs.tolist() == hdeeprm_workload(log, gaia, n_jobs=30, seed=5).jobs.tolist()
    with pytest.raises(UnknownName, match=r"did you mean 'hdeeprm-0.3.1'"):
        read_workload(tmp_path / "made.swf", gaia, compatibility="hdeeprm-0.3")
    with pytest.raises(OptionsError, match="first job"):
        read_workload(tmp_path / "made.swf", gaia, n_jobs=3, start=1, compatibility="hdeeprm-0.3.1")
