"""Telling the processor which memory will be needed soon, so that nobody waits for it then.

The environments of a batch do not fit into the caches together: what is looked at for the first time comes from far.
"""

from __future__ import annotations

from hdrl.compiled.jit import jit
from hdrl.compiled.ways import IS_FAST

if IS_FAST:
    from hdrl.compiled.fast.prefetch import fetch_line
else:
    from hdrl.compiled.plain import fetch_line

_LINE_BYTES = 64


@jit
def fetch(array, index):
    """Begin to fetch a row of a flat array."""
    first = index * array.itemsize
    for offset in range(0, array.itemsize, _LINE_BYTES):
        fetch_line(array, first + offset)
    fetch_line(array, first + array.itemsize - 1)
