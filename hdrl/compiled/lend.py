"""Handing the same arrays to compiled code again and again, as one array of addresses.

A compiled function that Python calls looks at each of its arrays anew in every call, a tenth of a microsecond for each,
and more if they have left the cache meanwhile. `Lent` writes down once where the arrays of a named tuple lie; what
`take_as` returns reads that as a tuple.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from hdrl.compiled.plain import itself
from hdrl.compiled.ways import IS_FAST

if IS_FAST:
    from hdrl.compiled.fast import lend as fast

T = TypeVar("T", bound=tuple[Any, ...])


class Lent(Generic[T]):
    """A named tuple of arrays for compiled code; it keeps them alive, and they must stay where they are.

    Parameters
    ----------
    arrays
        The tuple; the arrays are contiguous.

    Attributes
    ----------
    arrays
        It.
    places
        What compiled functions are given, and turn into the tuple by what `take_as` returns.
    """

    def __init__(self, arrays: T) -> None:
        self.arrays = arrays
        self.places: Any = fast.places_of(arrays) if IS_FAST else arrays

    def __reduce__(self) -> tuple[type[Lent[T]], tuple[T]]:
        return Lent, (self.arrays,)  # a copy's arrays lie elsewhere


def take_as(example: Callable[[], tuple[Any, ...]]) -> Any:
    """Return the compiled function that turns `Lent.places` into a borrowed tuple.

    Parameters
    ----------
    example
        Returns a tuple of the same types; it is called when something is compiled.
    """
    return fast.take_as(example) if IS_FAST else itself
