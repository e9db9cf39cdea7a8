"""Adam, clipping and moving averages of many tensors, each in one pass of compiled code."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hdrl.learn.portable import kernels
from hdrl.learn.portable.own import is_own

_NAMES = ("exp_avg", "exp_avg_sq", "step")
"""State that torch's Adam keeps for each tensor."""


class Adam(torch.optim.Adam):
    """Adam in one pass over the weights, with torch's own settings but for the learning rates.

    What it remembers is laid out as torch's own, which goes on where ours has stopped, and the other way round.
    """

    def __init__(self, weights: Any, lr: float = 1e-3) -> None:
        super().__init__(weights, lr=lr, fused=True)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change all weights that have a gradient."""
        if closure is not None or not all(map(_is_plain, self.param_groups)):
            return super().step(closure)
        for group in self.param_groups:
            some = [(one, gradient) for one in group["params"] if (gradient := one.grad) is not None]
            if not some:
                continue
            # The gradients are kept until the end: new ones made of several parts have no other owner.
            tensors = [(one, gradient.contiguous(), *self._remembered(one)) for one, gradient in some]
            addresses, sizes = _addresses_of(tensors)
            beta1, beta2 = map(float, group["betas"])
            kernels.adam_step(addresses, sizes, float(group["lr"]), beta1, beta2, float(group["eps"]))
        return None

    def _remembered(self, weights: Tensor) -> list[Tensor]:
        state = self.state[weights]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(weights), torch.zeros_like(weights)
        return [state[name] for name in _NAMES]


def _is_plain(group: dict[str, Any]) -> bool:
    is_usual = not (group["weight_decay"] or group["amsgrad"] or group["maximize"])
    weights = group["params"]
    return is_usual and is_own(*weights) and all(one.is_contiguous() for one in weights)


def _addresses_of(rows: Sequence[Sequence[Tensor]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the addresses of contiguous tensors, and how many numbers the first of each row has."""
    addresses = np.array([[one.data_ptr() for one in row] for row in rows], dtype=np.int64)
    return addresses, np.array([row[0].numel() for row in rows], dtype=np.int64)


@torch.no_grad()
def clip(weights: Sequence[Tensor], max_norm: float) -> None:
    """Scale gradients down to a norm of ``max_norm``, as `torch.nn.utils.clip_grad_norm_` does.

    Weights without a gradient do not count.
    """
    gradients = [gradient for one in weights if (gradient := one.grad) is not None]
    if not gradients:
        return
    if not is_own(*gradients) or not all(one.is_contiguous() for one in gradients):
        nn.utils.clip_grad_norm_(weights, max_norm)
        return
    addresses, sizes = _addresses_of([[one] for one in gradients])
    norm = math.sqrt(kernels.squares_at(addresses[:, 0].copy(), sizes))
    factor = max_norm / (norm + 1e-6)
    if not factor >= 1.0:  # NaN spreads
        kernels.scale_at(addresses[:, 0].copy(), sizes, factor)


@torch.no_grad()
def move_towards(targets: Sequence[Tensor], sources: Sequence[Tensor], share: float) -> None:
    """Move tensors towards others of equal shapes by a share (0 to 1) of the distance; 1 copies them."""
    if share >= 1.0:
        for one, other in zip(targets, sources, strict=True):
            one.copy_(other)
    elif is_own(*targets, *sources) and all(one.is_contiguous() for one in (*targets, *sources)):
        kernels.move_at(*_addresses_of(list(zip(targets, sources, strict=True))), float(share))
    else:
        for one, other in zip(targets, sources, strict=True):
            one.add_((other - one) * share)
