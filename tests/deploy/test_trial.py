"""What a real Slurm on this host gets of a policy, and what simulation says of the same order under Slurm's rules."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hdrl.base.errors import OptionsError, ReadError
from hdrl.batch import Workload, lublin_log, read_platform, workload_from_swf
from hdrl.deploy import proof
from hdrl.deploy.folder import read_deployment
from hdrl.deploy.groups import read_groups
from hdrl.deploy.policy import DeployedPolicy, deployed_policy
from hdrl.deploy.simulated import simulate_deployed
from hdrl.deploy.trial import deployed_in_slurm
from hdrl.experiment.reproduce.recipe import read_experiment
from hdrl.experiment.reproduce.reproduce import reproduce
from hdrl.experiment.run.inputs import make_sweep
from hdrl.settings.batch.inputs import platform_of
from hdrl.settings.batch.policies.indexed import IndexKind
from hdrl.settings.batch.simulators import SIMULATORS, SlurmSettings
from hdrl.testing import JobSpec, small_workload

PLATFORM = read_platform("homogeneous:8")


def test_what_slurm_reads(tmp_path: Path) -> None:
    log = lublin_log(60, 8, seed=1, n_users=3)
    log.rows["wait_s"] = 0
    whole = workload_from_swf(log, PLATFORM, bandwidth="none", memory="none")
    window = whole.window(40, 20)
    deployed = deployed_in_slurm("sjf@geo")(PLATFORM, window, SlurmSettings(interval_s=20.0))
    deployed.write(tmp_path)
    assert deployed.conf == ("JobSubmitPlugins=lua",)
    assert "tostring(job_desc.account)" in (tmp_path / "job_submit.lua").read_text()
    found = read_deployment(tmp_path / "deploy")
    assert (found.users, found.cores, found.interval_s, found.policy) == ("account", 8, 20.0, "sjf@geo")
    # Of the 60 jobs those count that had ended when the first of the window came.
    ended_s = log.rows["submit_s"] + log.rows["run_s"]
    n_ended = int(np.count_nonzero(ended_s < log.rows["submit_s"][40]))
    assert 0 < read_groups(tmp_path / "deploy" / "groups.tsv").all_jobs["n_ended"] == n_ended


def test_without_the_lua_the_daemon_is_alone(tmp_path: Path) -> None:
    deployed = deployed_in_slurm("es-generalist")(PLATFORM, small_workload(JobSpec(0.0, 1)), SlurmSettings(lua=False))
    deployed.write(tmp_path)
    assert deployed.conf == ()
    assert read_deployment(tmp_path / "deploy").deployed().has_gate


def starts(policy: str | None, workload: Workload, **choices: Any) -> list[float]:
    """Return when jobs start in a simulated Slurm that a deployed policy orders."""
    deployed = None if policy is None else deployed_policy(policy)
    found: list[float] = simulate_deployed(deployed, PLATFORM, workload, **choices).records["start_s"].tolist()
    return found


def test_lua_and_daemon_order_the_simulated_queue() -> None:
    jobs = [JobSpec(0.0, 8, gflop=400.0, requested_time_s=900.0)]
    jobs += [
        JobSpec(10.0 + n, 8, gflop=60.0, requested_time_s=60.0 * minutes) for n, minutes in enumerate((30, 20, 10))
    ]
    workload = small_workload(*jobs)
    assert np.argsort(starts(None, workload)).tolist() == [0, 1, 2, 3]
    for lua in (True, False):
        assert np.argsort(starts("sjf", workload, lua=lua)).tolist() == [0, 3, 2, 1]
    # Waits beyond the bound are served in the order of arrival.
    assert np.argsort(starts("sjf", workload, bound_s=60.0)).tolist() == [0, 1, 2, 3]


def test_without_the_lua_new_jobs_wait_for_a_look() -> None:
    """Two jobs wait for the end of the first at 100 s; the shorter one came after the last look before that."""
    jobs = [JobSpec(0.0, 8, gflop=100.0), JobSpec(1.0, 8, gflop=60.0, requested_time_s=1200.0)]
    workload = small_workload(*jobs, JobSpec(95.0, 8, gflop=60.0, requested_time_s=600.0))
    assert np.argsort(starts("sjf", workload)).tolist() == [0, 2, 1]
    assert np.argsort(starts("sjf", workload, lua=False)).tolist() == [0, 1, 2]
    assert np.argsort(starts("sjf", workload, lua=False, interval_s=2.0)).tolist() == [0, 2, 1]


def test_an_order_that_waiting_changes_is_that_of_the_last_look() -> None:
    """A short job has waited so much of its time, when the first one ends, that it passes a longer older one."""
    jobs = [JobSpec(0.0, 8, gflop=1000.0), JobSpec(1.0, 8, gflop=60.0, requested_time_s=36000.0)]
    workload = small_workload(*jobs, JobSpec(600.0, 8, gflop=60.0, requested_time_s=60.0))
    assert np.argsort(starts("wfp3", workload)).tolist() == [0, 2, 1]
    assert np.argsort(starts("wfp3", workload, interval_s=5000.0)).tolist() == [0, 1, 2]


def test_the_gate_holds_from_look_to_look() -> None:
    weights = np.zeros(24)
    weights[14], weights[23] = 50.0, 5.0  # keep most of the machine free, for long
    policy = DeployedPolicy("gated", IndexKind("linear", gate=True).policy(weights))
    free = small_workload(JobSpec(0.0, 4, gflop=1000.0), JobSpec(500.0, 2, gflop=10.0))
    assert simulate_deployed(policy, PLATFORM, free).records["start_s"].tolist() == [0, 500]  # no look was between
    late = small_workload(JobSpec(0.0, 8, gflop=100.0), JobSpec(1.0, 4, gflop=1000.0), JobSpec(2.0, 2, gflop=10.0))
    held = simulate_deployed(policy, PLATFORM, late).records["start_s"]
    own = simulate_deployed(None, PLATFORM, late).records["start_s"]
    assert own[1] == own[2]
    assert held[2] > held[1] + 900  # until the machine is empty again


def test_a_comparison_in_a_real_slurm_is_checked_first(tmp_path: Path) -> None:
    log = tmp_path / "log.swf"
    log.write_text("1 0 0 10 1 -1 -1 1 60 -1 1 1 -1 -1 -1 -1 -1 -1\n")
    given = {"platform": "homogeneous:8", "workloads": [str(log)], "simulator": "slurm"}
    sweep = make_sweep(given | {"candidates": ["sjf@geo", "es-generalist"]}, where="compare")
    assert sweep.baseline == "slurm"
    assert platform_of(sweep).site is None
    for name in ("fcfs+easy", "f2", "ppo.pt", "own.py", "own.py+easy", "own.cpp", "shortest-high_cores"):
        with pytest.raises(OptionsError):
            platform_of(make_sweep(given | {"candidates": ["sjf", name]}, where="compare"))
    with pytest.raises(OptionsError, match="a real Slurm measures none"):
        make_sweep(given | {"candidates": ["sjf"], "energy": True}, where="compare")


def test_only_slurm_deploys() -> None:
    assert SIMULATORS["slurm"].deployed("slurm") is None
    assert not SIMULATORS["embedded"].deploys


def test_the_claims_in_a_real_slurm(tmp_path: Path) -> None:
    assert reproduce(read_experiment("slurm-deploy"), out=tmp_path / "out").is_same


def test_runs_can_be_written_and_read(tmp_path: Path) -> None:
    starts = {("slurm", 0): np.arange(100.0), ("sjf@geo", 0): np.arange(100.0)[::-1]}
    proof.write_runs(tmp_path / "runs.csv", starts)
    found = proof.read_runs(tmp_path / "runs.csv")
    assert found.keys() == starts.keys()
    assert all(np.array_equal(found[key], starts[key]) for key in starts)
    text = (tmp_path / "runs.csv").read_text()
    for damaged in (text.replace("sjf@geo,0,5,", "sjf@geo,0,105,"), text.replace("slurm,0,7,7\n", ""), "run\n"):
        (tmp_path / "runs.csv").write_text(damaged)
        with pytest.raises(ReadError, match=r"runs\.csv"):
            proof.read_runs(tmp_path / "runs.csv")


def test_what_lacks_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    played = []

    def simulated(platform: object, window: Workload, policy: str, **others: Any) -> Any:
        played.append((policy, others["slurm"].lua))
        starts = {"start_s": np.arange(float(window.n_jobs))}
        return SimpleNamespace(records=starts, info={"slurm_overhead_s": 2.0})

    monkeypatch.setattr(proof, "simulate", simulated)
    path = tmp_path / "runs.csv"
    for runs in (["sjf@geo"], ["sjf@geo", proof.WITHOUT_LUA]):
        monkeypatch.setattr(sys, "argv", ["proof", str(path), "--windows", "1", "--runs", *runs])
        proof.main()
    assert played == [("slurm", True), ("sjf@geo", True), ("sjf@geo", False)]
    assert proof.read_runs(path).keys() == {("slurm", 0), ("sjf@geo", 0), (proof.WITHOUT_LUA, 0)}
    assert capsys.readouterr().out.splitlines()[0] == "slurm, window 1: 2.0 s a job to launch and to end it"
    path.write_text("run\n")
    with pytest.raises(SystemExit) as ended:
        proof.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"{path}: is not a table of run, window, job, start_s\n"
