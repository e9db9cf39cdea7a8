"""Drawing by few of torch's random numbers: the same actions and the same generator as by all of them."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="needs torch (the extra learn)")

from hdrl.compiled.backends import JIT_DISABLED  # noqa: E402
from hdrl.learn import draws  # noqa: E402
from hdrl.learn.masking import ILLEGAL, sample  # noqa: E402


def by_all(probabilities: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return what torch draws with a random number for each action."""
    times = torch.empty_like(probabilities).exponential_(generator=generator)
    return (probabilities / times).argmax(-1)


@pytest.mark.skipif(JIT_DISABLED, reason="torch draws")
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (64, 128), (3, 700), (0, 5)])
def test_actions_and_generator_are_those_of_torch(shape: tuple[int, int], share: float) -> None:
    mine, its = (torch.Generator().manual_seed(7) for _ in range(2))
    source = torch.Generator().manual_seed(1)
    for _ in range(50):
        legal = torch.rand(shape, generator=source) < share
        legal[:, shape[1] // 2] = True
        logits = (4.0 * torch.randn(shape, generator=source)).masked_fill(~legal, ILLEGAL)
        expected = by_all(torch.softmax(logits, -1), its)
        assert torch.equal(sample(logits, mine), expected)
        assert torch.equal(mine.get_state(), its.get_state())
        # From any place in its words, and as others go on with it.
        assert torch.equal(torch.randperm(9, generator=mine), torch.randperm(9, generator=its))


def test_rows_that_are_no_numbers_take_the_first_action() -> None:
    logits = torch.full((2, 3), torch.nan)
    assert sample(logits, torch.Generator().manual_seed(0)).tolist() == [0, 0]


def test_torch_draws_where_its_numbers_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    probabilities = torch.full((4, 5), 0.2)
    assert draws.draw(probabilities.double(), torch.Generator()) is None
    logits, seeds = probabilities.log(), [torch.Generator().manual_seed(3) for _ in range(2)]
    usual = sample(logits, seeds[0])
    monkeypatch.setattr(draws, "_is_known", lambda: False)
    assert draws.draw(probabilities, torch.Generator()) is None
    assert torch.equal(sample(logits, seeds[1]), usual)


def test_a_state_of_another_size_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "_N_BYTES", 1)
    assert not draws._is_known.__wrapped__()
