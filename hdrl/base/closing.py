"""Objects that are used in a ``with`` block and closed at its end."""

from __future__ import annotations

import abc
from typing import Self


class Closing(abc.ABC):
    """A context manager that closes itself at its end."""

    def __enter__(self) -> Self:
        """Return the object."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close it, whatever has happened."""
        self.close()

    @abc.abstractmethod
    def close(self) -> None:
        """Release the resources of the object."""
