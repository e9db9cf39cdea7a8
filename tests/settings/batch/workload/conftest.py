from __future__ import annotations

from pathlib import Path

import pytest

from hdrl.settings.batch.platform import Platform, read_platform

SHARED = Path(__file__).parents[4] / ".." / "shared"


@pytest.fixture(scope="session")
def gaia() -> Platform:
    return read_platform("gaia")


@pytest.fixture(scope="session")
def learning() -> Platform:
    return read_platform("learning")


@pytest.fixture(scope="session")
def shared() -> Path:
    if not SHARED.is_dir():
        pytest.skip("the shared reference material is not here")
    return SHARED
