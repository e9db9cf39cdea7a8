"""The machine: CPU and GPU units in electronic control units (ECUs)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from hdrl.base.arguments import check_type
from hdrl.base.errors import PlatformError, quoted
from hdrl.base.files import expanded, read_json
from hdrl.options.block import Block
from hdrl.options.problems import PRINTABLE
from hdrl.options.reading import checked

KINDS = ("cpu", "gpu")
"""Kinds of units, by their numbers."""

CPU, GPU = range(len(KINDS))

MAX_UNITS = 1024
"""The most units that a machine may have."""

_UNITS = r"\d{1,9}(?:cpu|gpu)(?:\+\d{1,9}(?:cpu|gpu))*"
_ECU = re.compile(rf"(?:(\d{{1,9}})x)?(?:{_UNITS}|\({_UNITS}\))", re.ASCII)
_PART = re.compile(r"(\d+)(cpu|gpu)")


@dataclass(frozen=True, slots=True)
class Units:
    """CPU and GPU units in ECUs; a unit serves its queue in the order in which it was filled, without preemption.

    Attributes
    ----------
    kinds
        Kind of each unit, a number of `KINDS`.
    ecus
        The ECU of each unit, from 0 on.
    """

    name: str
    kinds: tuple[int, ...]
    ecus: tuple[int, ...]

    @property
    def n_units(self) -> int:
        """Number of units."""
        return len(self.kinds)

    @property
    def n_ecus(self) -> int:
        """Number of ECUs."""
        return max(self.ecus) + 1

    @property
    def unit_kinds(self) -> Mapping[str, int]:
        """Number of units of each kind."""
        return {name: self.kinds.count(kind) for kind, name in enumerate(KINDS) if kind in self.kinds}

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of units in pictures and tables: ``cpu0``, or ``ecu1.gpu0`` where there are several ECUs."""
        labels, seen = [], dict[tuple[int, int], int]()
        for kind, ecu in zip(self.kinds, self.ecus, strict=True):
            number = seen[kind, ecu] = seen.get((kind, ecu), -1) + 1
            labels.append(f"{f'ecu{ecu}.' if self.n_ecus > 1 else ''}{KINDS[kind]}{number}")
        return tuple(labels)

    def sha256(self) -> str:
        """Return the SHA-256 of the units, hexadecimal; the name does not count."""
        return hashlib.sha256(json.dumps([self.kinds, self.ecus]).encode()).hexdigest()

    def facts(self) -> dict[str, Any]:
        """Return name and size, as JSON, for the provenance of a run."""
        return {"name": self.name, "n_units": self.n_units, "n_ecus": self.n_ecus, **self.unit_kinds}


def units(name: str, ecus: Iterable[Mapping[str, int]]) -> Units:
    """Return a machine by how many units of each kind each ECU has, its CPUs first.

    Parameters
    ----------
    ecus
        For each ECU the number of units by kind: ``{"cpu": 1, "gpu": 1}``.

    Raises
    ------
    PlatformError
        If an ECU is wrong, or there are no units or too many.
    """
    kinds: list[int] = []
    positions: list[int] = []
    for ecu, counts in enumerate(ecus):
        where = f"machine {name!r}: ECU {ecu}"
        if not isinstance(counts, Mapping) or not counts or any(kind not in KINDS for kind in counts):
            raise PlatformError(f"{where} is {counts!r}, expected numbers of units such as {{'cpu': 1, 'gpu': 1}}")
        for kind, known in enumerate(KINDS):
            count = counts.get(known, 0)
            if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MAX_UNITS:
                raise PlatformError(f"{where}: {known} is {count!r}, expected a whole number from 0 to {MAX_UNITS}")
            kinds += [kind] * count
        if len(kinds) == len(positions):
            raise PlatformError(f"{where} has no units")
        positions += [ecu] * (len(kinds) - len(positions))
        if len(kinds) > MAX_UNITS:
            raise PlatformError(f"machine {name!r} has more than {MAX_UNITS} units")
    if not kinds:
        raise PlatformError(f"machine {name!r} has no ECU")
    return Units(name, tuple(kinds), tuple(positions))


_Count = Annotated[int, Field(ge=0, le=MAX_UNITS)]


class _EcuInFile(Block):
    """Numbers of units of an ECU in a file."""

    cpu: _Count = 0
    gpu: _Count = 0


class _MachineInFile(Block):
    """Contents of a machine file."""

    name: Annotated[str, Field(pattern=PRINTABLE)] | None = None
    ecus: list[_EcuInFile] = Field(description='A list such as [{"cpu": 1, "gpu": 1}].')


EXPECTED = "a form such as '1cpu+1gpu', a JSON file, or what hdrl.pipelines.units returns"


def machine_of(machine: Units | str | Path) -> Units:
    """Return the machine of an argument; raise HdrlError if it cannot be read, or stands for no machine."""
    check_type("machine", machine, (Units, str, Path), EXPECTED)
    return machine if isinstance(machine, Units) else read_machine(str(machine))


def read_machine(text: str, folder: str | Path = Path()) -> Units:
    """Read a machine.

    Parameters
    ----------
    text
        ``"1cpu+1gpu"`` for one ECU, ``"2x(1cpu+1gpu)"`` for two like that, ``"4cpu,1cpu+1gpu"`` for several; or a JSON
        file ``{"name": "...", "ecus": [{"cpu": 1, "gpu": 1}, ...]}``.
    folder
        Folder that a relative path starts from.

    Raises
    ------
    PlatformError
        If it is neither.
    ReadError
        If the file cannot be read.
    """
    folder = Path(folder)
    ecus: list[dict[str, int]] = []
    for part in text.split(","):
        match = _ECU.fullmatch(part.strip())
        if match is None:
            break
        counts: dict[str, int] = {}
        for number, kind in _PART.findall(part):
            counts[kind] = counts.get(kind, 0) + int(number)
        times = int(match[1] or 1)
        if not 1 <= times <= MAX_UNITS:
            raise PlatformError(f"machine {text!r}: {times} ECUs, expected 1 to {MAX_UNITS}")
        ecus += [counts] * times
    else:
        return units(text, ecus)
    path = folder / expanded(text)
    if path.suffix != ".json":
        raise PlatformError(
            f"machine is {quoted(text)}, expected a form such as '1cpu+1gpu' or '2x(4cpu+1gpu)', or a JSON file"
        )
    found = checked(_MachineInFile, read_json(path), path)
    return units(path.stem if found.name is None else found.name, [one.model_dump() for one in found.ecus])
