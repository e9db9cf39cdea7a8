"""What docs/adaptation.md says is so."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("torch", reason="needs torch (the extra adaptation)")

from hdrl.launcher.launch import launch
from hdrl.launcher.main import cli
from hdrl.settings.adaptation.inputs import find_tables, shipped_tables
from hdrl.settings.adaptation.live import timing
from hdrl.settings.adaptation.live.data import GENERATORS
from hdrl.settings.adaptation.metrics import METRICS
from hdrl.settings.adaptation.models import MODELS
from hdrl.settings.adaptation.policies import NAMES

TEXT = (Path(__file__).parents[3] / "docs" / "adaptation.md").read_text(encoding="utf-8")


def console_blocks() -> list[list[list[str]]]:
    """Return the commands of each block, as words."""
    blocks = re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL)
    return [
        [shlex.split(line.removeprefix("$ ")) for line in block.splitlines() if line.startswith("$ ")]
        for block in blocks
    ]


def test_every_name_is_told() -> None:
    own = [name for name in METRICS if name in ("mean_regret", "last_regret", "mean_rank", "share_best", "n_tied")]
    names = {*NAMES, *MODELS, *GENERATORS, *own}
    assert [name for name in sorted(names) if f"`{name}`" not in TEXT] == []


def test_shipped_tables_were_measured_ten_times() -> None:
    tables = [find_tables(name, Path(name), "")[0] for name in shipped_tables()]
    assert len(tables) >= 3
    for table in tables:
        assert (table.device, table.n_sequences, table.n_draws >= 10) == ("counted", 64, True)
        assert table.has_validation
        assert table.rungs


def test_the_tutorial_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options, learn = (json.loads(text) for text in re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL))
    options["nb_jobs"] = 60
    learn["learning"] |= {"iterations": 2, "n_envs": 8, "tensorboard": False}
    (tmp_path / "options.json").write_text(json.dumps(options))
    (tmp_path / "learn.json").write_text(json.dumps(learn))
    monkeypatch.chdir(tmp_path)
    commands = console_blocks()[0]
    assert len(commands) == 8
    for name, *words in commands:
        short = [word.replace("nb_jobs=200", "nb_jobs=40").replace("20:10", "20:2") for word in words]
        short += ["-j", "1"] if "compare" in short else []  # a process takes longer to begin than all of it
        result = CliRunner().invoke(launch if name == "hdrl-launch" else cli, short)
        assert result.exit_code == 0, result.output
    assert {"anytime.png", "judged.html"} <= {path.name for path in tmp_path.iterdir()}


def test_own_networks_and_times_are_as_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(timing, "N_STEPS", 2)
    name, text = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", TEXT, re.DOTALL)[0]
    Path(name).write_text(text)
    for words in [words for block in console_blocks()[1:3] for words in block]:
        short = [*words[1:], "--seeds", "1", "-j", "1"] if words[2] == "table" else words[1:]
        result = CliRunner().invoke(cli, short)
        assert result.exit_code == 0, result.output
    assert find_tables("pairs.json", Path("pairs.json"), "")[0].n_sequences == 27
    assert find_tables("timed.json", Path("timed.json"), "")[0].device == "mine"
    times = json.loads(Path("times.json").read_text())
    assert f"times.json: {len(times['example_s'])} networks on mine\n" in TEXT


def test_the_curriculum_is_a_chain() -> None:
    chain = next(block for block in console_blocks() if block[0][:2] == ["hdrl-launch", "advisor"] and len(block) == 3)
    outs = [words[words.index("--out") + 1] for words in chain]
    assert [words[words.index("-im") + 1] for words in chain[1:]] == [f"{out}/model.pt" for out in outs[:-1]]
