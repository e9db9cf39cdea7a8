"""Drawing by exponential random numbers; only those that may decide are computed.

What is drawn, and where the generator is afterwards, are the same to the bit as with all of them
(`draw_by_all`), and on every processor. An action that is impossible passes over its random number, and the logarithm
is taken of numbers alone that may win: of 45 possible actions some five.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hdrl.compiled.backends import JIT_DISABLED
from hdrl.compiled.cache import cache_folder
from hdrl.compiled.jit import entry_in
from hdrl.compiled.quantiles import waiting_time
from hdrl.compiled.twister import N_TWISTER, N, next_word, pass_over
from hdrl.learn import portable

_entry = entry_in(cache_folder("hdrl-draws", [Path(__file__)]), "compiling draws (the first time only, some seconds)")

# In torch's state of a generator: how many words of the twister are left, and one; the words.
_LEFT, _WORDS, _N_BYTES = 8, slice(24, 24 + 8 * N), 5056

_SLACK = 1.0 + 1e-6
"""More than all roundings can make of a quotient."""


@_entry
def _draw(probabilities: Any, words: Any, left: Any, twister: Any, actions: Any) -> None:
    """Find for each row which of its probabilities, each divided by an exponential time, is the largest."""
    for i in range(N):
        twister[i] = words[i]
    twister[N] = N + 1 - left[0]
    for row in range(len(probabilities)):
        best, action = np.float32(-1.0), 0
        for one in range(probabilities.shape[1]):
            p = probabilities[row, one]
            if not p > 0.0:
                pass_over(twister, 2)
                continue
            high = np.int64(next_word(twister))
            uniform = (((high << 32) | np.int64(next_word(twister))) & ((1 << 53) - 1)) * 2.0**-53
            if p * _SLACK <= best * uniform:  # a time is at least this uniform number
                continue
            found = p / np.float32(waiting_time(uniform))
            if found > best:
                best, action = found, one
        actions[row] = action
    for i in range(N):
        words[i] = twister[i]
    left[0] = N + 1 - twister[N]


def draw(probabilities: Tensor, generator: torch.Generator) -> Tensor | None:
    """Draw an action (int64) for each row of probabilities; return ``None`` where only torch can."""
    is_plain = probabilities.device.type == "cpu" and probabilities.dtype == torch.float32 and len(probabilities) > 0
    return _drawn(probabilities, generator) if is_plain and not JIT_DISABLED and _is_known() else None


def draw_by_all(probabilities: Tensor, generator: torch.Generator) -> Tensor:
    """Draw as `draw` does, with a random number for each action, wherever the probabilities are."""
    times = portable.exponential(tuple(probabilities.shape), generator)
    return (probabilities / times.to(probabilities.device)).argmax(-1)


def _drawn(probabilities: Tensor, generator: torch.Generator) -> Tensor:
    state, actions = generator.get_state(), np.empty(len(probabilities), np.int64)
    numbers: NDArray[Any] = state.numpy()
    words, left = numbers[_WORDS].view(np.uint64), numbers[_LEFT : _LEFT + 4].view(np.int32)
    _draw(probabilities.contiguous().numpy(), words, left, np.empty(N_TWISTER, np.uint32), actions)
    numbers[16:24].view(np.uint64)[0] = N + 1 - left[0]
    generator.set_state(state)
    return torch.from_numpy(actions)


@cache
def _is_known() -> bool:
    """Return whether this torch draws, and lays out a generator's state, as the versions that this was made for."""
    mine, its = (torch.Generator().manual_seed(0) for _ in range(2))
    if mine.get_state().numel() != _N_BYTES:
        return False
    for n in (1, 5, 800):  # within a state of the twister, and beyond it
        probabilities = torch.full((n, 3), 1.0 / 3.0)
        if not torch.equal(_drawn(probabilities, mine), draw_by_all(probabilities, its)):
            return False
    return torch.equal(mine.get_state(), its.get_state())
