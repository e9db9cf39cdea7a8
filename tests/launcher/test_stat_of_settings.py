"""``hdrl workload stat --setting``: what a comparison would be told of a load, for every setting."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from hdrl.launcher.main import cli

GOOGLE = "0,,1,0,m,0,u,0,1,0.5,0.1,0,0\n1000000,,1,0,m,1,u,0,1,0.5,0.1,0,0\n9000000,,1,0,m,4,u,0,1,0.5,0.1,0,0\n"


def stat(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["workload", "stat", *words])
    return done.exit_code, done.output


def test_a_trace_without_gpus_says_that_cores_stand_for_them(tmp_path: Path) -> None:
    path = tmp_path / "google.csv"
    path.write_text(GOOGLE)
    code, told = stat(str(path), "--setting", "gpu", "-p", "sia")
    assert code == 0, told
    assert told.startswith("google: 1 items\n")
    assert "the cores of a machine stand for 8 of them" in told
    _, told = stat(str(path), "--setting", "gpu", "-p", "sia", "--set", "load.gpus_per_machine=4")
    assert "the cores of a machine stand for 4 of them" in told
    done = CliRunner().invoke(cli, ["workload", "stat", str(path), "--setting", "gpu", "-p", "sia", "--json"])
    found = json.loads(done.stdout)
    assert (found["name"], found["n_items"], found["left_out"]) == ("google", 1, {})
    assert "stand for 8 of them" in done.stderr


@pytest.mark.parametrize(
    ("setting", "machine", "load"),
    [("pipelines", "1cpu+1gpu", "generated"), ("adaptation", "counted", "signals_small_convnet_early")],
)
def test_every_setting_describes_its_loads(setting: str, machine: str, load: str) -> None:
    code, told = stat(load, "--setting", setting, "-p", machine)
    assert code == 0, told
    comes_one_by_one = setting == "adaptation"
    assert (f"offered load on {machine}: " in told) is not comes_one_by_one


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["x", "--setting", "gpu"], "--setting gpu needs --platform"),
        (["x", "req_time", "p95", "--setting", "gpu", "-p", "sia"], "takes neither FIELD nor --jobs"),
        (["x.csv", "--setting", "gpu"], "--setting gpu needs --platform: its offered load"),
        (
            ["x.csv"],
            ".json, .json.gz; if it is a load of another setting, name that by --setting",
        ),
        (["lublin_gaia_1000", "--set", "a=1"], "--set has no effect on batch jobs here"),
    ],
)
def test_what_makes_no_sense_is_one_line(words: list[str], says: str) -> None:
    code, told = stat(*words)
    assert (code, says in told, told.count("\n")) == (2, True, 1), told
