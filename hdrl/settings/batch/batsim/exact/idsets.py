"""Sets of machine ids as Batsim writes them: ``"0-3 5"``."""

from __future__ import annotations

import re
from collections.abc import Iterable

_PART = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


def parse_ids(text: str, n_machines: int) -> list[int]:
    """Return the ids of a set, ascending.

    Parameters
    ----------
    text
        Ids and ranges of ids, separated by spaces.
    n_machines
        Ids must be below this.

    Raises
    ------
    ValueError
        If it is no such set, is empty, or holds an id that does not exist.
    """
    ids: set[int] = set()
    for part in text.split():
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(f"{part!r} is neither an id nor a range of ids such as '0-3'")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ValueError(f"range {part!r} is empty")
        if last >= n_machines:
            raise ValueError(f"machine {last} does not exist; ids are 0 to {n_machines - 1}")
        ids.update(range(first, last + 1))
    if not ids:
        raise ValueError("no machine is named")
    return sorted(ids)


def format_ids(ids: Iterable[int]) -> str:
    """Write a set of ids, runs of consecutive ones as ranges."""
    parts: list[str] = []
    run: list[int] = []
    for machine in sorted(ids):
        if run and machine == run[-1] + 1:
            run.append(machine)
        else:
            parts += _range(run)
            run = [machine]
    return " ".join(parts + _range(run))


def _range(run: list[int]) -> list[str]:
    if not run:
        return []
    return [str(run[0])] if len(run) == 1 else [f"{run[0]}-{run[-1]}"]
