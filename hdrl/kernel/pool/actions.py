"""Telling legal actions from illegal ones, for batches of any kind."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.kernel.pool.jit import entry


@entry
def _first_illegal(actions, masks, is_exempt):
    n_actions = masks.shape[1]
    for row in range(len(actions)):
        action = actions[row]
        if is_exempt[row]:
            continue
        if action < 0 or action >= n_actions or masks[row, action] == 0:
            return row
    return -1


def first_illegal(actions: NDArray[np.int64], masks: NDArray[np.int8], is_exempt: NDArray[np.bool_]) -> int:
    """Return the first row whose action is illegal, -1 if all are legal.

    Parameters
    ----------
    actions
        Shape ``(n_rows,)``.
    masks
        Which actions are legal, shape ``(n_rows, n_actions)``.
    is_exempt
        Rows whose actions do not matter, shape ``(n_rows,)``.
    """
    found: Any = _first_illegal(actions, masks, is_exempt)
    return int(found)
