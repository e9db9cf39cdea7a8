"""Numbers on command lines: as in files, ``1_000`` and digits of other scripts are none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from hdrl.base.textnumbers import float_of, int_of


def _read(of_text: Callable[[str], Any]) -> Callable[[Any, Any], Any]:
    return lambda _, value: of_text(value) if isinstance(value, str) else value


class Int(click.types.IntParamType):
    """A whole number."""

    _number_class = _read(int_of)


class IntRange(click.IntRange):
    """A whole number within bounds."""

    _number_class = _read(int_of)


class Float(click.types.FloatParamType):
    """A number."""

    _number_class = _read(float_of)


class FloatRange(click.FloatRange):
    """A number within bounds."""

    _number_class = _read(float_of)
