"""A device that no machine has: its tensors compute on the CPU, and refuse to be mixed with tensors that lie there.

It calls itself ``meta``: of other kinds of devices torch wants libraries. What is computed on it is what the
CPU computes, apart from operations that torch composes in another way; so a training there must come to the weights of
a training here.
"""

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils import _pytree as tree
from torch.utils._python_dispatch import TorchDispatchMode

FAR = torch.device("meta")


class FarTensor(torch.Tensor):
    """A tensor that lies far away."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> "FarTensor":
        size, strides, dtype = inner.size(), inner.stride(), inner.dtype
        return torch.Tensor._make_wrapper_subclass(cls, size, strides=strides, dtype=dtype, device=FAR)

    def __init__(self, inner: torch.Tensor) -> None:
        self.inner = inner

    __repr__ = object.__repr__

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        near = [one for one in tree.tree_leaves((args, kwargs)) if _is_near(one) and one.ndim > 0]
        if near and func not in (torch.ops.aten.copy_.default, torch.ops.aten._to_copy.default):
            raise RuntimeError(f"{func} has tensors here and there")
        asked = kwargs.get("device")
        if asked is not None:
            kwargs["device"] = torch.device("cpu")
        args_here, kwargs_here = tree.tree_map_only(FarTensor, lambda one: one.inner, (args, kwargs))
        out = func(*args_here, **kwargs_here)
        if asked is not None and torch.device(asked).type == "cpu":
            return out
        if func._schema.name.endswith("_") and isinstance(out, torch.Tensor):
            return args[0]
        return tree.tree_map_only(torch.Tensor, FarTensor, out)


class Far(TorchDispatchMode):
    """While it lasts, tensors can be made far away and moved there."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if any(isinstance(one, FarTensor) for one in tree.tree_leaves((args, kwargs))):
            return FarTensor.__torch_dispatch__(func, types, args, kwargs)
        asked = kwargs.get("device")
        if asked is None or torch.device(asked).type != FAR.type:
            return func(*args, **kwargs)
        kwargs["device"] = torch.device("cpu")
        return tree.tree_map_only(torch.Tensor, FarTensor, func(*args, **kwargs))


def _is_near(one: Any) -> bool:
    return isinstance(one, torch.Tensor) and not isinstance(one, FarTensor)


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    """Have such a device."""
    import torch.optim.optimizer as optimizers

    known = optimizers._get_fused_kernels_supported_devices()
    monkeypatch.setattr(optimizers, "_get_fused_kernels_supported_devices", lambda: [*known, FAR.type])
    monkeypatch.setattr(torch, "inference_mode", torch.no_grad)  # in which wrapped tensors have no views
    before = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    with warnings.catch_warnings(), Far():
        warnings.filterwarnings("ignore", "for .*: copying from a non-meta parameter")  # here it is no no-op
        yield FAR
    torch.__future__.set_swap_module_params_on_conversion(before)
