"""The compiled heart: state as flat arrays, Batsim's event loop, the decision system."""

from hdrl.kernel.compilation import is_compiled, warm_up

__all__ = ["is_compiled", "warm_up"]
