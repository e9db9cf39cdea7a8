"""Functions with portable bits: they are torch's, with their gradients, and torch's own elsewhere."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch (the extra learn)")

from torch import Tensor  # noqa: E402
from torch.nn import functional  # noqa: E402

from hdrl.compiled.backends import JIT_DISABLED  # noqa: E402
from hdrl.learn import portable  # noqa: E402
from hdrl.learn.networks.layers import mlp  # noqa: E402
from hdrl.learn.threads import use_helper_threads  # noqa: E402

Function = Callable[..., Any]


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def tensors_of(found: Any) -> tuple[Tensor, ...]:
    return tuple(found) if isinstance(found, tuple) else (found,)


def with_gradients(function: Function, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Return what comes out, and the gradients by what went in."""
    leaves = [one.clone().requires_grad_() for one in inputs]
    out = tensors_of(function(*leaves))
    weighed = [(one * numbers(*one.shape, seed=7).to(one.dtype)).sum() for one in out]
    torch.stack(weighed).sum().backward()
    assert all(one.grad is not None for one in leaves)
    return [one.detach() for one in out] + [one.grad for one in leaves if one.grad is not None]


def check(mine: Function, its: Function, *inputs: Tensor) -> None:
    """Compare values and gradients with torch's in double precision, and single bits with what needs no gradients."""
    found, exact = with_gradients(mine, inputs), with_gradients(its, [one.double() for one in inputs])
    for one, other in zip(found, exact, strict=True):
        assert one.dtype == torch.float32
        scale = max(1e-30, float(other.abs().max())) if other.numel() else 1.0
        torch.testing.assert_close(one.double() / scale, other / scale, rtol=0, atol=1e-6)
    with torch.no_grad():
        for one, other in zip(tensors_of(mine(*inputs)), found, strict=False):
            assert torch.equal(one, other)
    elsewhere = with_gradients(mine, [one.double() for one in inputs])
    for one, other in zip(elsewhere, exact, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("name", ["exp", "expm1", "tanh", "sigmoid", "softplus", "logsigmoid", "log", "log1p", "sqrt"])
def test_functions_of_each_number(name: str) -> None:
    x = numbers(13, 7, 3)
    its = getattr(functional, name) if name in ("softplus", "logsigmoid") else getattr(torch, name)
    mine = getattr(portable, name)
    check(mine, its, x.abs() + 0.1 if name in ("log", "log1p", "sqrt") else 3.0 * x)
    check(mine, its, (x.abs() + 0.1).transpose(0, 1))


def test_sines() -> None:
    x = 30.0 * numbers(40)
    torch.testing.assert_close(portable.sin(x), torch.sin(x.double()).float())


@pytest.mark.parametrize("width", [1, 7, 8, 45])
def test_softmaxes(width: int) -> None:
    x = 4.0 * numbers(3, 11, width)
    check(portable.softmax, lambda y: torch.softmax(y, -1), x)
    check(portable.log_softmax, lambda y: torch.log_softmax(y, -1), x)
    check(portable.logsumexp, lambda y: torch.logsumexp(y, -1), x)


def test_impossible_actions_take_no_part() -> None:
    logits = numbers(9, 21)
    is_legal = torch.rand((9, 21), generator=torch.Generator().manual_seed(1)) < 0.4
    is_legal[:, 4] = True
    actions = torch.full((9,), 4)

    def its(y: Tensor) -> tuple[Tensor, Tensor]:
        logs = torch.log_softmax(y.masked_fill(~is_legal, -1e30), -1)
        return logs[:, 4], -(logs.exp() * logs).sum(-1)

    check(lambda y: portable.choose(y.masked_fill(~is_legal, -1e30), actions), its, logits)
    alone = logits.clone().requires_grad_()
    portable.choose(alone, actions).log_probs.sum().backward()
    both = logits.clone().requires_grad_()
    (portable.choose(both, actions).log_probs.sum() + 0.0 * portable.choose(both, actions).entropies.sum()).backward()
    torch.testing.assert_close(alone.grad, both.grad)


@pytest.mark.parametrize("dim", [None, 0, 1, 2, -1])
def test_sums_and_means(dim: int | None) -> None:
    x = numbers(5, 9, 17)
    check(lambda y: portable.sum(y, dim), lambda y: y.sum() if dim is None else y.sum(dim), x)
    check(lambda y: portable.mean(y, dim), lambda y: y.mean() if dim is None else y.mean(dim), x)
    if dim is not None:
        check(lambda y: portable.sum(y, dim, keepdim=True), lambda y: y.sum(dim, keepdim=True), x)
    assert float(portable.mean(x > 0)) == pytest.approx(float((x > 0).float().mean()))


def test_deviations() -> None:
    x = numbers(1000) * 3.0 + 100.0
    for mine, its in zip(portable.std_mean(x), torch.std_mean(x.double()), strict=True):
        assert float(mine) == pytest.approx(float(its), rel=1e-6)
    assert float(portable.var(x)) == pytest.approx(float(x.double().var()), rel=1e-6)
    assert portable.sum_of_squares(x) == pytest.approx(float(x.double().square().sum()), rel=1e-12)
    assert torch.isnan(portable.std_mean(x[:1])[0])


@pytest.mark.parametrize("shape", [(4, 6, 5), (4, -1, 5), (2, 4, 6, 5)])
def test_repeated_numbers_get_their_gradients_summed_up(shape: tuple[int, ...]) -> None:
    check(lambda y: portable.expand(y, *shape), lambda y: y.expand(*shape), numbers(6, 1))


@pytest.mark.parametrize(("n", "k", "m"), [(1, 1, 1), (5, 3, 17), (33, 16, 4)])
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_matrix_products(batch: tuple[int, ...], n: int, k: int, m: int) -> None:
    check(portable.matmul, torch.matmul, numbers(*batch, n, k), numbers(*batch, k, m, seed=1))
    turned = numbers(*batch, m, k, seed=2)
    check(lambda a, b: portable.matmul(a, b.mT), lambda a, b: a @ b.mT, numbers(*batch, n, k), turned)


def test_one_layer() -> None:
    check(portable.linear, functional.linear, numbers(3, 21, 11), numbers(7, 11, seed=1), numbers(7, seed=2))
    check(portable.linear, functional.linear, numbers(5, 3), numbers(2, 3, seed=1))


@pytest.mark.parametrize("n_rows", [0, 1, 17, 50, 63, 300, 5000])
@pytest.mark.parametrize("activation", ["relu", "tanh", "leaky_relu"])
def test_layers(activation: Any, n_rows: int) -> None:
    for is_open, sizes in ((True, (11, 9, 33, 5)), (False, (11, 4, 1)), (False, (700, 400, 3))):
        layers = mlp(sizes, torch.Generator().manual_seed(1), activation, is_open=is_open)
        exact = copy.deepcopy(layers).double()
        x = numbers(min(n_rows, 200) if sizes[0] == 700 else n_rows, sizes[0])
        slopes = numbers(len(x), sizes[-1], seed=5)
        (layers(x) * slopes).sum().backward()
        (exact(x.double()) * slopes.double()).sum().backward()
        torch.testing.assert_close(layers(x).double(), exact(x.double()), rtol=1e-5, atol=1e-5)
        for one, other in zip(layers.parameters(), exact.parameters(), strict=True):
            scale = max(1.0, float(other.grad.abs().max()))
            torch.testing.assert_close(one.grad.double() / scale, other.grad / scale, rtol=0, atol=3e-6)


@pytest.mark.skipif(JIT_DISABLED, reason="torch computes")
def test_who_helps_changes_no_bit() -> None:
    layers = mlp((30, 64, 3), torch.Generator().manual_seed(1), "tanh")
    a, b, x = numbers(40, 30, 64), numbers(40, 64, 30, seed=1), numbers(20_000, 30)

    def found() -> list[Tensor]:
        layers.zero_grad()
        layers(x).square().sum().backward()
        return [portable.matmul(a, b), *(one.grad.clone() for one in layers.parameters() if one.grad is not None)]

    alone = found()
    with use_helper_threads(2):
        for one, other in zip(found(), alone, strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize("shape", [(5, 5), (4, 9), (9, 4), (1, 6)])
def test_first_weights_are_orthogonal(shape: tuple[int, int]) -> None:
    weight = portable.orthogonal(*shape, 2.0, torch.Generator().manual_seed(0)).double()
    product = weight @ weight.T if shape[0] <= shape[1] else weight.T @ weight
    torch.testing.assert_close(product, 4.0 * torch.eye(min(shape), dtype=torch.float64), rtol=0, atol=1e-5)


def test_random_numbers_have_their_distributions() -> None:
    generator = torch.Generator().manual_seed(0)
    drawn = portable.normal((50, 400), generator)
    assert drawn.shape == (50, 400)
    assert drawn.dtype == torch.float32
    assert abs(float(drawn.mean())) < 0.03
    assert float(drawn.std()) == pytest.approx(1.0, abs=0.03)
    assert float((drawn > 1.96).float().mean()) == pytest.approx(0.025, abs=0.005)
    times = portable.exponential((20_000,), generator)
    assert float(times.mean()) == pytest.approx(1.0, abs=0.03)
    assert float(times.min()) >= 0.0
    uniform = portable.uniform((20_000,), -2.0, 3.0, generator)
    assert -2.0 <= float(uniform.min()) < float(uniform.max()) <= 3.0
    assert float(uniform.mean()) == pytest.approx(0.5, abs=0.05)


def weights() -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(32, 8), (32,), (1, 7), (1,), (3, 5)]
    return [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in shapes]


def give_gradients(some: list[torch.nn.Parameter], seed: int, *, without: int | None) -> None:
    generator = torch.Generator().manual_seed(seed)
    for i, one in enumerate(some):
        gradient = torch.randn(one.shape, generator=generator).to(one.dtype) * 10.0 ** -(seed % 4)
        one.grad = None if i == without else gradient


def test_steps_of_adam_are_those_of_torch() -> None:
    mine, its = weights(), weights()
    groups = [[{"params": some[:2], "lr": 0.01}, {"params": some[2:], "lr": 0.003}] for some in (mine, its)]
    own, usual = portable.Adam(groups[0]), torch.optim.Adam(groups[1])
    for seed in range(40):
        # Weights without a gradient: from the first step on, and later; once a whole group.
        without = 4 if seed < 5 else (seed % 7 if seed % 3 == 0 else None)
        for some in (mine, its):
            give_gradients(some, seed, without=without)
            if seed == 20:
                some[0].grad = some[1].grad = None
        portable.clip(mine, 0.5)
        torch.nn.utils.clip_grad_norm_(its, 0.5)
        own.step()
        usual.step()
        for one, other in zip(mine, its, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
        if seed == 30:  # what was saved by either goes on in the other
            own.load_state_dict(copy.deepcopy(usual.state_dict()))
    states = [optimizer.state_dict()["state"] for optimizer in (own, usual)]
    for one, other in zip(states[0].values(), states[1].values(), strict=True):
        assert one.keys() == other.keys()
        for name in one:
            torch.testing.assert_close(one[name], other[name], rtol=1e-4, atol=1e-6)


def test_clipping_is_that_of_torch_elsewhere_too() -> None:
    mine, its = ([torch.nn.Parameter(one.detach().double()) for one in weights()] for _ in range(2))
    for some in (mine, its):
        give_gradients(some, 0, without=1)
        portable.clip(some, 0.5) if some is mine else torch.nn.utils.clip_grad_norm_(some, 0.5)
    assert all(one.grad is None or torch.equal(one.grad, other.grad) for one, other in zip(mine, its, strict=True))
    portable.clip([torch.nn.Parameter(torch.zeros(1))], 0.5)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_tensors_move_towards_others(share: float) -> None:
    for dtype in (torch.float32, torch.float64):
        mine = [numbers(3, 5).to(dtype), numbers(2, seed=1).to(dtype)]
        theirs = [numbers(3, 5, seed=2).to(dtype), numbers(2, seed=3).to(dtype)]
        expected = [torch.lerp(one, other, share) for one, other in zip(mine, theirs, strict=True)]
        portable.move_towards(mine, theirs, share)
        for one, other in zip(mine, expected, strict=True):
            torch.testing.assert_close(one, other)
