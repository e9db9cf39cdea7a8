"""The compiled heart: state as flat arrays, Batsim's event loop, the decision system."""

from hdrl.settings.batch.kernel.compilation import warm_up, warm_up_conservative

__all__ = ["warm_up", "warm_up_conservative"]
