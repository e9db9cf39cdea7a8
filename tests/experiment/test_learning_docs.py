"""docs/learning.md is run, and its tables are complete."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="agents that learn need torch")

from hdrl.agents import ALGORITHMS
from hdrl.options import EpisodeOptions, LearningOptions

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "learning.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("examples", "platforms", "workloads"):
        (folder / name).symlink_to(ROOT / name)
    return folder


def test_the_commands_work(checkout: Path):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    commands = [line for kind, text in BLOCKS if kind == "sh" for line in text.splitlines()]
    assert len(commands) == 6
    for command in commands:
        done = subprocess.run(
            f"{command} --quiet",
            shell=True,
            cwd=checkout,
            env=os.environ | {"PATH": path, "OMP_NUM_THREADS": "1"},
            text=True,
            capture_output=True,
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}"


def test_the_python_prints_what_is_said(checkout: Path, tmp_path: Path):
    code = next(text for kind, text in BLOCKS if kind == "python" and "run_experiment" in text)
    code = code.replace('out="trained"', f'out="{tmp_path}/trained"')
    printed = next(text for kind, text in BLOCKS if kind == "text")
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=checkout, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == (printed, 0), done.stderr


def test_the_tables_are_complete():
    for name in ALGORITHMS:
        assert f"`{name}`" in PAGE
    for name in set(LearningOptions.model_fields) - {"algorithm", "settings", "episodes"}:
        assert f"`{name}`" in PAGE, name
    for name in EpisodeOptions.model_fields:
        assert f"`episodes.{name}`" in PAGE or f"`.{name}`" in PAGE, name


def test_links_lead_somewhere():
    links = re.findall(r"\]\((?!https?:)([^)#]+)", PAGE)
    assert len(links) >= 3
    assert not [link for link in links if not (ROOT / "docs" / link).exists()]
