"""hdrl finds out whether learned scheduling policies beat the classic ones on a heterogeneous cluster."""

from hdrl.version import VERSION as __version__

__all__ = ["__version__"]
