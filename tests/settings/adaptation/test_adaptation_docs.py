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
from hdrl.settings.adaptation.live.data import GENERATORS
from hdrl.settings.adaptation.metrics import METRICS
from hdrl.settings.adaptation.models import MODELS
from hdrl.settings.adaptation.policies import NAMES

TEXT = (Path(__file__).parents[3] / "docs" / "adaptation.md").read_text(encoding="utf-8")


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
    block = next(text for text in re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL))
    commands = [shlex.split(line.removeprefix("$ ")) for line in block.splitlines()]
    assert len(commands) == 8
    for name, *words in commands:
        short = [word.replace("nb_jobs=200", "nb_jobs=40").replace("100:2", "20:2") for word in words]
        short += ["-j", "1"] if "compare" in short else []  # a process takes longer to begin than all of it
        result = CliRunner().invoke(launch if name == "hdrl-launch" else cli, short)
        assert result.exit_code == 0, result.output
    assert {"anytime.png", "judged.html"} <= {path.name for path in tmp_path.iterdir()}
