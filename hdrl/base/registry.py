"""Names for interchangeable things, with the nearest name when one is misspelt."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from hdrl.base.errors import UnknownName

T = TypeVar("T")


class Registry(Generic[T]):
    """A mapping from names to things of one kind."""

    def __init__(self, what: str) -> None:
        self.what = what
        self._items: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that stores its argument under ``name``."""

        def store(item: T) -> T:
            if name in self._items:
                raise ValueError(f"{self.what} {name!r} is registered already")
            self._items[name] = item
            return item

        return store

    def __getitem__(self, name: str) -> T:
        """Return the item registered under ``name``; raise `UnknownName` with a suggestion if there is none."""
        try:
            return self._items[name]
        except KeyError:
            raise UnknownName(self.what, name, self._items) from None

    def __contains__(self, name: object) -> bool:
        """Return whether ``name`` is registered."""
        return name in self._items

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names in the order of registration."""
        return iter(self._items)

    def __len__(self) -> int:
        """Return the number of names."""
        return len(self._items)
