"""Makes arrays of simulators refuse every index out of bounds: imported before what lends them, without the compiler.

Compiled code trusts that an index into an array of a borrowed state is neither negative nor too large.
"""

import numpy as np

from hdrl.compiled import borrow, rows


class Checked(np.ndarray):
    """An array whose single indices count from its beginning; NumPy refuses those beyond the end by itself."""

    def _check(self, index):
        if isinstance(index, int | np.integer) and index < 0:
            raise IndexError(f"index {index} is negative")

    def __getitem__(self, index):
        self._check(index)
        return super().__getitem__(index)

    def __setitem__(self, index, value):
        self._check(index)
        super().__setitem__(index, value)


def checked(arrays):
    """Return a tuple, of tuples as well, whose arrays of one dimension are checked, as `borrow` would lend it."""
    if isinstance(arrays, tuple):
        return arrays._make(checked(one) for one in arrays)
    return arrays.view(Checked) if arrays.ndim == 1 and arrays.flags.c_contiguous else arrays


# Whoever lends takes these two by name when it is imported.
plain_row = rows.moved_to
borrow.borrow = checked
rows.moved_to = lambda state, batch, row: checked(plain_row(state, batch, row))
