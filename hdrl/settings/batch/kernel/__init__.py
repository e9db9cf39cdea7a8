"""The compiled heart: state as flat arrays, Batsim's event loop, the decision system."""

from hdrl.settings.batch.kernel.entries import warm_up, warm_up_conservative

__all__ = ["warm_up", "warm_up_conservative"]
