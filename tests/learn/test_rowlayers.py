"""Layers over rows in compiled code: they are torch's own, whoever helps, and torch's own elsewhere."""

from __future__ import annotations

import copy
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="needs torch (the extra learn)")

from hdrl.compiled.backends import JIT_DISABLED  # noqa: E402
from hdrl.learn.networks.layers import Layers, mlp  # noqa: E402
from hdrl.learn.networks.rows import Rows, rows_at, rows_of  # noqa: E402
from hdrl.learn.portable import layers as portable_layers  # noqa: E402
from hdrl.learn.threads import at_once, share, use_helper_threads  # noqa: E402

FILL = -7.0


def some_rows(n: int, n_rows: int, n_features: int, share: float, seed: int) -> Rows:
    """Return rows of small whole numbers: sums of products with such weights are exact in single precision."""
    generator = torch.Generator().manual_seed(seed)
    observations = torch.randint(-2, 3, (n, n_rows, n_features), generator=generator).float()
    return rows_of(observations, torch.rand((n, n_rows + 1), generator=generator) < share)


def whole(layers: Layers, seed: int) -> Layers:
    """Make all weights -1, 0 or 1."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in layers.parameters():
            parameter.copy_(torch.randint(-1, 2, parameter.shape, generator=generator))
    return layers


def found_by(stacks: list[Layers], rows: Rows, *, has_inputs: bool) -> list[torch.Tensor]:
    """Return what comes out, and the gradients by all weights and by the rows."""
    table = rows.table.clone().requires_grad_(has_inputs)
    out = stacks[0].through(rows._replace(table=table), FILL, *stacks[1:])
    parameters = [parameter for stack in stacks for parameter in stack.parameters()]
    slopes = (torch.arange(out.numel()) % 5 - 2).view_as(out)
    wanted = [*parameters, table] if has_inputs else parameters
    return [out.detach(), *torch.autograd.grad((out * slopes).sum(), wanted)]


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 33), min_size=2, max_size=3),
    head=st.none() | st.integers(1, 6),
    n=st.integers(0, 12),
    n_rows=st.integers(1, 90),
    share_of_rows=st.sampled_from([0.0, 0.3, 1.0]),
    is_open=st.booleans(),
    has_inputs=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_values_and_gradients_are_those_of_torchs_layers(
    sizes, head, n, n_rows, share_of_rows, is_open, has_inputs, seed
) -> None:
    generator = torch.Generator().manual_seed(seed)
    stacks = [whole(mlp(sizes, generator, is_open=is_open or head is not None), seed)]
    if head is not None:
        stacks.append(whole(mlp((sizes[-1], head), generator), seed + 1))
    rows = some_rows(n, n_rows, sizes[0], share_of_rows, seed)
    mine = found_by(stacks, rows, has_inputs=has_inputs)
    exact = [copy.deepcopy(stack).double() for stack in stacks]
    theirs = found_by(exact, rows._replace(table=rows.table.double()), has_inputs=has_inputs)
    assert mine[0].shape == (n, n_rows, head or sizes[-1])
    is_empty = torch.ones(len(rows.table), dtype=torch.bool).index_fill_(0, rows.positions, value=False)
    assert (mine[0].flatten(0, 1)[is_empty] == FILL).all()
    for one, other in zip(mine, theirs, strict=True):
        assert one.dtype == torch.float32
        assert torch.equal(one.double(), other)


def usual(sizes: tuple[int, ...]) -> Layers:
    """Return layers whose sums are not exact."""
    return mlp(sizes, torch.Generator().manual_seed(1))


@pytest.mark.skipif(JIT_DISABLED, reason="torch's own layers compute")
def test_who_helps_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portable_layers, "_PART", portable_layers.BLOCK)
    layers = usual((8, 32, 16, 8, 1))
    rows = some_rows(40, 128, 8, 0.6, 2)
    assert len(rows.positions) > 8 * portable_layers._PART
    alone = found_by([layers], rows, has_inputs=True)
    with use_helper_threads(3):
        for _ in range(5):
            for one, other in zip(alone, found_by([layers], rows, has_inputs=True), strict=True):
                assert torch.equal(one, other)


def test_a_row_gives_the_same_wherever_it_stands() -> None:
    layers = usual((5, 9, 3))
    rows = some_rows(1, 700, 5, 1.0, 3)
    together = layers.through(rows, FILL)[0]
    for position in (0, 1, 255, 256, 699):
        at = torch.tensor([position])
        alone = layers.through(rows._replace(sources=at, positions=at), FILL)[0]
        assert torch.equal(alone[position], together[position])


def test_layers_give_the_same_where_nobody_asks_for_gradients() -> None:
    layers, rows = usual((5, 9, 3)), some_rows(7, 90, 5, 0.5, 3)
    learning = layers.through(rows, FILL)
    with torch.no_grad():
        assert torch.equal(layers.through(rows, FILL), learning.detach())
    with torch.inference_mode():
        assert torch.equal(layers.through(rows, FILL), learning.detach())
    assert learning.requires_grad


@pytest.mark.parametrize("is_masked", [True, False])
def test_rows_of_some_observations_pass_as_if_they_had_been_copied(*, is_masked: bool) -> None:
    generator = torch.Generator().manual_seed(4)
    observations = torch.randn((9, 30, 5), generator=generator)
    mask = torch.rand((9, 31), generator=generator) < 0.4 if is_masked else None
    index = torch.tensor([7, 0, 3])
    layers = usual((5, 9, 3))
    rows = rows_at(observations, mask, index)
    copied = rows_of(observations[index], None if mask is None else mask[index])
    assert rows.positions.tolist() == copied.positions.tolist()
    assert torch.equal(rows.features, copied.features)
    assert torch.equal(layers.through(rows, FILL), layers.through(copied, FILL))


def test_two_things_are_done_at_once_and_errors_come_out() -> None:
    """Each waits for the other, which only works in two threads; and each may fail."""
    meeting = threading.Barrier(2, timeout=20.0)

    def fail() -> int:
        raise ValueError("on purpose")

    assert at_once(lambda: 1, lambda: 2) == (1, 2)
    with use_helper_threads(1):
        assert at_once(meeting.wait, meeting.wait) in ((0, 1), (1, 0))
        assert at_once(torch.get_num_threads, torch.get_num_threads) == 2 * (torch.get_num_threads(),)
        inner = at_once(lambda: 1, lambda: at_once(lambda: 2, lambda: 3))
        assert inner == (1, (2, 3)), "who helps has nobody left to ask, and does both"
        for pair in ((fail, int), (int, fail), (fail, fail)):
            with pytest.raises(ValueError, match="on purpose"):
                at_once(*pair)


def test_parts_are_shared_and_errors_come_out() -> None:
    done = np.zeros(100, dtype=np.int64)

    def work(parts) -> None:
        for first, last in parts:
            done[first:last] += 1

    for n_helpers in (0, 1, 3):
        with use_helper_threads(n_helpers):
            share(100, 7, work)
            share(0, 7, work)
    assert (done == 3).all()

    def fail(parts) -> None:
        for first, _ in parts:
            if first == 60:
                raise ValueError("part 60")

    with use_helper_threads(2), pytest.raises(ValueError, match="part 60"):
        share(100, 1, fail)
