"""docs/plots.md and docs/interoperability.md: their commands and their Python run, their tables are complete."""

import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from hdrl.launcher.launch import launch
from hdrl.launcher.main import COMMANDS, cli
from hdrl.report.drawing import figures_of
from hdrl.setting import SETTINGS
from hdrl.settings.batch.report.data import JOB_VALUES

ROOT = Path(__file__).parents[2]
PLOTS, OTHERS = ((ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("plots", "interoperability"))


def blocks(kind: str, text: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch) -> Path:
    for name in ("examples", "workloads"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("text", [PLOTS, OTHERS], ids=["plots", "interoperability"])
def test_the_commands_run(checkout, text):
    pytest.importorskip("matplotlib", reason="pictures need matplotlib: pip install 'hdrl[report]'")
    block = "".join(blocks("sh", text))
    for line in block.splitlines():
        program, *words = shlex.split(line)
        result = CliRunner().invoke({"hdrl": cli, "hdrl-launch": launch}[program], words, prog_name=program)
        assert result.exit_code == 0, f"{line}: {result.output}"
    for word in re.findall(r"-(?:s|o) (\S+)", block):
        assert Path(word).stat().st_size > 1_000


@pytest.mark.parametrize("text", [PLOTS, OTHERS], ids=["plots", "interoperability"])
def test_the_python_runs(checkout, capsys, text):
    for library in ("matplotlib", "pandas", "polars"):
        pytest.importorskip(library)
    for block in blocks("python", text):
        if "evalys" in block:
            continue  # tested on its own, since it changes settings of other libraries
        exec(compile(block, "docs", "exec"), {})
    said = capsys.readouterr().out.split()
    assert float(said[-1].rstrip("]")) >= 0


@pytest.mark.skipif(find_spec("evalys") is None, reason="needs evalys: pip install evalys")
def test_the_example_of_evalys_is_what_is_tested():
    code = (Path(__file__).parent / "test_evalys.py").read_text(encoding="utf-8")
    (block,) = (text for text in blocks("python", OTHERS) if "evalys" in text)
    for name in ("from evalys.jobset import JobSet", "JobSet.from_csv(", "waiting_time", '.utilisation["load"]'):
        assert name in block
        assert name in code


def test_the_tables_are_complete():
    rows = re.findall(r"^\| `(\w+)` \|.*\| (?:up to (\d+)|one) ?\S*", PLOTS, re.MULTILINE)
    assert {name: int(number or 1) for name, number in rows} == {
        kind: known.max_runs for kind, known in figures_of(SETTINGS["batch"]).items()
    }
    assert [name for name in JOB_VALUES if f"`{name}`" not in PLOTS] == []


def test_links_and_commands_exist():
    for text in (PLOTS, OTHERS):
        for link in re.findall(r"\]\((?!https?:)([^)#]+)", text):
            assert (ROOT / "docs" / link).exists(), link
        assert set(re.findall(r"`hdrl (\w+)", text)) <= set(COMMANDS)
