"""The README and the pages beside it are run: their commands, their Python, links, make targets.

Blocks marked ``console`` hold commands after ``$`` and what they print; blocks marked ``python`` are run, and a block
marked ``text`` that follows holds what they print. ``...`` stands for any text.
"""

import doctest
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hdrl.options import LearningOptions
from hdrl.settings.batch.options import Options, RealBatsimOptions, RealSlurmOptions, WorkloadOptions
from hdrl.settings.batch.simulators import SIMULATORS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = {
    name: (ROOT / name).read_text(encoding="utf-8")
    for name in (
        *("README.md", "docs/comparing.md", "docs/options.md", "docs/python.md"),
        *("docs/tutorial.md", "docs/node-power.md", "docs/from-batsim.md", "docs/from-hdeeprm.md"),
        "docs/from-irmasim.md",
        *("docs/site.md", "docs/ab.md", "docs/bench.md"),
    )
}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = {name: BLOCK.findall(page) for name, page in PAGES.items()}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a folder that looks like the checkout, in which commands may write."""
    for name in ("examples", "experiments", "platforms", "workloads"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def environment() -> dict[str, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return os.environ | {"PATH": path, "COLUMNS": "80"}


def matches(expected: str, found: str) -> bool:
    return doctest.OutputChecker().check_output(expected, found, doctest.ELLIPSIS)


def commands(text: str) -> list[tuple[str, str]]:
    parts = re.split(r"^\$ (.*)\n", text, flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def test_the_readme_is_short():
    assert len(README) < 5_500, "the details have pages of their own"
    assert {kind for kind, _ in BLOCKS["README.md"]} == {"sh", "console"}


@pytest.mark.parametrize("page", PAGES)
def test_commands_print_what_is_said(page: str, checkout: Path):
    said = [pair for kind, text in BLOCKS[page] if kind == "console" for pair in commands(text)]
    assert said
    for command, expected in said:
        done = subprocess.run(
            command, shell=True, cwd=checkout, env=environment(), text=True, capture_output=True, timeout=600
        )
        # People see both streams; progress comes first, an error alone.
        assert matches(expected, done.stderr + done.stdout), f"$ {command}\n{done.stderr}{done.stdout}"
    if page == "README.md":
        # What the text claims of the mean and of the tail holds in the numbers behind it, too.
        rows = json.loads((checkout / "judged" / "summary.json").read_text())["rows"]
        mine = {row["metric"]: row for row in rows if row["candidate"] == "mine" and row["workload"] == "all"}
        assert mine["mean_bounded_slowdown"]["ratio_high"] < 1
        assert mine["max_wait_s"]["ratio_low"] > 1


def test_python_prints_what_is_said(checkout: Path):
    blocks = BLOCKS["docs/python.md"]
    runs = [
        (text, after[1])
        for (kind, text), after in zip(blocks, [*blocks[1:], ("", "")], strict=True)
        if kind == "python" and after[0] == "text"
    ]
    assert runs
    for text, expected in runs:
        assert len(text.splitlines()) <= 12
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", text], cwd=checkout, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        assert matches(expected, done.stdout), done.stdout


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"\bmake (\w+)", README))
    assert named >= {"demo", "test"}
    for target in named:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_table_of_options_is_complete():
    page = PAGES["docs/options.md"]
    table = page[: page.index("\n## ")]
    named = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    hdeeprm = {"seed", "nb_resources", "nb_jobs", "workload_file_path", "platform_file_path", "pybatsim"}
    assert named == set(Options.model_fields) - hdeeprm
    _, _, values, *_ = next(line for line in table.splitlines() if line.startswith("| `simulator` |")).split("|")
    assert re.findall(r"`(\w+)`", values) == list(SIMULATORS)
    for block, fields in (
        ("workload", WorkloadOptions.model_fields),
        ("batsim", RealBatsimOptions.model_fields),
        ("slurm", RealSlurmOptions.model_fields),
        ("learning", LearningOptions.model_fields),
    ):
        row = next(line for line in table.splitlines() if line.startswith(f"| `{block}` |"))
        assert set(re.findall(r"`(\w+)`", row)) - {block} == set(fields)


def test_continuous_integration_runs_what_the_readme_says():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    said = re.findall(r"\bmake \w+", script)
    assert said == ["make slurm", "make browser", "make emulator", "make test"]
    assert all(f"{command}`" in README or f"\n{command} " in README for command in said)


def test_the_demo_is_the_example_of_the_readme():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "hdrl-launch classic examples/demo.json" in makefile
    assert json.loads((ROOT / "examples" / "demo.json").read_text())["platform_file_path"] == "gaia"
