"""Passing a tuple of arrays to compiled functions as one pointer: ``lent = borrow(arrays)``.

The attributes of ``lent`` read like those of the tuple. It is good as long as the function that borrows runs, and
indices into arrays of one dimension must not be negative: no compiled code looks whether they are.
"""

from __future__ import annotations

from hdrl.compiled.jit import by_way

borrow = by_way("borrow.borrow")
