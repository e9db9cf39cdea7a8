"""HTML made of pieces that escape what they are given: names of runs, jobs and policies are anybody's text."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable


class Markup(str):
    """Text that is HTML already; every other text is escaped where it is put into HTML."""

    __slots__ = ()


def escaped(text: object) -> Markup:
    """Return a value as HTML.

    Parameters
    ----------
    text
        What to show; `Markup` stays as it is.
    """
    return text if isinstance(text, Markup) else Markup(html.escape(str(text), quote=True))


def joined(pieces: Iterable[object], separator: str = "") -> Markup:
    """Return pieces one after the other.

    Parameters
    ----------
    pieces
        Text or `Markup`.
    separator
        Text between them.
    """
    return Markup(str(escaped(separator)).join(escaped(piece) for piece in pieces))


def tag(name: str, *children: object, **attributes: object) -> Markup:
    """Return an element.

    Parameters
    ----------
    name
        Its name.
    children
        Text, which is escaped, or `Markup`.
    attributes
        Attributes by name; a trailing underscore is dropped (``class_``), others become dashes. ``None`` and ``False``
        leave an attribute out, ``True`` gives it without a value.
    """
    shown = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        label = key.rstrip("_").replace("_", "-")
        shown.append(f" {label}" if value is True else f' {label}="{escaped(value)}"')
    return Markup(f"<{name}{''.join(shown)}>{joined(children)}</{name}>")


def script_json(value: object) -> Markup:
    """Return a value as JSON that cannot end the ``<script>`` element around it.

    Parameters
    ----------
    value
        What `json.dumps` takes; NaN and infinities are refused.
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))
