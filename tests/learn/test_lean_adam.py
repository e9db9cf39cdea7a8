"""Adam without what torch looks up: the same bits as torch's own."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch", reason="needs torch (the extra learn)")

from hdrl.learn.lean_adam import LeanAdam, clip  # noqa: E402


def weights() -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(32, 8), (32,), (1, 7), (1,), (3, 5)]
    return [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in shapes]


def give_gradients(some: list[torch.nn.Parameter], seed: int, *, without: int | None) -> None:
    generator = torch.Generator().manual_seed(seed)
    for i, one in enumerate(some):
        gradient = torch.randn(one.shape, generator=generator).to(one.dtype) * 10.0 ** -(seed % 4)
        one.grad = None if i == without else gradient


def test_steps_are_those_of_torch() -> None:
    mine, its = weights(), weights()
    groups = [[{"params": some[:2], "lr": 0.01}, {"params": some[2:], "lr": 0.003}] for some in (mine, its)]
    lean, usual = LeanAdam(groups[0]), torch.optim.Adam(groups[1], fused=True)
    for seed in range(40):
        # Weights without a gradient: from the first step on, and later; once a whole group.
        without = 4 if seed < 5 else (seed % 7 if seed % 3 == 0 else None)
        for some in (mine, its):
            give_gradients(some, seed, without=without)
            if seed == 20:
                some[0].grad = some[1].grad = None
        clip(mine, 0.5)
        torch.nn.utils.clip_grad_norm_(its, 0.5)
        lean.step()
        usual.step()
        for one, other in zip(mine, its, strict=True):
            assert torch.equal(one, other), seed
        if seed == 30:  # what was saved by either goes on in the other
            lean.load_state_dict(copy.deepcopy(usual.state_dict()))
    states = [optimizer.state_dict()["state"] for optimizer in (lean, usual)]
    for one, other in zip(states[0].values(), states[1].values(), strict=True):
        assert one.keys() == other.keys()
        assert all(torch.equal(one[name], other[name]) for name in one)


def test_clipping_is_that_of_torch_elsewhere_too() -> None:
    mine, its = ([torch.nn.Parameter(one.detach().double()) for one in weights()] for _ in range(2))
    for some in (mine, its):
        give_gradients(some, 0, without=1)
        clip(some, 0.5) if some is mine else torch.nn.utils.clip_grad_norm_(some, 0.5)
    assert all(one.grad is None or torch.equal(one.grad, other.grad) for one, other in zip(mine, its, strict=True))
    clip([torch.nn.Parameter(torch.zeros(1))], 0.5)
