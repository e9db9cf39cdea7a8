"""Small tensors are faster with one thread, above all where other programs run."""

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="package")
def one_thread() -> Iterator[None]:
    """Let torch compute with one thread."""
    torch = pytest.importorskip("torch", reason="needs torch (the extra learn)")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
