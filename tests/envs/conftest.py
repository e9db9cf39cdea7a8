"""What tests of environments share."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def logs_of_sb3_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Stable-Baselines3 log into a folder of the test; else it leaves one for every model behind."""
    monkeypatch.setenv("SB3_LOGDIR", str(tmp_path / "sb3"))
