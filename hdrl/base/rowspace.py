"""The space of actions where each row of a table has several: environments declare it, and networks read it."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces


class RowDiscrete(spaces.Discrete):
    """A `gymnasium.spaces.Discrete` in which each row of the observation has several actions.

    Of ``n_rows`` rows, action ``k * n_rows + i`` is the ``k``-th of row ``i``; others may follow these.
    """

    def __init__(self, n: int, n_per_row: int) -> None:
        super().__init__(n)
        self.n_per_row = n_per_row

    def __reduce__(self) -> tuple[type[RowDiscrete], tuple[int, int]]:
        return RowDiscrete, (int(self.n), self.n_per_row)

    def __deepcopy__(self, memo: dict[int, Any]) -> RowDiscrete:
        return RowDiscrete(int(self.n), self.n_per_row)


def n_per_row_of(space: Any) -> int:
    """Return the number of actions of each row of a space; 1 of a plain one."""
    return space.n_per_row if isinstance(space, RowDiscrete) else 1
