"""Compilation of the kernel's entries, with a cache that depends on its sources."""

from __future__ import annotations

from pathlib import Path

from hdrl.compiled.cache import cache_folder
from hdrl.compiled.jit import entry_in

CACHE_FOLDER = cache_folder("hdrl-gpu", [Path(__file__).parent])

entry = entry_in(CACHE_FOLDER)
"""Compile a function of scalars and flat arrays that Python calls; the result is cached on disk."""
