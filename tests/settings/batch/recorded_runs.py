"""Where the recorded runs of the real Batsim are; where all checks are made, they must be there."""

import os
from pathlib import Path
from typing import Any

import pytest

RECORDED = Path(__file__).resolve().parents[4] / "shared" / "batsim-runs"


def need_recorded_runs() -> None:
    """Skip the present test if there are no recorded runs; fail where continuous integration runs it."""
    if RECORDED.is_dir():
        return
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(f"no recorded runs in {RECORDED}: they must be there when CI is set")
    pytest.skip(f"no recorded runs in {RECORDED}")


def recorded_parameters(folders: list[Path]) -> list[Any]:
    """Return recorded runs as parameters of a test; a path that is not there if there are none.

    Parameters
    ----------
    folders
        The runs; the test calls `need_recorded_runs` first.
    """
    names = [path.name if path.parent == RECORDED else path.relative_to(RECORDED).as_posix() for path in folders]
    return [pytest.param(path, id=name) for path, name in zip(folders, names, strict=True)] or [RECORDED]
