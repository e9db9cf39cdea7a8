"""Damaged versions of real files."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

TOKENS = [
    "",
    "0",
    "-1",
    "1e400",
    "NaN",
    "1.5",
    "999999999999",
    '"',
    "{",
    "]",
    "<",
    "&x;",
    "\x00",
    "é",
    "null",
    "Full ",
    "Gf",
]


def mutated(texts: list[str], *, n_variants: int, seed: int) -> Iterator[str]:
    """Yield variants of each text: a span removed, doubled or replaced, a number or word replaced, the end cut off."""
    draw = np.random.default_rng(seed)
    for text in texts:
        words = [match.span() for match in re.finditer(r"[\w.+-]+", text)]
        for _ in range(n_variants):
            kind = draw.integers(5)
            start = int(draw.integers(len(text)))
            end = min(len(text), start + 1 + int(draw.geometric(0.1)))
            token = TOKENS[draw.integers(len(TOKENS))]
            if kind == 0:
                yield text[:start] + text[end:]
            elif kind == 1:
                yield text[:end] + text[start:]
            elif kind == 2:
                yield text[:start] + token + text[end:]
            elif kind == 3:
                yield text[:start]
            else:
                first, last = words[draw.integers(len(words))]
                other = words[draw.integers(len(words))]
                yield text[:first] + (token if draw.random() < 0.5 else text[slice(*other)]) + text[last:]
