"""Former names of modules: they are the modules of today, and say so."""

import ast
import importlib
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import hdrl
from hdrl import batch, envs
from hdrl.base.errors import HdrlError
from hdrl.base.moved import MOVED, MOVED_NAMES

FACADES = {
    "platform": "read_platform",
    "workload": "read_workload",
    "simulation": "Start",
    "policies": "simulate",
    "predict": "evaluate_predictors",
}


@pytest.mark.parametrize("former", MOVED)
def test_a_former_name_is_the_module_of_today(former: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, former, raising=False)
    with pytest.warns(DeprecationWarning, match=rf"^{former} is now {MOVED[former]}$") as told:
        found = importlib.import_module(former)
    assert len(told) == 1
    assert found is importlib.import_module(MOVED[former])
    assert found.__name__ == found.__spec__.name == MOVED[former]


@pytest.mark.parametrize(
    ("module", "name", "today"),
    [(module, name, today) for module, names in MOVED_NAMES.items() for name, today in names.items()],
)
def test_a_former_name_stands_for_the_one_of_today(module: str, name: str, today: str):
    with pytest.warns(DeprecationWarning, match=rf"^{module}\.{name} is now {today}$") as caught:
        found = getattr(importlib.import_module(module), name)
    assert caught[0].filename == __file__
    home, _, current = today.rpartition(".")
    assert found is getattr(importlib.import_module(home), current)


@pytest.mark.parametrize(("former", "name"), FACADES.items())
def test_public_names_are_found_under_former_names(former: str, name: str):
    code = f"from hdrl.{former} import {name}; import hdrl.batch; assert {name} is hdrl.batch.{name}"
    done = subprocess.run([sys.executable, "-W", "default", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "<string>:1: DeprecationWarning: hdrl." in done.stderr


def test_errors_are_caught_under_their_former_name(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(vars(hdrl), "errors", raising=False)
    with pytest.warns(DeprecationWarning, match=r"hdrl\.errors is now"):
        caught = hdrl.errors.HdrlError
    assert caught is HdrlError


def test_names_that_never_were_are_not_found():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("hdrl.platforms")
        with pytest.raises(AttributeError):
            hdrl.platforms  # noqa: B018


@pytest.mark.parametrize("setting", ["batch", "gpu", "pipelines", "adaptation"])
def test_all_public_names_of_a_setting_are_there(setting: str):
    module = importlib.import_module(f"hdrl.{setting}")
    stub = ast.parse(Path(module.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    assert sorted(ast.literal_eval(stub.body[-1].value)) == module.__all__
    for name in module.__all__:
        assert getattr(module, name) is not None


def test_the_former_command_prints_the_same_file():
    printed = [
        subprocess.run([sys.executable, "-m", name], capture_output=True, text=True, check=True).stdout
        for name in ("hdrl.batsim.pybatsim", "hdrl.batsim.pybatsim")
    ]
    assert printed[0] == printed[1]
    assert printed[0].strip().endswith("scheduler.py")


def test_environments_of_batch_jobs_are_found_where_they_were():
    assert envs.JobPickVectorEnv is batch.JobPickVectorEnv
    assert envs.PolicyPairEnv is batch.PolicyPairEnv
