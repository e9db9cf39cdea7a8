"""How files are damaged: bytes, lines and cells of tables, values of JSON, attributes of XML."""

from __future__ import annotations

import copy
import gzip
import json
import random
import re
from collections.abc import Callable
from typing import Any

ODD_VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1, 2, 7, 10**10, 10**18, -(10**18), 10**400),
    *(0.5, -0.0, 1e-300, 1e308, -1e308, float("nan"), float("inf"), 5e-324),
    *(
        "",
        " ",
        "x",
        "x" * 300,
        "x" * 20_000,
        "~nosuchuser/x",
        "../..",
        "/",
        "/dev/null",
        "nan",
        "1e999",
        "\x00",
        "\ud800",
    ),
    *("\x1b[31m\n\r", "💥", "first", "learning", "__class__", "0-5", "1:2:3"),
    *("9" * 5000, "1_0", "²", "٣", "\u202enosj", "a/\x00b", "../" * 1500),
    *([], {}, [[]], [None], {"": {}}, [1, 2, 3], {"type": "nothing"}, list(range(200))),
]
"""What stands where it should not: wrong types, bounds of numbers, names, paths, control characters."""

ODD_JSON = ["[" * 20_000 + "]" * 20_000, '{"a":' * 20_000 + "1" + "}" * 20_000, "9" * 5000, "1e400", "NaN", "-Infinity"]
"""What `json.dumps` does not write: deep nesting, numbers that are none, numbers that no number can hold."""

_ODD_JSON_MARK = "what stands for odd JSON"

ODD_CELLS = [
    "",
    "-1",
    "0",
    "nan",
    "inf",
    "1e308",
    "1e-300",
    "9" * 400,
    "x",
    "\x00",
    "0-5",
    "5-0",
    "1,5",
    "-",
    '"',
    "\ud7ff",
    "\r",
    "9" * 5000,
    "1e999999",
    "1_0",
    "²",
    "٣",
    "x" * 200_000,
    "9999-99-99 99:99:99",
    "0000-00-00 00:00:00",
    "[" * 5000,
    "\u202e",
]


def mutated_bytes(content: bytes, draw: random.Random) -> bytes:
    """Return bytes of which some were changed, dropped, repeated or cut off."""
    data = bytearray(content)
    for _ in range(draw.choice([1, 1, 2, 5, 20])):
        place = draw.randrange(len(data) + 1)
        kind = draw.randrange(5)
        if kind == 0 and data:
            data[min(place, len(data) - 1)] = draw.randrange(256)
        elif kind == 1:
            del data[place : place + draw.choice([1, 2, 10, 1000])]
        elif kind == 2:
            data[place:place] = data[place : place + draw.choice([1, 5, 50])]
        elif kind == 3:
            data[place:place] = draw.choice(
                [b"\x00", b"\xff\xfe", b"}", b'"', b"\n", b"-", b"<", b"&", b"999999999999"]
            )
        else:
            del data[place:]
    return bytes(data)


def mutated_lines(content: bytes, draw: random.Random) -> bytes:
    """Return text of which cells or lines were replaced, dropped, repeated or swapped."""
    lines = content.decode("utf-8", "replace").splitlines()
    for _ in range(draw.choice([1, 1, 1, 3])):
        if not lines:
            break
        row = draw.randrange(len(lines))
        separator = "," if "," in lines[row] else None
        cells = lines[row].split(separator) or [""]
        kind = draw.randrange(6)
        if kind <= 2:
            cells[draw.randrange(len(cells))] = draw.choice(ODD_CELLS)
            lines[row] = (separator or " ").join(cells)
        elif kind == 3:
            lines[row] = (separator or " ").join(cells[: draw.randrange(len(cells) + 1)])
        elif kind == 4:
            del lines[row]
        else:
            lines.insert(draw.randrange(len(lines) + 1), lines[row])
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return every container of a JSON value with each of its keys or indices."""
    found = []
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            found.append((value, key))
            found.extend(_places(value[key]))
    return found


def mutated_json(content: bytes, draw: random.Random) -> bytes:
    """Return JSON of which values were replaced, dropped, moved or renamed."""
    value = json.loads(content)
    for _ in range(draw.choice([1, 1, 1, 2, 4])):
        places = _places(value)
        if not places:
            break
        holder, key = draw.choice(places)
        kind = draw.randrange(9)
        if kind == 8:
            holder[key] = _ODD_JSON_MARK
        elif kind <= 4:
            holder[key] = copy.deepcopy(draw.choice(ODD_VALUES))
        elif kind == 5:
            del holder[key]
        elif kind == 6 and isinstance(holder, dict):
            holder[draw.choice(["", "x", "seed", key + "s", key[:-1]])] = holder.pop(key)
        else:
            holder[key] = copy.deepcopy(draw.choice(places)[0])
    return json.dumps(value).replace(f'"{_ODD_JSON_MARK}"', draw.choice(ODD_JSON)).encode("utf-8", "surrogatepass")


def packed(content: bytes, draw: random.Random) -> bytes:
    """Return what gzip makes of a file: whole, cut off, damaged, or of more than may be unpacked."""
    kind = draw.randrange(4)
    if kind == 0:
        return gzip.compress(b" " * (MAX_UNPACKED_MIB * 2**20) + content, compresslevel=1, mtime=0)
    data = gzip.compress(content, mtime=0)
    if kind == 1:
        return data[: draw.randrange(len(data))]
    return mutated_bytes(data, draw) if kind == 2 else data


def mutated_xml(content: bytes, draw: random.Random) -> bytes:
    """Return XML of which attributes were replaced, or elements dropped, repeated or renamed."""
    text = content.decode()
    for _ in range(draw.choice([1, 1, 2])):
        attributes = list(re.finditer(r'="([^"]*)"', text))
        elements = list(re.finditer(r"<[a-zA-Z_]+[^>]*?/>", text))
        if draw.randrange(3) and attributes:
            one = draw.choice(attributes)
            odd = draw.choice([*ODD_CELLS, "1Gf", "-1Gf", "1e400Gf", "1:2", "0-3"])
            text = f"{text[: one.start(1)]}{odd}{text[one.end(1) :]}"
            text = text.replace("\x00", "")
        elif elements:
            one = draw.choice(elements)
            again = draw.choice(["", one[0] * 2, one[0].replace("<", "<x", 1), draw.choice(elements)[0]])
            text = f"{text[: one.start()]}{again}{text[one.end() :]}"
    return text.encode("utf-8", "replace")


MAX_UNPACKED_MIB = 8
"""What ``HDRL_MAX_UNPACKED_MIB`` is meanwhile."""


def mutations_of(name: str) -> list[Callable[[bytes, random.Random], bytes]]:
    """Return the ways in which a file of that name is damaged."""
    if name.endswith(".json"):
        return [*[mutated_json] * 6, mutated_bytes, packed]
    if name.endswith(".xml"):
        return [*[mutated_xml] * 4, mutated_bytes, packed]
    if name.endswith((".csv", ".swf", ".log", ".trace", ".graph", ".txt")):
        return [*[mutated_lines] * 5, mutated_bytes, packed]
    return [mutated_bytes]
