"""A folder to start from, the names that can be chosen, and what was run."""

import os
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hdrl.experiment.run.inputs import read_options
from hdrl.launcher.listing import KINDS
from hdrl.launcher.main import cli
from hdrl.settings.batch.kernel.beginning import NO_RULE
from hdrl.settings.batch.policies.pairs import read_pair


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words], prog_name="hdrl")


def test_init_makes_what_its_commands_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert run("init", "mine").exit_code == 0
    monkeypatch.chdir("mine")
    assert read_options("options.json").learning.algorithm == "ppo"
    text = Path("README.md").read_text().replace("\\\n", " ")
    (judge,) = re.findall(r"^hdrl (compare .*)$", text, re.MULTILINE)
    words = [word for word in shlex.split(judge) if not word.startswith("model=")]
    words[words.index("best") : words.index("--metrics")] = ["first-low_power"]
    words[words.index("128:23")] = "20:6"
    done = run(*words, "-j", "1")
    assert done.exit_code == 0, done.output
    assert "policy.py+easy has " in done.stdout
    listed = run("runs", ".")
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d  judged: comparison: policy\.py\+easy has ", listed.stdout)


def test_init_replaces_nothing(tmp_path: Path):
    (tmp_path / "kept").write_text("")
    done = run("init", tmp_path)
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("policies", "fcfs+easy"),
        ("policies", "pairs36"),
        ("metrics", "mean_bounded_slowdown"),
        ("algorithms", "ppo"),
        ("platforms", "gaia"),
        ("workloads", "lublin_gaia_1000"),
        ("environments", "job_pick"),
        ("settings", "gpu"),
    ],
)
def test_names_are_listed(kind: str, name: str):
    listed = run("list", kind)
    assert listed.exit_code == 0
    assert name in [line.split()[0] for line in listed.stdout.splitlines()]


@pytest.mark.parametrize("setting", ["batch", "pipelines"])
def test_what_can_be_listed_is_listed(setting: str):
    listed = run("list", "--setting", setting)
    assert listed.exit_code == 0
    kinds = [line.split()[0] for line in listed.stdout.splitlines()]
    assert kinds == [kind for kind in KINDS if setting == "batch" or kind not in ("platforms", "workloads")]
    for line in listed.stdout.splitlines():
        kind, count, *words = line.split()
        assert words == ["names:", "hdrl", "list", kind]
        if kind == "settings":
            assert int(count) == len(run("list", kind).stdout.splitlines())


def test_additions_to_policies_are_listed_and_understood():
    names = [line.split()[0] for line in run("list", "policies").stdout.splitlines()]
    additions = [name.removeprefix("...") for name in names if name.startswith("...")]
    assert {"@geo", "~gate", "~off600", "~on0.5"} <= set(additions)
    for addition in additions:
        assert read_pair(f"fcfs+easy{addition}").rule != NO_RULE


def test_what_a_setting_does_not_have_is_one_line():
    assert run("list", "platforms", "--setting", "gpu").stdout.splitlines()[0]
    assert run("list", "platforms", "--setting", "pipelines").stderr == (
        "hdrl: error: setting pipelines ships no platforms\n"
    )
    refused = run("list", "polices")
    assert refused.exit_code == 2
    assert refused.stderr.count("workloads") == 1
    assert set(KINDS) >= {"policies", "settings"}


def test_runs_tell_what_they_are(tmp_path: Path):
    for name in ("one", "two/run_0"):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "options.resolved.json").write_text("{}")
        (folder / "provenance.json").write_text('{"agent": "fcfs", "workload": {"name": "jobs"}, "platform": {}}')
    (tmp_path / "one" / "metrics.json").write_text('{"mean_bounded_slowdown": 7.5, "utilization": 0.5}')
    os.utime(tmp_path / "one" / "metrics.json", (1e9, 1e9))
    (tmp_path / "two" / "run_0" / "resume.json").write_text("{}")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "sweep.json").write_text("{}")  # asked, never run
    lines = run("runs", tmp_path).stdout.splitlines()
    assert {len(line.partition("  ")[0]) for line in lines} == {len("2001-09-09 01:46")}
    assert any(line.startswith("2001-09-") for line in lines), "the date of what was written last"
    assert sorted(line.partition("  ")[2] for line in lines) == [
        f"{tmp_path}/one: run: fcfs, jobs, mean_bounded_slowdown 7.50",
        f"{tmp_path}/two/run_0: training (not finished: --resume continues it): fcfs, jobs",
    ]
    assert run("runs", tmp_path / "other").stdout == f"{tmp_path / 'other'}: no runs\n"
    assert run("runs", tmp_path / "nosuch").exit_code == 2


@pytest.mark.parametrize(("given", "used"), [(None, "1"), ("3", "3")])
def test_numpy_has_one_thread_unless_the_user_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, given: str | None, used: str
):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", given or "")
    if given is None:
        monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    run("list", "settings")
    assert os.environ["OPENBLAS_NUM_THREADS"] == used
