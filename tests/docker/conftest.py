"""What the tests of the compose files share."""

import pytest

from hdrl.settings.batch.kernel import warm_up


@pytest.fixture(scope="session", autouse=True)
def _compiled() -> None:
    """Compile the simulator before processes wait for each other."""
    warm_up(lambda text: None)
