"""The alarm is quiet while blocks are alike, and rings soon once they are not."""

import numpy as np
import pytest

from hdrl.deploy.drift import BLOCK, BLOCKS_BETWEEN, LEAST_BLOCKS, DriftWatch, block_means, rings, watch_of

N_PROMISED = 300


def rung_after(watch: DriftWatch, rng: np.random.Generator, mean: float, n_blocks: int) -> list[int]:
    blocks = rng.normal(mean, 1.0, (n_blocks, BLOCK)).tolist()
    rung = [[watch.add(value) is not None for value in values] for values in blocks]
    return [number for number, one in enumerate(rung) if any(one)]


def test_false_alarms_are_as_rare_as_said():
    rng = np.random.default_rng(2)
    n_rung = 0
    for _ in range(40):
        watch = watch_of(block_means(rng.normal(0.0, 1.0, N_PROMISED * BLOCK).tolist()))
        n_rung += len(rung_after(watch, rng, 0.0, 200))
    assert n_rung <= 40 * 200 / BLOCKS_BETWEEN + 3 * np.sqrt(8)


@pytest.mark.parametrize("shift", [-1.0, 1.0])
def test_a_shift_is_found_within_a_few_blocks(shift: float):
    rng = np.random.default_rng(3)
    watch = watch_of(block_means(rng.normal(0.0, 1.0, N_PROMISED * BLOCK).tolist()))
    rung_after(watch, rng, 0.0, 100)
    assert rung_after(watch, rng, shift, 10)[0] <= 5


def test_too_few_blocks_promise_nothing():
    watch = watch_of([0.0] * (LEAST_BLOCKS - 1))
    assert rung_after(watch, np.random.default_rng(1), 100.0, 50) == []
    assert not rings([0.0] * BLOCK, [1.0] * 100 * BLOCK)


def test_it_goes_on_where_it_was():
    rng = np.random.default_rng(4)
    promised = block_means(rng.normal(0.0, 1.0, N_PROMISED * BLOCK).tolist())
    values = rng.normal(0.3, 1.0, 40 * BLOCK + 7).tolist()
    whole, first = watch_of(promised), watch_of(promised)
    for value in values:
        whole.add(value)
    for value in values[:1013]:
        first.add(value)
    then = watch_of(promised, first.as_json())
    for value in values[1013:]:
        then.add(value)
    assert then.as_json() == whole.as_json()
    with pytest.raises(ValueError, match="evidence"):
        watch_of(promised, {**first.as_json(), "evidence": [1.0]})
