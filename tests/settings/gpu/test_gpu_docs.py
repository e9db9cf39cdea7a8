"""What docs/gpu.md says is so."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from hdrl.compat.drl_gpu.playing import ERRORS
from hdrl.experiment.reproduce.recipe import read_experiment
from hdrl.launcher.launch import launch
from hdrl.launcher.main import cli
from hdrl.settings.gpu.loads.readers import FORMATS
from hdrl.settings.gpu.policies.advisors import NAMES as ADVISORS
from hdrl.settings.gpu.policies.names import ORDERS, PLACEMENTS, RULES
from hdrl.settings.gpu.policies.shares import SHARES

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "gpu.md").read_text(encoding="utf-8")
SAMPLE = 60
"""Jobs of the trace that stands in for Philly's; two of them are wider than the cluster."""


def test_every_name_is_told() -> None:
    hidden = {"drl-gpu-whole"}  # for one reproduction alone
    bare = {name.removesuffix("-het") for name in SHARES if name.removesuffix("-het") in SHARES}
    names = {*ORDERS, *PLACEMENTS, *RULES, *ERRORS, *FORMATS, *ADVISORS, *bare} - hidden
    assert [name for name in sorted(names) if f"`{name}`" not in TEXT] == []


def test_the_tutorial_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        f"2017-10-09 {7 + i // 60:02}:{i % 60:02}:00,{600 + 40 * i}.0,{1 + i % 4},1.0,vc{i % 2}" for i in range(SAMPLE)
    ]
    rows += ["2017-10-09 09:00:00,66.0,128,66.0,vc0"] * 2
    (tmp_path / "philly_sia.csv.gz").write_text(
        "\n".join(["timestamp,duration,num_gpus,gpu_time,cluster", *rows]) + "\n"
    )
    sweep, options, *_ = (json.loads(text) for text in re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL))
    sweep["windows"], sweep["candidates"] = {"length": 20, "count": 2, "warm_up": 5}, ["sjf", "las-2d"]
    options["nb_jobs"] = 40
    (tmp_path / "sweep.json").write_text(json.dumps(sweep))
    (tmp_path / "options.json").write_text(json.dumps(options))
    monkeypatch.chdir(tmp_path)
    block = next(text for text in re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL) if "hdrl compare" in text)
    commands = [shlex.split(line.removeprefix("$ ")) for line in block.splitlines()]
    assert len(commands) == 6
    for name, *words in commands:
        result = CliRunner().invoke(launch if name == "hdrl-launch" else cli, words)
        assert result.exit_code == 0, result.output
    told = " ".join((tmp_path / "table.html").read_text().split())
    assert "2 jobs that sia can never run, the widest of 128 GPUs" in told
    assert {"busy.png", "gantt.png"} <= {path.name for path in tmp_path.iterdir()}


def test_the_training_of_an_index_is_the_claimed_one() -> None:
    shown = json.loads(re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)[-1])
    claimed = json.loads((Path(__file__).parents[3] / "experiments" / "gpu-index" / "train.json").read_text())
    assert {name: claimed[name] for name in shown if name != "learning"} | {"learning": shown["learning"]} == shown
    assert {name: claimed["learning"][name] for name in shown["learning"]} == shown["learning"]


def test_schedulers_and_advisors_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    block = next(text for text in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) if "adaptation values" in text)
    told = ""
    for line in block.replace("--windows 200:4", "--windows 30:2 -j 1").splitlines():
        result = CliRunner().invoke(cli, shlex.split(line)[1:])
        assert result.exit_code == 0, result.output
        told += " ".join(result.output.split())
    assert "srsf+oracle" in told.partition("true run times")[0], "it knows the future"


def test_what_is_said_of_jobs_that_adapt_is_what_is_claimed() -> None:
    claims = read_experiment("gpu-adapting").claims()
    claimed = {one.row: one.value for one in claims if one.column == "ratio of mean_value"}
    part = TEXT[TEXT.index("**Which matters more?**") :].partition("\n## ")[0]
    header, _, *lines = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("|")]
    assert len(lines) == 3
    for load, *cells in lines:
        for policy, cell in zip(header[1:], cells, strict=True):
            found = claimed[f"{policy.strip('`')} on poisson@{load}"]
            assert float(cell.partition(" ")[0]) == pytest.approx(found, abs=5.1e-4), (load, policy)


def test_what_is_said_of_agents_is_what_is_claimed() -> None:
    claims = read_experiment("gpu-held-out").claims()
    claimed = {one.row: one.value for one in claims if one.column == "ratio of mean_jct_s"}
    said = re.findall(
        r"`([\w+-]+)`\s(1\.\d{3}) \[", TEXT[TEXT.index("### Results of learned policies") :].partition("\n### ")[0]
    )
    assert {name for name, _ in said} == {"ppo", "d3qn", "sac", "sjf+easy", "ppo-srsf", "ppo-las-2d", "las-2d"}
    for name, value in said:
        assert claimed[name] == pytest.approx(float(value), abs=5.1e-4), name
