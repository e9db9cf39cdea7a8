from __future__ import annotations

import re
import shlex
from pathlib import Path

from click.testing import CliRunner

from hdrl.launcher.main import cli

TEXT = (Path(__file__).parents[4] / "docs" / "workloads.md").read_text()


def test_the_python_of_the_page_runs(capsys):
    blocks = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "workloads.md", "exec"), {})
    assert 0.2 < float(capsys.readouterr().out) < 0.4


def test_the_commands_of_the_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^hdrl (workload .*)$", TEXT, flags=re.MULTILINE)
    assert len(commands) == 4
    for command in commands:
        result = CliRunner().invoke(cli, shlex.split(command))
        assert result.exit_code == 0, result.output


def test_every_model_is_on_the_page():
    from hdrl.settings.batch.workload import (
        BANDWIDTH_MODELS,
        ESTIMATE_MODELS,
        MEMORY_MODELS,
        RUN_TIME_MODELS,
        shipped_workloads,
    )
    from hdrl.settings.batch.workload.lublin import STREAMS

    names = [*BANDWIDTH_MODELS, *ESTIMATE_MODELS, *MEMORY_MODELS, *RUN_TIME_MODELS, *STREAMS, *shipped_workloads()]
    assert [name for name in names if f"`{name}`" not in TEXT] == []
