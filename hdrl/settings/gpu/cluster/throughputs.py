"""Speeds of kinds of jobs on types of GPUs: a table, read from Gavel's JSON."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import ReadError, WorkloadError, quoted, suggest
from hdrl.base.files import open_bytes
from hdrl.options.problems import shown
from hdrl.settings.gpu.cluster.machine import MAX_GPUS, GpuCluster

Profile: TypeAlias = tuple[str, int]
"""A kind of job and a number of GPUs."""

SPREAD = "_unconsolidated"
"""Suffix of a type's name in the table for gangs that lie on more nodes than they would need."""

MAX_RATE = 1e12
"""The most steps per second that a table may hold."""

ALONE = "null"
"""The key of a job that has its GPUs for itself."""


@dataclass(frozen=True)
class Throughputs:
    """Steps per second of kinds of jobs.

    Attributes
    ----------
    name
        Its source, for messages.
    alone
        By type and profile: steps per second on GPUs of its own.
    spread
        The same for gangs on more nodes than they would need; types that are not in it lose nothing.
    pairs
        By type, profile and profile: steps per second of both when they share GPUs.
    """

    name: str
    alone: Mapping[str, Mapping[Profile, float]]
    spread: Mapping[str, Mapping[Profile, float]]
    pairs: Mapping[str, Mapping[tuple[Profile, Profile], tuple[float, float]]]

    @cached_property
    def profiles(self) -> tuple[Profile, ...]:
        """All kinds and numbers of GPUs that some type has a throughput for, sorted."""
        return tuple(sorted({one for table in self.alone.values() for one in table}))

    @cached_property
    def _types(self) -> dict[str, str]:
        """The types of ``alone`` by their names in small letters; of two that differ in case alone, the first."""
        return {known.lower(): known for known in reversed(list(self.alone))}

    def rate(self, gpu_type: str, profile: Profile, *, is_spread: bool = False) -> float:
        """Return steps per second of a gang.

        Parameters
        ----------
        is_spread
            True if it lies on more nodes than it would need.

        Raises
        ------
        WorkloadError
            If the table has nothing about the kind.
        """
        known = self._types.get(gpu_type.lower())
        if known is None:
            raise WorkloadError(f"{self.name}: no type of GPUs {gpu_type!r}; {suggest(gpu_type, self.alone)}")
        table = self.alone[known]
        found = table.get(profile)
        if found is None:
            kinds = sorted({f"{kind} x {size}" for kind, size in table})
            text = f"{profile[0]} x {profile[1]}"
            raise WorkloadError(f"{self.name}: no throughput of {text} on {known}; {suggest(text, kinds)}")
        return self.spread.get(known, {}).get(profile, found) if is_spread else found

    def rates(self, cluster: GpuCluster, profiles: Iterable[Profile]) -> NDArray[np.float64]:
        """Return steps per second on all types of a cluster, shape ``(n_profiles, n_types, 2)``: together, spread."""
        return np.array(
            [
                [[self.rate(one.name, profile, is_spread=spread) for spread in (False, True)] for one in cluster.types]
                for profile in profiles
            ]
        ).reshape(-1, len(cluster.types), 2)

    def pair_rates(self, gpu_types: Sequence[str], profiles: Sequence[Profile]) -> NDArray[np.float64]:
        """Return steps per second of both jobs of pairs, shape ``(n_profiles, n_profiles, n_types, 2)``.

        0 where jobs differ in their number of GPUs, or the table has nothing about them.
        """
        found = np.zeros((len(profiles), len(profiles), len(gpu_types), 2))
        tables = {name.lower(): table for name, table in self.pairs.items()}
        for t, name in enumerate(gpu_types):
            table = tables.get(name.lower(), {})
            for i, one in enumerate(profiles):
                for k, other in enumerate(profiles):
                    if one[1] == other[1]:
                        found[i, k, t] = table.get((one, other), table.get((other, one), (0.0, 0.0))[::-1])
        return found

    def sha256(self) -> str:
        """Return the SHA-256 of all throughputs."""
        parts = [
            sorted((kind, repr(profile), rate) for kind, table in tables.items() for profile, rate in table.items())
            for tables in (self.alone, self.spread, self.pairs)
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def read_throughputs(path: str | Path) -> Throughputs:
    """Read a table in the form of Gavel's ``simulation_throughputs.json``, packed by gzip or not.

    Raise ReadError if it cannot be read, or is of another form.

    Parameters
    ----------
    path
        The file: type -> ``"('kind', GPUs)"`` -> ``"null"`` or another kind -> steps per second.
    """
    path = Path(path)
    try:
        with open_bytes(path, by_content=True) as file:
            data = json.loads(file.read())
    except ValueError as error:
        raise ReadError(path, f"is not JSON: {error}") from None
    except (RecursionError, MemoryError):
        raise ReadError(path, "is nested too deeply, or does not fit into the memory") from None
    alone: dict[str, dict[Profile, float]] = {}
    spread: dict[str, dict[Profile, float]] = {}
    pairs: dict[str, dict[tuple[Profile, Profile], tuple[float, float]]] = {}
    try:
        for name, table in _items(data, "the whole"):
            _items(table, name)
            known = {text: _profile(text) for text in table}
            (spread if name.endswith(SPREAD) else alone)[name.removesuffix(SPREAD)] = {
                known[text]: _rate(dict(_items(row, f"{name}, {text}")).get(ALONE), f"{name}, {text}, {ALONE}")
                for text, row in table.items()
            }
            if not name.endswith(SPREAD):
                pairs[name] = {
                    (known[text], _profile(other)): _both(both, f"{name}, {text}, {other}")
                    for text, row in table.items()
                    for other, both in row.items()
                    if other != ALONE
                }
    except _InvalidTable as error:
        raise ReadError(path, f'{error}, expected Gavel\'s form: type, "(\'kind\', GPUs)", "null", a number') from None
    if not alone:
        raise ReadError(path, "holds no type of GPUs, expected Gavel's form")
    return Throughputs(path.name, alone, spread, pairs)


class _InvalidTable(Exception):
    """Error in a table; its message says what is wrong."""


def _items(value: Any, where: str) -> Any:
    if not isinstance(value, Mapping):
        raise _InvalidTable(f"{where} is not an object")
    return value.items()


def _profile(text: str) -> Profile:
    try:
        kind, size = ast.literal_eval(text)
        if not 1 <= size <= MAX_GPUS:
            raise ValueError
        return str(kind), int(size)
    except (TypeError, ValueError, SyntaxError, RecursionError, MemoryError):
        raise _InvalidTable(f"{quoted(text)} is not a kind of job with its GPUs") from None


def _rate(value: Any, where: str) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= MAX_RATE:
        raise _InvalidTable(f"{where} is {shown(value)}, not a throughput from 0 to {MAX_RATE:g}")
    return float(value)


def _both(value: Any, where: str) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2:
        raise _InvalidTable(f"{where} is not a throughput for each of the two jobs")
    return _rate(value[0], where), _rate(value[1], where)
