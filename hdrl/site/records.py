"""Accounting data of jobs, in one table whatever program wrote it: a row for each attempt to run a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

UNKNOWN = -1


class AttemptState(IntEnum):
    """Ends of attempts, and states of those that have not ended."""

    DONE = 0
    FAILED = 1
    CANCELLED = 2
    TIMEOUT = 3
    STOPPED = 4
    """The system stopped it: preempted, requeued, node failure."""
    RUNNING = 5
    PENDING = 6
    RESIZED = 7
    """Its size changed, and the next row continues it."""


RECORD_DTYPE = np.dtype(
    [
        ("job", np.int64),
        ("task", np.int64),
        ("component", np.int32),
        ("het", np.int64),
        ("number", np.int64),
        ("n_tasks", np.int32),
        ("submit_s", np.float64),
        ("eligible_s", np.float64),
        ("start_s", np.float64),
        ("end_s", np.float64),
        ("run_s", np.float64),
        ("limit_s", np.float64),
        ("cores", np.int64),
        ("requested_cores", np.int64),
        ("nodes", np.int64),
        ("gpus", np.int64),
        ("memory_kb", np.float64),
        ("state", np.int8),
        ("user", np.int32),
        ("account", np.int32),
        ("name", np.int32),
        ("qos", np.int32),
        ("partition", np.int32),
        ("cluster", np.int32),
        ("node_list", np.int32),
        ("requests", np.int32),
        ("work_dir", np.int32),
        ("submit_line", np.int32),
        ("after", np.int64),
        ("after_task", np.int64),
        ("think_s", np.float64),
    ]
)
"""One attempt to run a job.

``job``, ``task`` and ``component`` are the id: the number of the job, of its task in an array, of its component in a
het job; ``het`` a number that the components of one het job share, which `joining` gives them; ``number`` the number of
that row in the accounting; ``n_tasks`` number of waiting tasks of an array in the row. Dates are seconds since 1970 in
UTC; ``limit_s`` is infinite for no limit. ``memory_kb`` is per core. Names are numbers of `Dump.names`; ``requests`` is
the text of `submitline.requests_text` for the requests in its submit line; ``submit_line`` the program of that line,
see `submitline.program_of`. ``after`` and ``after_task`` are the job that it waited for, ``think_s`` the seconds from
the end of that one to its submission (field 18 of a log in SWF; NaN where accounting has no such field). NaN and -1:
unknown.
"""

SIMILAR_COLUMNS = ("name", "account", "work_dir", "submit_line")
"""Columns whose texts may say which jobs are similar; sites print the last two as WorkDir and SubmitLine."""

NAME_COLUMNS = ("user", "qos", "partition", "cluster", "node_list", "requests", *SIMILAR_COLUMNS)
"""Columns whose numbers stand for texts of `Dump.names`."""


def unknown_records(n_rows: int) -> NDArray[np.void]:
    """Return records of which nothing is known, array of `RECORD_DTYPE`."""
    records = np.zeros(n_rows, dtype=RECORD_DTYPE)
    for name, (kind, *_) in (RECORD_DTYPE.fields or {}).items():
        records[name] = np.nan if kind.kind == "f" else UNKNOWN
    records["n_tasks"] = 1
    return records


class Names(dict[str, int]):
    """Texts and their numbers; a new text gets the next number, an empty one is `UNKNOWN`."""

    def __missing__(self, text: str) -> int:
        number = len(self) if text else UNKNOWN
        if text:
            self[text] = number
        return number

    def numbers(self, texts: Iterable[str], n_texts: int) -> NDArray[np.int32]:
        """Return the number of each text."""
        return np.fromiter(map(self.__getitem__, texts), np.int32, n_texts)

    def texts(self) -> list[str]:
        """Return the texts by their numbers."""
        return list(self)


class Parsed(dict[str, float]):
    """Texts and the numbers that a parser reads in them, each parsed once; what it refuses is counted and unknown.

    Parameters
    ----------
    parse
        Returns the number; raises ``ValueError`` for what is none.
    unknown
        Value of a text that cannot be parsed.
    """

    def __init__(self, parse: Callable[[str], float], unknown: float) -> None:
        super().__init__()
        self.faulty: set[str] = set()
        self._parse = parse
        self._unknown = unknown

    def __missing__(self, text: str) -> float:
        try:
            value = self._parse(text)
        except (ValueError, OverflowError):
            self.faulty.add(text)
            value = self._unknown
        if len(self) < MAX_REMEMBERED:
            self[text] = value
        return value

    def values_of(self, texts: Sequence[str]) -> FloatArray:
        """Return the number of each text, shape ``(len(texts),)``."""
        return np.fromiter(map(self.__getitem__, texts), np.float64, len(texts))


MAX_REMEMBERED = 200_000
"""Texts whose numbers a `Parsed` keeps."""


def integers(values: FloatArray) -> IntArray:
    """Return whole numbers, `UNKNOWN` where a value is none or out of range."""
    is_known = np.isfinite(values) & (np.abs(values) < 2**53)
    return np.where(is_known, values, UNKNOWN).astype(np.int64)


@dataclass(slots=True)
class Dump:
    """Contents of a file of accounting data, as a reader returns them."""

    form: str  # name of the format
    records: NDArray[np.void]  # array of `RECORD_DTYPE`, in the order of the file
    names: dict[str, Names]  # the texts behind the numbers of `NAME_COLUMNS`
    n_rows: int  # rows of the file, without its header: the rows in ``records`` and all in ``skipped``
    # rows that are no attempt to run a job, or that cannot be read, by reason
    skipped: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)  # notes for the reader of the import, a sentence each
    # nodes that the dump itself describes (Kubernetes): name, cores, memory in MiB, GPUs, model of the GPUs
    nodes: list[tuple[str, int, int, int, str]] = field(default_factory=list)
    header: dict[str, str] = field(default_factory=dict)  # directives of a log in SWF
    takes_whole_nodes: bool = False  # True if jobs say how many whole nodes they had, from which their cores follow


def new_names() -> dict[str, Names]:
    """Return empty tables of names."""
    return {name: Names() for name in NAME_COLUMNS}
