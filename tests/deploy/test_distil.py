"""An index of few terms that stands for a network: the fit, what it sees, and the way into comparisons."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner, Result

pytest.importorskip("torch", reason="needs torch (the extra learn)")

from hdrl.agents import make_agent
from hdrl.batch import JobPickPlayer, read_platform, read_swf, workload_from_swf
from hdrl.deploy import distil as distil_module
from hdrl.deploy.distil import Choice, agreement_of, choices_of, fit
from hdrl.deploy.ranking import described, ranked, waiting_rows
from hdrl.experiment import Model
from hdrl.launcher.main import cli
from hdrl.learn.checkpoint import checkpoint_of, save_checkpoint
from hdrl.settings.batch.kernel.groups import SUMS_DTYPE
from hdrl.settings.batch.policies.indexed import IndexKind, first_weights

ARGUMENTS = {"max_jobs": 16, "backfilling": "easy"}


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words], prog_name="hdrl")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a log and the model of a network that has not learned anything."""
    folder = tmp_path_factory.mktemp("distil")
    words = ("--platform", "homogeneous:64", "--jobs", "7000", "--load", "0.9", "--seed", "1")
    done = call("workload", "generate", "lublin", *words, "--out", folder / "jobs.swf")
    assert done.exit_code == 0, done.output
    platform = read_platform("homogeneous:64")
    workload = workload_from_swf(read_swf(folder / "jobs.swf", max_rows=64), platform, bandwidth="none")
    env = JobPickPlayer(platform=platform, workload=workload, **ARGUMENTS)
    agent = make_agent("ppo", env.observation_space, env.action_space, seed=1)
    environment = {"id": "hdrl/JobPick-v0", "arguments": ARGUMENTS}
    save_checkpoint(folder / "network.pt", checkpoint_of(agent, "ppo", environment=environment))
    return folder


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distil_module, "N_PLAYED", 4)
    monkeypatch.setattr(distil_module, "PLAYED_JOBS", 64)
    monkeypatch.setattr(distil_module, "FEWEST_DECISIONS", 10)


def test_the_fit_finds_the_weights_that_picked():
    rng = np.random.default_rng(1)
    weights = rng.normal(size=13)
    weights *= 10 / np.max(np.abs(weights))
    features = [rng.normal(size=(int(rng.integers(2, 12)), 13)) for _ in range(3000)]
    choices = [Choice(one, int(np.argmin(one @ weights))) for one in features]
    found = fit(choices[:2000])
    assert np.max(np.abs(found)) == pytest.approx(10)
    assert found @ weights / np.linalg.norm(found) / np.linalg.norm(weights) > 0.999
    assert agreement_of(found, choices[2000:]) > 0.97
    assert np.isnan(agreement_of(found, []))
    assert not fit([Choice(np.zeros((2, 13)), 0)]).any()


def test_what_is_described_is_what_an_index_weighs():
    rng = np.random.default_rng(2)
    rows = waiting_rows(rng.uniform(0, 5000, 40), rng.uniform(1, 90000, 40), rng.integers(1, 64, 40))
    sums = np.zeros(20, dtype=SUMS_DTYPE)
    sums["n"], sums["n_ended"], sums["log_run"], sums["log_run_squared"] = 3.0, 3, 18.0, 120.0
    sums["log_ratio"], sums["inverse"], sums["last_s"], sums["n_here"] = -2.0, 0.5, 700.0, 5
    groups = rng.integers(0, 20, (40, 5)).astype(np.int32)
    where = {"now_s": 6000.0, "n_procs": 64, "n_free": 30}
    offsets = rng.normal(size=24)
    policy = IndexKind("linear", gate=False).policy(offsets)
    keys = ranked(rows, groups, sums, policy.rule, policy.job_key, **where).keys
    weighed = described(rows, groups, sums, **where) @ (first_weights("linear") + offsets)[:13]
    assert weighed == pytest.approx(keys, abs=1e-12)


def test_only_what_had_ended_is_seen(folder: Path):
    """Run times of jobs that have not ended yet change nothing of what is seen at the first picks."""
    platform = read_platform("homogeneous:64")
    model = Model(folder / "network.pt")
    log = read_swf(folder / "jobs.swf", max_rows=2000)
    seen = []
    for factor in (1.0, 0.5):
        log.rows["run_s"][1064:] = np.maximum(1.0, np.floor(log.rows["run_s"][1064:] * factor))
        workload = workload_from_swf(log, platform, bandwidth="none")
        seen.append(list(choices_of(model, platform, workload.window(1000, 64), seed=1)))
    assert len(seen[0]) == len(seen[1]) > 5
    for one, other in zip(*seen, strict=True):
        assert one.picked == other.picked
        assert np.array_equal(one.features, other.features)
    assert all(np.isfinite(one.features).all() and len(one.features) > 1 for one in seen[0])


@pytest.mark.usefixtures("quick")
def test_an_index_stands_for_a_network(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(distil_module, "MOST_RATIO", 1e9)
    out = tmp_path / "distilled"
    words = ("-p", "homogeneous:64", "-j", "1", "-o", out)
    done = call("distil", folder / "network.pt", folder / "jobs.swf", *words)
    assert done.exit_code == 0, done.output
    report = json.loads((out / "distilled.json").read_text())
    assert len(report["terms"]) == 13
    low, high = report["interval"]
    assert low <= report["ratio"] <= high
    assert f"index has {report['ratio']:.3f} [{low:.3f}, {high:.3f}] times the mean bounded slowdown" in done.stdout
    assert {path.name for path in out.iterdir()} == {"index.pt", "distilled.json", "fidelity"}
    model = Model(out / "index.pt")
    assert model.environment["arguments"]["backfilling"] == "easy"
    words = ("-p", "homogeneous:64", "-w", folder / "jobs.swf", "--range", "0.9:1", "--windows", "64:3", "-j", "1")
    done = call("compare", out / "index.pt", "fcfs+easy", *words, "--baseline", "fcfs+easy", "--out", tmp_path / "c")
    assert done.exit_code == 0, done.output


@pytest.mark.usefixtures("quick")
def test_a_network_that_no_index_stands_for(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(distil_module, "MOST_RATIO", 0.0)
    words = ("-p", "homogeneous:64", "-j", "1", "-o", tmp_path / "distilled")
    done = call("distil", folder / "network.pt", folder / "jobs.swf", *words)
    assert done.exit_code == 2
    line = done.stderr.splitlines()[-1]
    assert "cannot be distilled: an index of 13 terms picks the same job in" in line
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_network(folder: Path, tmp_path: Path):
    distilled = distil_module.write_index
    network = SimpleNamespace(environment={"arguments": {}}, path=folder / "network.pt", trained_on={})
    distilled(tmp_path / "index.pt", np.ones(13), network)
    words = ("-p", "homogeneous:64", "-o", tmp_path / "out")
    done = call("distil", tmp_path / "index.pt", folder / "jobs.swf", *words)
    assert done.exit_code == 2
    assert "decides in hdrl/JobIndex-v0, expected a network that picks jobs" in done.stderr
    done = call("deploy", "slurm", folder / "network.pt", "--site", tmp_path, "-o", tmp_path / "out")
    assert done.exit_code == 2
    assert "make an index of it first: hdrl distil" in done.stderr
    done = call("distil", folder / "network.pt", folder / "none.swf", *words)
    assert done.exit_code == 2
    assert "none.swf" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["may_hold", "skip"])
def test_networks_that_hold_jobs_back_are_refused(folder: Path, tmp_path: Path, name: str):
    platform = read_platform("homogeneous:64")
    workload = workload_from_swf(read_swf(folder / "jobs.swf", max_rows=64), platform, bandwidth="none")
    arguments = {"max_jobs": 16, "backfilling": "easy_priority", name: True}
    env = JobPickPlayer(platform=platform, workload=workload, **arguments)
    agent = make_agent("ppo", env.observation_space, env.action_space, seed=1)
    environment = {"id": "hdrl/JobPick-v0", "arguments": arguments}
    save_checkpoint(tmp_path / "network.pt", checkpoint_of(agent, "ppo", environment=environment))
    words = ("-p", "homogeneous:64", "-o", tmp_path / "out")
    done = call("distil", tmp_path / "network.pt", folder / "jobs.swf", *words)
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert f"holds jobs back ({name}), which no index can" in line
    assert not (tmp_path / "out").exists()
