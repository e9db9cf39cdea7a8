"""Reading and writing pipelines: files as rlschedsim has them, and our own JSON, which holds a whole set."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from hdrl.base.errors import OptionsError, ReadError, WorkloadError, quoted, suggest
from hdrl.base.files import read_json, read_text, write_json
from hdrl.base.textnumbers import float_of
from hdrl.options.block import Block
from hdrl.options.problems import PRINTABLE
from hdrl.options.reading import checked
from hdrl.settings.pipelines.loads.pipeline import MAX_US, NEVER, Group, Kernel, Pipeline
from hdrl.settings.pipelines.machine import MAX_UNITS

TIME_UNITS: Mapping[str, int] = {"s": 1_000_000, "ms": 1_000, "us": 1}
"""Units of times in files, in microseconds."""

LONGEST_S = 60
"""A kernel that takes longer is taken for a mistake about the unit."""

MAX_CONFIGURATIONS = 20_000
"""Largest number of combinations of periods that are processed one by one."""

_PERIODS = re.compile(r"\s*([^=\s]+)\s*=\s*\[([^\[\]]*)\]\s*")
_UNIT = re.compile(r"#\s*unit:\s*(\S+)\s*")


@dataclass(frozen=True, slots=True)
class PipelineSet:
    """Pipelines, and the possible periods of each in microseconds."""

    name: str
    pipelines: tuple[Pipeline, ...]
    periods_us: tuple[tuple[int, ...], ...]

    @property
    def n_configurations(self) -> int:
        """Number of combinations of periods; it may have many digits."""
        return math.prod(map(len, self.periods_us))

    def configuration(self, number: int) -> tuple[int, ...]:
        """Return combination ``number`` of the periods; the last pipeline's changes fastest, as in rlschedsim."""
        found = []
        for choices in reversed(self.periods_us):
            number, position = divmod(number, len(choices))
            found.append(choices[position])
        return tuple(reversed(found))

    def configurations(self) -> Iterator[tuple[int, ...]]:
        """Yield all combinations of periods in the order of their numbers.

        Raise WorkloadError if there are more than `MAX_CONFIGURATIONS`.
        """
        n = self.n_configurations
        if n > MAX_CONFIGURATIONS:
            shown = f"{n:,}" if n < 10**15 else f"about 1e{int(n.bit_length() * math.log10(2))}"
            raise WorkloadError(
                f"{self.name}: has {shown} combinations of periods, too many to take all (at most "
                f"{MAX_CONFIGURATIONS:,}); choose one by load.configuration, or some by load.contexts"
            )
        return itertools.product(*self.periods_us)


def read_graph(path: str | Path, unit: str = "s") -> Pipeline:
    """Read a ``.graph`` file of rlschedsim.

    The first line says how many kernels and edges there are; then come lines ``name:cpu,gpu``, lines ``from to``, and
    lines ``kernels:cpu,gpu`` of fused groups. Times are rounded up to whole microseconds, since they are worst cases.

    Parameters
    ----------
    unit
        Unit of its times, a name of `TIME_UNITS`; a first line ``# unit: ms`` goes before it.

    Raises
    ------
    OptionsError
        If there is no such unit.
    ReadError
        If the file is of another form.
    """
    path = Path(path)
    text = read_text(path)
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    if lines and (match := _UNIT.fullmatch(lines[0][1])):
        unit = match[1]
        lines.pop(0)
    if unit not in TIME_UNITS:
        raise OptionsError(f"{path}: unit of times is {unit!r}; {suggest(unit, TIME_UNITS)}")
    if not lines:
        raise ReadError(path, "is empty, expected a line with the numbers of kernels and edges")
    (first, header), *rest = lines
    n_kernels, n_edges = _two_numbers(path, first, header, "numbers of kernels and edges")
    if len(rest) < n_kernels + n_edges:
        raise ReadError(
            path, f"{n_kernels} kernels and {n_edges} edges are announced, but {len(rest)} lines follow", first
        )
    kernels = [_kernel(path, *line, unit, n_kernels) for line in rest[:n_kernels]]
    what = f"two kernels: {n_edges} edges are announced"
    edges = [_two_numbers(path, *line, what) for line in rest[n_kernels : n_kernels + n_edges]]
    groups = [_group(path, *line, unit) for line in rest[n_kernels + n_edges :]]
    try:
        return Pipeline(path.stem, tuple(kernels), tuple(edges), tuple(groups))
    except WorkloadError as error:
        raise ReadError(path, str(error).partition(": ")[2]) from None


def _kernel(path: Path, number: int, line: str, unit: str, n_kernels: int) -> Kernel:
    name, _, times = line.rpartition(":")
    if not name:
        raise ReadError(path, f"holds {line!r}, expected a kernel (name:cpu,gpu): {n_kernels} are announced", number)
    return Kernel(name.strip(), *_times_us(path, number, times, unit))


def _group(path: Path, number: int, line: str, unit: str) -> Group:
    members, _, times = line.rpartition(":")
    if not re.fullmatch(r"\d{1,9}(\s*,\s*\d{1,9})*", members.strip(), re.ASCII):
        raise ReadError(path, f"holds {line!r}, expected a fused group (0,1,2:cpu,gpu)", number)
    return Group(tuple(sorted(int(one) for one in members.split(","))), *_times_us(path, number, times, unit))


def _two_numbers(path: Path, number: int, line: str, what: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,9})\s+(\d{1,9})", line, re.ASCII)
    if match is None:
        raise ReadError(path, f"holds {line!r}, expected {what}", number)
    return int(match[1]), int(match[2])


def _times_us(path: Path, number: int, text: str, unit: str) -> tuple[int, int]:
    parts = text.split(",")
    if len(parts) != 2:
        raise ReadError(
            path, f"holds {len(parts)} time{'s' * (len(parts) > 1)}, expected two, on a CPU and on a GPU", number
        )
    cpu_us, gpu_us = (_time_us(path, number, part.strip(), unit) for part in parts)
    return cpu_us, gpu_us


def _time_us(path: Path, number: int, text: str, unit: str) -> int:
    try:
        float_of(text)  # decimals themselves are read less strictly
        value = Decimal(text) * TIME_UNITS[unit]
    except (ArithmeticError, ValueError):  # no number, or one that is beyond all bounds
        raise ReadError(path, f"holds {text!r}, expected a time in {unit}", number) from None
    if not value.is_finite() or value <= 0:
        raise ReadError(path, f"holds a time of {text} {unit}, expected more than 0", number)
    if value > LONGEST_S * TIME_UNITS["s"]:
        raise ReadError(
            path,
            f"holds a time of {text} {unit}, longer than {LONGEST_S} s; if the unit differs, name it",
            number,
        )
    return int(value.to_integral_value("ROUND_CEILING"))


def read_period_file(path: Path, *, graphs: Path | None = None, unit: str = "s") -> PipelineSet:
    """Read a period file of rlschedsim with the graphs that it names.

    Each line is ``file.graph=[periods in ms]``.

    Raises
    ------
    ReadError
        If one of the files is of another form.
    """
    pipelines: list[Pipeline] = []
    periods = []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if not line.strip():
            continue
        match = _PERIODS.fullmatch(line)
        if match is None:
            raise ReadError(path, f"holds {line.strip()!r}, expected a line such as cnn.graph=[340,680,1020]", number)
        choices = tuple(_time_us(path, number, text.strip(), "ms") for text in match[2].split(","))
        graph = (graphs or path.parent) / match[1]
        if not graph.exists():
            raise ReadError(path, f"no graph {graph}; load.graphs says in which folder graphs are", number)
        pipeline = read_graph(graph, unit)
        same = sum(one.name.partition("#")[0] == pipeline.name for one in pipelines)
        pipelines.append(replace(pipeline, name=f"{pipeline.name}#{same + 1}") if same else pipeline)
        periods.append(choices)
    if not pipelines:
        raise ReadError(path, "is empty, expected lines such as cnn.graph=[340,680,1020]")
    return PipelineSet(path.stem, tuple(pipelines), tuple(periods))


MAX_NAME = 200
"""Characters of the longest name."""

_TimeUs = Annotated[int, Field(ge=1, le=MAX_US)]
_DateUs = Annotated[int, Field(ge=0, le=MAX_US)]
_Name = Annotated[str, Field(max_length=MAX_NAME, pattern=PRINTABLE)]


class _OptionInFile(Block):
    """Times of a kernel or a group in a file."""

    cpu_us: _TimeUs = NEVER
    gpu_us: _TimeUs = NEVER


class _KernelInFile(_OptionInFile):
    """A kernel in a file."""

    name: _Name | None = None


class _GroupInFile(_OptionInFile):
    """A fused group in a file."""

    kernels: list[int] = Field(description="The numbers of its kernels, ascending.")


class _PipelineInFile(Block):
    """A pipeline in a file."""

    name: _Name | None = None
    kernels: list[_KernelInFile] = Field(description="The kernels with their times.")
    edges: list[Annotated[tuple[int, int], Field(strict=False)]] = Field(default_factory=list)
    groups: list[_GroupInFile] = Field(default_factory=list)
    periods_us: Annotated[list[_TimeUs], Field(min_length=1)] = Field(description="A list of whole microseconds.")
    phase_us: _DateUs = 0
    tolerance_us: _DateUs = 0
    deadline_us: _DateUs = 0
    ecu: Annotated[int, Field(ge=-1, lt=MAX_UNITS)] = -1


class _SetInFile(Block):
    """Contents of a file of pipelines."""

    name: _Name | None = None
    pipelines: Annotated[list[_PipelineInFile], Field(min_length=1)] = Field(description="A list of pipelines.")


def read_set(path: str | Path, *, graphs: str | Path | None = None, unit: str = "s") -> PipelineSet:
    """Read pipelines and their periods: our JSON, or a period file of rlschedsim.

    Raise ReadError if it is neither.

    Parameters
    ----------
    path
        The file; JSON if its name ends so.
    """
    path = Path(path)
    graphs = None if graphs is None else Path(graphs)
    if path.suffix != ".json" and not path.name.endswith(".json.gz"):
        return read_period_file(path, graphs=graphs, unit=unit)
    found = checked(_SetInFile, read_json(path), path)
    try:
        pipelines = tuple(_pipeline_of(one, str(number)) for number, one in enumerate(found.pipelines))
    except WorkloadError as error:
        raise ReadError(path, str(error)) from None
    names = [one.name for one in pipelines]
    for position, one in enumerate(names):
        if one in names[:position]:
            raise ReadError(path, f"pipelines {names.index(one)} and {position} have the same name {quoted(one)}")
    name = path.stem if found.name is None else found.name
    return PipelineSet(name, pipelines, tuple(tuple(one.periods_us) for one in found.pipelines))


def _pipeline_of(found: _PipelineInFile, number: str) -> Pipeline:
    return Pipeline(
        number if found.name is None else found.name,
        tuple(
            Kernel(str(k) if one.name is None else one.name, one.cpu_us, one.gpu_us)
            for k, one in enumerate(found.kernels)
        ),
        tuple(found.edges),
        tuple(Group(tuple(one.kernels), one.cpu_us, one.gpu_us) for one in found.groups),
        found.phase_us,
        found.tolerance_us,
        found.deadline_us,
        found.ecu,
    )


def write_set(found: PipelineSet, path: str | Path) -> None:
    """Write pipelines and their periods as our JSON; raise OutputError if it cannot be written."""
    path = Path(path)
    write_json(path, {"name": found.name, "pipelines": _as_json(found.pipelines, found.periods_us)}, indent=1)


def _as_json(pipelines: Sequence[Pipeline], periods_us: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
    def times(one: Kernel | Group) -> dict[str, int]:
        return {key: time_us for key, time_us in (("cpu_us", one.cpu_us), ("gpu_us", one.gpu_us)) if time_us != NEVER}

    return [
        {
            "name": one.name,
            "kernels": [{"name": kernel.name, **times(kernel)} for kernel in one.kernels],
            "edges": [list(edge) for edge in one.edges],
            "groups": [{"kernels": list(group.kernels), **times(group)} for group in one.groups],
            "periods_us": list(choices),
            "phase_us": one.phase_us,
            "tolerance_us": one.tolerance_us,
            "deadline_us": one.deadline_us,
            "ecu": one.ecu,
        }
        for one, choices in zip(pipelines, periods_us, strict=True)
    ]
