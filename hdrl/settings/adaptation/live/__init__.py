"""Live jobs: networks that really train, are deepened while they do, and run against a clock. It needs torch."""

import importlib.util

from hdrl.base.errors import MissingExtra

if importlib.util.find_spec("torch") is None:
    raise MissingExtra("torch", "adaptation")
