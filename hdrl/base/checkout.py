"""Imports in a checkout, where agents, commands and experiments lie beside `hdrl`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

CHECKOUT_PACKAGES = ("hdrl.agents", "hdrl.experiments", "hdrl.launcher")
"""Packages of their own folders in a checkout; an installation has them in `hdrl`."""


class _CheckoutFinder:
    """Finder of the packages beside `hdrl` in the checkout from which it is imported."""

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path
        if fullname not in CHECKOUT_PACKAGES:
            return None
        return PathFinder.find_spec(fullname, [str(Path(__file__).parents[2])], target)


def find_checkout_packages() -> None:
    """Find packages beside `hdrl` where it has none of its own; nothing happens in an installation."""
    if not (Path(__file__).parents[1] / "agents").is_dir() and _CheckoutFinder not in sys.meta_path:
        sys.meta_path.append(_CheckoutFinder)
