"""Small integers by which compiled code knows things, in tables: a number that is in no table is an error.

A module of compiled code names the numbers of one kind by a table: ``SKIP, EASY = TABLE = CodeTable("rule", (0, 1))``.
Compiled code refuses what is in no table before it looks further. A test finds all tables, and asks the compiled code
of each for numbers that are in none of them.

They are no IntEnums. To Numba a member has another type than the same number read from an array, so that what is called
with both is compiled twice; against that, each member would have to be named a second time, as a plain number.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from hdrl.base.errors import SimulationError

UNKNOWN_CODE = -2
"""A compiled function returns this, and does nothing, where an argument is a number that is in no table."""


class CodeTable(tuple[int, ...]):
    """The numbers of one kind; compiled code treats it as a plain tuple.

    ``what``: what the numbers mean, for messages: ``"placement"``.
    """

    what: str

    def __new__(cls, what: str, codes: Iterable[int]) -> Self:  # noqa: D102 - see the class
        self = super().__new__(cls, codes)
        self.what = what
        return self

    def check(self, code: int) -> None:
        """Check that a number is in the table."""
        if code not in self:
            raise SimulationError(f"the {self.what} is {code}; expected one of {', '.join(map(str, self))}")


def check_status(status: int, *used_codes: tuple[CodeTable, int]) -> None:
    """Raise the error of a compiled function that returned `UNKNOWN_CODE`.

    Parameters
    ----------
    used_codes
        The tables, and the numbers that the function got.

    Raises
    ------
    SimulationError
        If the status is `UNKNOWN_CODE`; it names the number.
    """
    if status == UNKNOWN_CODE:
        for table, code in used_codes:
            table.check(int(code))
