"""Numbers on command lines: as in files, ``1_000`` and digits of other scripts are none."""

from __future__ import annotations

import math
from typing import Any

import click

from hdrl.base.errors import OptionsError
from hdrl.base.textnumbers import float_of


class _Decimal:
    """Refuses texts that Python reads as numbers though they are none here."""

    name: str

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number that a text is; raise BadParameter if it is none."""
        if isinstance(value, str):
            try:
                is_number = math.isfinite(float_of(value))  # NaN is within any bounds
            except ValueError:
                is_number = False
            if not is_number:
                raise self._refused(value, param, ctx)
        try:
            return super().convert(value, param, ctx)  # type: ignore[misc]
        except click.BadParameter as error:
            if "is not a valid" in error.message:
                raise self._refused(value, param, ctx) from None
            raise

    def _refused(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> click.BadParameter:
        kind = "a whole number" if self.name.startswith("integer") else "a number"
        return click.BadParameter(f"{value!r}, expected {kind}.", ctx, param)


class Int(_Decimal, click.types.IntParamType):
    """A whole number."""


class IntRange(_Decimal, click.IntRange):
    """A whole number within bounds."""


class Float(_Decimal, click.types.FloatParamType):
    """A number."""


class FloatRange(_Decimal, click.FloatRange):
    """A number within bounds."""


def shares(text: str) -> tuple[float, float]:
    """Return the two shares of ``--range FROM:TO``."""
    first, colon, last = text.partition(":")
    try:
        if not colon:
            raise ValueError
        return float_of(first), float_of(last)
    except ValueError:
        raise OptionsError(f"--range {text}: expected two shares with ':' between them, such as 0.7:1") from None
