"""Tables of a run folder that are damaged end commands in one line, whatever the setting."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hdrl.launcher.main import cli

OPTIONS: dict[str, dict[str, Any]] = {
    "gpu": {"platform": "drl-gpu", "workload": "poisson", "nb_jobs": 6, "agent": {"policy": "fifo"}},
    "adaptation": {"platform": "counted", "workload": "digits_*", "nb_jobs": 20, "agent": {"policy": "never"}},
    "pipelines": {
        "platform": "1cpu+1gpu",
        "workload": "generated",
        "nb_jobs": 20,
        "load": {"model": {"utilization": 0.6}},
        "agent": {"policy": "edf"},
    },
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for setting, options in OPTIONS.items():
        (folder / f"{setting}.json").write_text(json.dumps({"setting": setting, **options}))
        command = ["run", str(folder / f"{setting}.json"), "--out", str(folder / setting), "--quiet"]
        result = CliRunner().invoke(cli, command, prog_name="hdrl")
        assert result.exit_code == 0, result.stderr
    return folder


@pytest.mark.parametrize(
    ("setting", "file", "row", "message"),
    [
        (
            "gpu",
            "tasks.csv",
            "0,0.0,0.0,9.0,inf,300,1.0,-1,-1",
            "state of row 0 is 300, which is out of range",
        ),
        ("gpu", "tasks.csv", "0,nan,0.0,9.0,inf,3,1.0,-1,-1", "release_s of row 0 is nan"),
        ("gpu", "tasks.csv", "0,x,0.0,9.0,inf,3,1.0,-1,-1", "has text in a column of numbers"),
        ("gpu", "stays.csv", "0,0.0,1.0,1.0,x", "units are 'x', expected numbers of units"),
        ("gpu", "stays.csv", f"0,0.0,1.0,1.0,{'9' * 30}", "units are '999"),
        ("gpu", "stays.csv", "99,0.0,1.0,1.0,0", "holds a date that is not finite, or a task that is not one of 6"),
        ("adaptation", "adaptations.csv", "", "holds 19 jobs, expected 20"),
        (
            "adaptation",
            "adaptations.csv",
            "0,digits_feedforward2_middle,0,5,999,0,0,0,0,1,0,0,0",
            "actions of row 0 are '999', but sequences.csv holds no such sequence of 'digits_feedforward2_middle'",
        ),
        ("pipelines", "runs.csv", "999999,0,0,0,cpu0,0,1,1", "instance holds something else than whole numbers"),
        (
            "pipelines",
            "runs.csv",
            f"0,0,0,{'9' * 18},cpu0,0,1,1",
            "unit holds something else than whole numbers",
        ),
    ],
)
def test_a_row_that_cannot_be_is_told(runs: Path, tmp_path: Path, setting: str, file: str, row: str, message: str):
    folder = tmp_path / "run"
    shutil.copytree(runs / setting, folder)
    header, _, *rest = (folder / file).read_text().splitlines()
    (folder / file).write_text("\n".join([header, *([row] if row else []), *rest]) + "\n")
    kind = "anytime" if setting == "adaptation" else "gantt"
    result = CliRunner().invoke(cli, ["plot", kind, str(folder), "-s", str(tmp_path / "it.svg")], prog_name="hdrl")
    assert result.exit_code == 2, result.exception
    assert f"{file}: {message}" in result.stderr
    assert not (tmp_path / "it.svg").exists()


@pytest.mark.parametrize("setting", OPTIONS)
@pytest.mark.parametrize("part", ["agent", "platform", "workload"])
@pytest.mark.parametrize("value", ["x", {"name": [], "policy": {}, "n_units": "x", "n_gpus": -5}])
def test_a_provenance_of_nonsense_is_passed_over(runs: Path, tmp_path: Path, setting: str, part: str, value: Any):
    folder = tmp_path / "run"
    shutil.copytree(runs / setting, folder)
    path = folder / "provenance.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), part: value}))
    result = CliRunner().invoke(cli, ["report", str(folder), "-o", str(tmp_path / "page.html")], prog_name="hdrl")
    assert result.exit_code == 0, result.exception
