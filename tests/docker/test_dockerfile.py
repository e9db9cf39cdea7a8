"""The Dockerfile says what exists, pins what it takes, and does not run as root."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"


class Instruction(NamedTuple):
    name: str
    text: str


def read_stages() -> dict[str, list[Instruction]]:
    """Return the instructions of each stage, the FROM first."""
    text = re.sub(r"^#.*\n", "", (DOCKER / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    stages: dict[str, list[Instruction]] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, rest = line.split(maxsplit=1)
        if name == "ARG":
            continue
        if name == "FROM":
            current = stages[rest.split(" AS ")[1]] = []
        current.append(Instruction(name, rest))
    return stages


STAGES = read_stages()


def values(stage: str, name: str) -> list[str]:
    return [instruction.text for instruction in STAGES[stage] if instruction.name == name]


def test_the_stages_are_those_that_are_named():
    assert list(STAGES) == ["build", "test", "build-full", "full", "hdrl"]  # the last one is built by default
    known = {"FROM", "ENV", "RUN", "WORKDIR", "COPY", "USER", "CMD"}
    assert {instruction.name for stage in STAGES.values() for instruction in stage} <= known


def test_the_base_image_is_pinned_by_digest():
    bases = {values(stage, "FROM")[0].split(" AS ")[0] for stage in STAGES}
    assert bases == {"${BASE}", "build"}
    [base] = re.findall(r"^ARG BASE=(.*)$", (DOCKER / "Dockerfile").read_text(), re.MULTILINE)
    assert re.fullmatch(r"python:3\.11-slim-bookworm@sha256:[0-9a-f]{64}", base)


@pytest.mark.parametrize("stage", ["test", "full", "hdrl"])
def test_nobody_runs_as_root(stage: str):
    names = [instruction.name for instruction in STAGES[stage]]
    assert values(stage, "USER") == ["hdrl"]
    assert "--uid 10001" in " ".join(values(stage, "RUN"))
    assert names.index("USER") < names.index("CMD")


def copied() -> set[str]:
    """Return what is copied from the checkout."""
    texts = [text.split() for stage in STAGES for text in values(stage, "COPY") if not text.startswith("--from")]
    return {source for text in texts for source in text[:-1]}


def test_what_is_copied_is_there_and_not_ignored():
    lines = (DOCKER / "Dockerfile.dockerignore").read_text().splitlines()
    lines = [line for line in lines if line and not line.startswith("#")]
    assert lines[0] == "*"
    allowed = {line[1:] for line in lines if line.startswith("!")}
    assert copied() - {"."} <= allowed
    assert not [name for name in allowed if not (ROOT / name).exists()]
    assert allowed.isdisjoint({".git", ".venv", "build", "runs"})
    assert "**/__pycache__" in lines


def test_the_package_can_be_built_of_what_is_copied():
    """All that setup.cfg maps into the package is copied before the package is installed."""
    config = (ROOT / "setup.cfg").read_text()
    mapped = re.search(r"package_dir =\n((?:    .+\n)+)", config)
    assert mapped is not None
    folders = {line.split("=")[1].strip() for line in mapped[1].splitlines()}
    assert (
        folders | {"setup.cfg", "pyproject.toml", "build_backend.py", "DESCRIPTION.md", "LICENSE", "constraints.txt"}
        <= copied()
    )


def commands(stage: str) -> list[list[str]]:
    return [shlex.split(part) for text in values(stage, "RUN") for part in text.split("&&")]


def test_what_is_installed_is_constrained():
    installs = [words for stage in STAGES for words in commands(stage) if words[:2] == ["pip", "install"]]
    assert len(installs) == 6
    assert all(words[2:4] == ["--constraint", "constraints.txt"] for words in installs)
    assert ["--no-deps", "pybatsim"] in [words[4:] for words in installs]
    extras = {
        extra for words in installs for one in re.findall(r"\.\[([\w,]+)\]", words[-1]) for extra in one.split(",")
    }
    assert extras == {"pybatsim", "dev", "learn", "report", "frames"}
    torches = [words for words in installs if words[-1] == "torch"]
    # Of what torch needs, its index has few versions, hardly those of constraints.txt.
    assert [words[4:7] for words in torches] == [
        ["--no-deps", "--index-url", "https://download.pytorch.org/whl/cpu"]
    ] * 2
    config = (ROOT / "setup.cfg").read_text()
    assert all(re.search(rf"^{extra} =$", config, re.MULTILINE) for extra in extras)


@pytest.mark.parametrize("stage", ["test", "build-full"])
def test_stages_that_learn_take_torch_without_cuda_first(stage: str):
    [install] = [text for text in values(stage, "RUN") if "torch" in text]
    assert install.index("whl/cpu torch") < install.index("'.[")


def test_the_readme_tells_what_builds():
    assert "BuildKit" in (DOCKER / "README.md").read_text()


@pytest.mark.parametrize("stage", ["test", "full", "hdrl"])
def test_the_compiled_simulator_is_in_the_image(stage: str):
    warm, *more = [words for words in commands(stage) if words[0] == "python"]
    assert len(more) == (stage == "full")  # the environment that agents learn in
    environment = " ".join(values(stage, "ENV"))
    assert "NUMBA_CACHE_DIR=/var/cache/hdrl" in environment
    assert "NUMBA_CPU_NAME=generic" in environment  # else another machine would compile again
    for words in [warm, *more]:
        done = subprocess.run([sys.executable, *words[1:]], capture_output=True, text=True, timeout=300)
        assert (done.returncode, done.stderr) == (0, "")


def test_commands_are_installed_ones():
    assert values("hdrl", "CMD") == ['["hdrl", "--help"]']
    assert "hdrl = hdrl.launcher.main:cli" in (ROOT / "setup.cfg").read_text()
