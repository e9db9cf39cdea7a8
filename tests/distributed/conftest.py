"""Workers import the functions that they are given, so these must be importable there too."""

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(Path(__file__).parent)
    monkeypatch.syspath_prepend(folder)
    before = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", folder if before is None else f"{folder}{os.pathsep}{before}")
