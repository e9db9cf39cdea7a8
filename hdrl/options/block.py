"""Base of all blocks and files of options."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, PrivateAttr, SerializerFunctionWrapHandler, model_serializer

from hdrl.base.files import expanded


class Block(BaseModel):
    """A block of options: no unknown keys, no conversions between types, no NaN, no change once made."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False, defer_build=True)

    newer_keys: ClassVar[tuple[str, ...]] = ()
    """Keys that are left out while they are as by default: what was written before there were such stays as it was."""

    @model_serializer(mode="wrap")
    def _without_newer_keys(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        for name, default in _newer_defaults(type(self)).items():
            if getattr(self, name) == default:
                data.pop(name, None)
        return data


@functools.cache
def _newer_defaults(block: type[Block]) -> dict[str, Any]:
    """Return the defaults of the newer keys of a block, which pydantic takes long to tell."""
    fields = block.model_fields
    return {name: fields[name].get_default(call_default_factory=True) for name in block.newer_keys}


class LocatedBlock(Block):
    """Contents of a file, and its path.

    Paths are as they were written; `path_of` resolves them.
    """

    _folder: Path = PrivateAttr(default=Path())
    _where: str = PrivateAttr(default="options")

    @property
    def where(self) -> str:
        """Name of the source for messages, usually the path of the file."""
        return self._where

    @property
    def folder(self) -> Path:
        """Folder that relative paths start from."""
        return self._folder

    def located(self, where: str, folder: Path) -> Self:
        """Return the same as read from somewhere."""
        copy = self.model_copy()
        copy._where = where  # noqa: SLF001 (its own class)
        copy._folder = folder  # noqa: SLF001
        return copy

    def path_of(self, text: str) -> Path:
        """Return a path of the file, resolved against its folder."""
        return self.folder / expanded(text)
