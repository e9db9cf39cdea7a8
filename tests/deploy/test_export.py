"""The folder of a deployment: what an administrator finds in it, and what is refused before anything is written."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hdrl.deploy.folder import Ratio, index_of, read_deployment, write_deployment
from hdrl.deploy.groups import read_groups
from hdrl.deploy.guide import guide_text
from hdrl.deploy.policy import deployed_policy
from hdrl.deploy.promise import stand_in
from hdrl.launcher.launch import launch
from hdrl.launcher.main import cli


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words], prog_name="hdrl")


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two sites: of the log of ``large`` a comparison can be made, of that of ``small`` none."""
    folder = tmp_path_factory.mktemp("sites")
    for name, n_jobs in (("large", 9000), ("small", 400)):
        assert call("site", "example", folder / f"{name}-cluster", "-n", str(n_jobs)).exit_code == 0
        words = ("--conf", folder / f"{name}-cluster" / "slurm.conf", "--replay", "none", "-q", "-o", folder / name)
        done = call("site", "import", folder / f"{name}-cluster" / "sacct.txt", *words)
        assert done.exit_code == 0, done.output
    return folder


def test_an_administrator_finds_all_that_is_needed(sites: Path, tmp_path: Path):
    out = tmp_path / "odd $(name)"
    done = call("deploy", "slurm", "sjf@geo", "--site", sites / "large", "-o", out, "--interval", "20", "-j", "1")
    assert done.exit_code == 0, done.output
    assert "sjf+conservative@geo has" in done.stdout
    names = {path.name for path in out.iterdir()}
    assert names == {
        *("README.md", "deployment.json", "groups.tsv", "hdrl-deploy.service"),
        *("job_submit.lua", "now.tsv", "promised"),
    }
    page = (out / "README.md").read_text()
    deployment = read_deployment(out)
    assert deployment.promise.verdict in page
    assert [row.metric for row in deployment.promise.ratios][:2] == ["mean_bounded_slowdown", "mean_wait_s"]
    by_rules = {row.metric: row for row in deployment.promise.by_rules}
    assert list(by_rules) == ["mean_bounded_slowdown", "mean_wait_s", "p99_wait_s", "max_wait_s"]
    assert "| ratio to the simulated Slurm | value |" in page
    slowdown = by_rules["mean_bounded_slowdown"]
    assert slowdown.low is not None
    assert slowdown.high is not None
    assert slowdown.value is not None
    assert 0 < slowdown.low <= slowdown.value <= slowdown.high < 1
    assert (deployment.cores, deployment.cores_per_node) == (1024, 16)
    assert deployment.limits_s == {"": 7 * 86400.0, "main": 7 * 86400.0, "short": 3600.0}
    assert "daemon runs every 20 s" in page
    assert "sum to at most 1,000" in page
    assert "by delaying its start by\n  60 s at a time" in page
    assert "hdrl report promised -o promised.html" in page
    assert "{" not in page
    assert set(deployment.promise.blocks) == {"queue", "predictions", "results"}
    assert all(values == sorted(values) for values in deployment.promise.blocks.values())
    assert f'deploy run "{out}"' in (out / "hdrl-deploy.service").read_text()
    # All that ended has been learned from, as the import kept it.
    n_jobs = json.loads((sites / "large" / "import.json").read_text())["jobs"]["kept"]
    assert read_groups(out / "groups.tsv").all_jobs["n_ended"] == n_jobs
    lua = shutil.which("lua5.4")
    if lua is not None:
        words = [lua, "-e", "slurm = {SUCCESS = 0}", "-e", f"dofile({json.dumps(str(out / 'job_submit.lua'))})"]
        script = "job = {user_name = 'user1', time_limit = 60} slurm_job_submit(job, {}, 0) print(job.site_factor)"
        printed = subprocess.run([*words, "-e", script], capture_output=True, text=True, check=True).stdout
        assert 100_000_000 < float(printed) < 1_900_000_000


def test_a_short_log_promises_nothing(sites: Path, tmp_path: Path):
    done = call("deploy", "slurm", "wfp3", "--site", sites / "small", "-o", tmp_path / "d", "--place", "/srv/hdrl")
    assert done.exit_code == 0, done.output
    assert "a comparison takes 6,827 at least, so nothing is promised" in done.stdout
    assert '"/srv/hdrl/groups.tsv"' in (tmp_path / "d" / "job_submit.lua").read_text()
    page = (tmp_path / "d" / "README.md").read_text()
    assert "too few jobs, not watched" in page
    assert "hdrl report" not in page  # there is no comparison to show


def test_what_stands_for_the_scheduler_of_the_site(sites: Path, tmp_path: Path):
    assert stand_in(sites / "small") == "fcfs+conservative"
    report = json.loads((sites / "small" / "import.json").read_text())
    for nearest, expected in (("fcfs+easy", "fcfs+easy"), ("slurm", "fcfs+conservative"), (None, "fcfs+conservative")):
        (tmp_path / "import.json").write_text(
            json.dumps({**report, "replay": {**report["replay"], "nearest": nearest}})
        )
        assert stand_in(tmp_path) == expected
    (tmp_path / "import.json").write_text(json.dumps({**report, "replay": {**report["replay"], "nearest": "slurm"}}))
    (tmp_path / "platform.json").write_text('{"site_rules": "site.json"}')
    assert stand_in(tmp_path) == "slurm"
    (tmp_path / "import.json").unlink()
    assert stand_in(tmp_path) == "fcfs+conservative"


def test_an_index_needs_no_model_file_later(sites: Path, tmp_path: Path):
    done = call("deploy", "slurm", "es-generalist", "--site", sites / "small", "-o", tmp_path / "d")
    assert done.exit_code == 0, done.output
    policy = deployed_policy("es-generalist")
    deployment = read_deployment(tmp_path / "d")
    kept = deployment.model_copy(update={"policy": "mine.pt", "index": index_of(policy)})
    write_deployment(tmp_path / "d", kept)
    again = read_deployment(tmp_path / "d").deployed()
    assert again.pair.rule.weights == pytest.approx(policy.pair.rule.weights, abs=1e-15)
    assert (again.form, again.predictor, again.has_gate) == ("guarded", "geo", True)
    ratio = Ratio(metric="mean_wait_s", value=0.5, low=0.4, high=0.6)
    promise = deployment.promise.model_copy(update={"ratios": [ratio]})
    page = guide_text(deployment.model_copy(update={"promise": promise}), policy, 0.0, tmp_path, 100)
    assert "| mean wait | 0.5 | 0.4 to 0.6 |" in page
    assert "daemon runs every" not in page  # the log is too short for a table of the daemon


def test_a_model_that_evolved_is_an_index(sites: Path, tmp_path: Path):
    pytest.importorskip("torch", reason="needs torch (the extra learn)")
    options = {
        "platform_file_path": str(sites / "small" / "platform.json"),
        "workload_file_path": str(sites / "small" / "jobs.swf"),
        "energy": False,
        "site_rules": False,
        "workload": {"bandwidth": "none", "memory": "none"},
        "learning": {
            "algorithm": "cma_es",
            "environment": "job_index",
            "n_envs": 4,
            "iterations": 2,
            "arguments": {"form": "additive", "gate": False, "n_windows": 1, "reference": "fcfs+easy"},
            "episodes": {"n_jobs": 64, "train": [0, 0.6], "validation": [0.6, 0.8], "test": [0.8, 1]},
        },
    }
    (tmp_path / "options.json").write_text(json.dumps(options))
    done = CliRunner().invoke(launch, [str(tmp_path / "options.json"), "--out", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    done = call("deploy", "slurm", tmp_path / "run" / "model.pt", "--site", sites / "small", "-o", tmp_path / "d")
    assert done.exit_code == 0, done.output
    deployment = read_deployment(tmp_path / "d")
    assert (deployment.policy, deployment.index.form, deployment.index.gate) == ("model.pt", "additive", False)
    done = call("deploy", "slurm", tmp_path / "none.pt", "--site", sites / "small", "-o", tmp_path / "other")
    assert done.exit_code == 2
    assert "none.pt: no such file" in done.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("sjf@clairvoyant",), "its predictor cannot be written as a table"),
        (("fcfs+easy",), "there is nothing to deploy"),
        (("sjf", "--bound", "90"), "--bound"),
        (("sjf", "--place", "here"), "--place is 'here', expected an absolute path"),
        (("sjf", "-o", "nowhere/deploy"), "does not exist"),
        (("sjf", "-o", "there"), "there: exists already"),
        (("sjf", "--site", "there"), "site.json: no such file, expected the folder of a site that 'hdrl site"),
    ],
)
def test_what_is_refused(
    words: tuple[str, ...], expected: str, sites: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    done = call("deploy", "slurm", "--site", sites / "small", "-o", "out", *words)
    assert done.exit_code == 2
    assert expected in done.stderr
    assert done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_weights_that_could_pass_the_bound_are_refused(sites: Path, tmp_path: Path):
    site = tmp_path / "site"
    shutil.copytree(sites / "small", site)
    data = json.loads((site / "site.json").read_text())
    data["scheduler"] |= {"PriorityWeightAge": "99999999", "PriorityWeightTRES": "CPU=1,Mem=1"}
    (site / "site.json").write_text(json.dumps(data))
    done = call("deploy", "slurm", "sjf", "--site", site, "-o", tmp_path / "d")
    assert done.exit_code == 2
    assert re.search("sum to 100,000,001, expected less than 100,000,000", done.stderr)
