"""The compiled heart: state as flat arrays, Batsim's event loop, the decision system."""

from hdrl.kernel.compilation import is_compiled, warm_up, warm_up_conservative

__all__ = ["is_compiled", "warm_up", "warm_up_conservative"]
