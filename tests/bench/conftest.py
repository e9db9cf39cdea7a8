"""A small result that several files of tests damage."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from hdrl.launcher.main import cli

TASK = "pipelines-overload-130"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "edf"
    done = CliRunner().invoke(cli, ["bench", "run", "edf+fusion", "--tasks", TASK, "-o", str(folder), "-j", "1"])
    assert done.exit_code == 0, done.output
    return folder


@pytest.fixture
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the drawing of a board's pictures, which takes most of its time."""
    monkeypatch.setattr("hdrl.report.page.charts._svg", lambda drawing, size_in: "data:,")
