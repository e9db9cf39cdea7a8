"""What docs/stability.md says is public, is there."""

import ast
import importlib
import os
import re
import subprocess
import sys
import warnings
from abc import ABCMeta
from pathlib import Path

import pytest
from typing_extensions import is_protocol

from hdrl.base.moved import MOVED

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "stability.md").read_text(encoding="utf-8")
MODULES = [
    "hdrl",
    *re.findall(r"^::: (hdrl[\w.]*)$", (DOCS / "reference.md").read_text(encoding="utf-8"), re.MULTILINE),
]


@pytest.mark.parametrize("name", MODULES)
def test_public_names_exist_and_are_today_s(name: str):
    if name == "hdrl.learn":
        pytest.importorskip("torch", reason="needs torch (the extra learn)")
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        module = importlib.import_module(name)
        public = getattr(module, "__all__", None)
        assert public is not None or name == "hdrl.base.errors", f"{name} does not say what is public"
        for one in public or ():
            assert getattr(module, one) is not None
    assert len(set(public or ())) == len(public or ())


def test_a_former_name_warns_as_the_page_shows():
    ((command, expected),) = re.findall(r"^\$ (.*)\n(.*)\n", PAGE, re.MULTILINE)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    done = subprocess.run(command, shell=True, text=True, capture_output=True, env=os.environ | {"PATH": path})
    assert expected.strip(".") in done.stdout
    assert "hdrl.errors" in MOVED


def test_capabilities_of_settings_are_named():
    setting = importlib.import_module("hdrl.setting")
    parts = {"Inputs", "Simulator", "PolicyBook", "EnvironmentSpec"}
    public = {name: getattr(setting, name) for name in setting.__all__}
    bases = {name for name, one in public.items() if isinstance(one, ABCMeta) and not is_protocol(one)}
    assert "LoadGenerator" in bases
    for name in bases - parts:
        assert f"`{name}`" in PAGE, name


FOREIGN_CLASSES = {
    "hdrl/batsim/handled.py": {"JobState"},  # batsim-py
    "hdrl/batsim/pybatsim/scheduler.py": {"Scheduler"},  # PyBatsim
    "hdrl/compat/hdeeprm/bases.py": {"Agent"},  # HDeepRM
}
"""Classes that other programs import by these names, with the file that provides them."""


def test_no_two_public_classes_share_a_name():
    root, homes = DOCS.parent, {}
    for folder in ("hdrl", "agents", "experiments", "launcher"):
        for file in sorted((root / folder).rglob("*.py")):
            path = file.relative_to(root).as_posix()
            for node in ast.parse(file.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    homes.setdefault(node.name, []).append(path)
    for path, names in FOREIGN_CLASSES.items():
        for name in names:
            assert len(homes[name]) > 1, f"{name}: {path} needs no exception any more"
            homes[name].remove(path)
    assert not {name: paths for name, paths in homes.items() if len(paths) > 1}
