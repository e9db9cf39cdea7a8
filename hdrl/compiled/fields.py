"""One table of fields, from which all is derived that there is to say about a state.

A state is a named tuple of arrays, and its class is the table: each annotation says what the array holds, how long it
is, and which part it plays. ::

    class State(NamedTuple):
        scalars: Annotated[Rows, own(SCALAR_DTYPE, "one", is_restored=True)]
        jobs: Annotated[Rows, own(JOB_DTYPE, "n_jobs")]
        speeds: Annotated[Floats, shared(np.float64, "n_units")]
        chosen: Annotated[Ints, scratch(np.int32, "n_units")]
        starts: Annotated[Rows, log(START_DTYPE, "n_log", counted_by="n_starts")]

From it follow the arrays at the beginning (`new_arrays`), the same as a batch (`repeated`, `alone`) and for another
thread (`for_another_thread`), one environment of a batch in compiled code (`first_row_of`, then
`hdrl.compiled.rows.moved_to`: what `hdrl.compiled.serving` does with any batch), how it is brought back to its
beginning (`restoring`), how its logs grow (`grown`, `doubled`), and what is saved of a batch (`saved`). A table may
hold tables, ``jobs: Jobs``, with names of fields that are unique among all of them: functions here take and return the
fields of all by these names. One that all environments of a batch share is ``Annotated[State, Role.SHARED]``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar, get_type_hints

import numpy as np
from numpy.typing import DTypeLike, NDArray

from hdrl.compiled.jit import jit
from hdrl.compiled.rows import copy_rows

T = TypeVar("T", bound=tuple[Any, ...])


class Role(Enum):
    """Whose an array is.

    ``OWN``: each environment has one; in a batch it has a leading axis. ``SHARED``: it never changes, and all
    environments of a batch share it. ``SCRATCH``: it holds nothing from one decision to the next; environments share
    it, threads do not, so that it stays in the cache however many environments there are.
    """

    OWN = "own"
    SHARED = "shared"
    SCRATCH = "scratch"


@dataclass(frozen=True, slots=True)
class Field:
    """An array of a state."""

    dtype: np.dtype[Any]  # type of its elements
    lengths: tuple[str, ...]  # its shape: names of sizes
    role: Role  # whose it is
    is_restored: bool = False  # True if an episode begins with the values of date 0 again
    is_heap: bool = False  # True if it is an indexed heap (`hdrl.compiled.heap`), which is empty when an episode begins
    counted_by: str = ""  # of a log: which of the scalars says how many rows are used
    is_output: bool = False  # True if it is handed out to who decides


def own(
    dtype: DTypeLike, *lengths: str, is_restored: bool = False, is_heap: bool = False, is_output: bool = False
) -> Field:
    """Return a field with an array for each environment: see `Field`."""
    return Field(np.dtype(dtype), lengths, Role.OWN, is_restored, is_heap, is_output=is_output)


def shared(dtype: DTypeLike, *lengths: str) -> Field:
    """Return a field that never changes: see `Field`."""
    return Field(np.dtype(dtype), lengths, Role.SHARED)


def scratch(dtype: DTypeLike, *lengths: str) -> Field:
    """Return a field that holds nothing from one decision to the next: see `Field`."""
    return Field(np.dtype(dtype), lengths, Role.SCRATCH)


def log(dtype: DTypeLike, length: str, *, counted_by: str) -> Field:
    """Return a field of each environment's own that is enlarged between two calls: see `Field`."""
    return Field(np.dtype(dtype), (length,), Role.OWN, counted_by=counted_by)


@cache
def _parts_of(kind: type[tuple[Any, ...]]) -> Mapping[str, Any]:
    """Return the parts of a state by name, in their order: fields, and the classes of tables that it holds."""
    hints = get_type_hints(kind, include_extras=True)
    names: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]
    return {
        name: hints[name].__metadata__[0] if hasattr(hints[name], "__metadata__") else hints[name] for name in names
    }


@cache
def _paths_of(kind: type[tuple[Any, ...]]) -> Mapping[str, str]:
    """Return the path of each field of a state, by its name: ``"jobs.work"``."""
    paths: dict[str, str] = {}
    for name, part in _parts_of(kind).items():
        within = (
            {one: f"{name}.{path}" for one, path in _paths_of(part).items()} if isinstance(part, type) else {name: name}
        )
        if twice := paths.keys() & within.keys():
            raise TypeError(f"{kind.__name__} has two fields {min(twice)}")
        paths |= within
    return paths


@cache
def fields_of(kind: type[tuple[Any, ...]]) -> Mapping[str, Field]:
    """Return the fields of a state by name, in their order; those of tables within it stand where the table does."""
    fields: dict[str, Field] = {}
    for name, part in _parts_of(kind).items():
        fields |= fields_of(part) if isinstance(part, type) else {name: part}
    return fields


def names_of(kind: type[tuple[Any, ...]], *roles: Role, is_output: bool | None = None) -> tuple[str, ...]:
    """Return the names of the fields that play one of some parts.

    ``is_output``: whether they are handed out; ``None``: all.
    """
    fields = fields_of(kind).items()
    return tuple(name for name, one in fields if one.role in roles and is_output in (None, one.is_output))


def arrays_of(state: tuple[Any, ...]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a state by name, in the order of `fields_of`."""
    return {name: attrgetter(path)(state) for name, path in _paths_of(type(state)).items()}


def _made_of(kind: type[T], arrays: Mapping[str, NDArray[Any]]) -> T:
    """Return a state of arrays by name."""
    parts = _parts_of(kind).items()
    return kind(*(_made_of(part, arrays) if isinstance(part, type) else arrays[name] for name, part in parts))


def sizes_of(kind: type[tuple[Any, ...]], given: Mapping[str, NDArray[Any]]) -> dict[str, int]:
    """Return the sizes that follow from arrays of one environment or of a batch."""
    sizes: dict[str, int] = {}
    for name, array in given.items():
        lengths = fields_of(kind)[name].lengths
        sizes |= dict(zip(lengths, array.shape[array.ndim - len(lengths) :], strict=True))
    return sizes


def new_arrays(
    kind: type[T], sizes: Mapping[str, int], given: Mapping[str, NDArray[Any]], n_rows: int | None = None
) -> T:
    """Return the arrays of one environment, or of a batch.

    Parameters
    ----------
    given
        Initial contents of arrays; all others begin with zeros, heaps empty.
    n_rows
        Number of environments of a batch; ``None``: one environment, without a leading axis.

    Raises
    ------
    TypeError
        If what is given is of another type or shape than the table says, or is no field.
    """
    fields = fields_of(kind)
    if unknown := given.keys() - fields.keys():
        raise TypeError(f"{kind.__name__} has no field {min(unknown)}")

    arrays = {}
    for name, field in fields.items():
        shape = tuple([sizes[length] for length in field.lengths])
        if n_rows is not None and field.role is Role.OWN:
            shape = n_rows, *shape
        array = given.get(name)
        if array is None:
            array = np.zeros(shape, dtype=field.dtype)
            if field.is_heap:
                array["position"] = -1
        elif array.dtype != field.dtype or array.shape != shape:
            found, expected = f"{array.shape} of {array.dtype}", f"{shape} of {field.dtype}"
            raise TypeError(f"{name}: {found}; the table of fields says {expected}")
        arrays[name] = np.ascontiguousarray(array)
    return _made_of(kind, arrays)


def copied(state: T) -> T:
    """Return a state with arrays of its own: what episodes begin with (`restoring`)."""
    return _made_of(type(state), {name: array.copy() for name, array in arrays_of(state).items()})


def _with_own(state: T, change: Callable[[NDArray[Any]], NDArray[Any]]) -> T:
    """Return a state whose arrays, but for those that environments share, have been changed."""
    fields = fields_of(type(state))
    changed = {name: change(array) for name, array in arrays_of(state).items() if fields[name].role is Role.OWN}
    return _replaced(state, changed)


def repeated(state: T, n_rows: int) -> T:
    """Return a batch of equal environments, each with arrays of its own, for one thread."""
    return _with_own(state, lambda array: np.stack([array] * n_rows))


def alone(state: T) -> T:
    """Return an environment as a batch of one; its arrays are views."""
    return _with_own(state, lambda array: array[None])


def first_of(batch: T) -> T:
    """Return the first environment of a batch; its arrays are views."""
    return _with_own(batch, lambda array: array[0])


def for_another_thread(batch: T) -> T:
    """Return the same environments with scratch of their own."""
    scratch_names = names_of(type(batch), Role.SCRATCH)
    return _replaced(batch, {name: one.copy() for name, one in arrays_of(batch).items() if name in scratch_names})


def _replaced(state: T, arrays: Mapping[str, NDArray[Any]]) -> T:
    return _made_of(type(state), {**arrays_of(state), **arrays})


def saved(batch: tuple[Any, ...]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a batch that change from step to step, by name, but for what is handed out.

    They are views, structured arrays as bytes, which may be written to.
    """
    fields = fields_of(type(batch))
    own = {name: one for name, one in arrays_of(batch).items() if fields[name].role is Role.OWN and one.size}
    return {
        name: one.view(np.uint8).reshape(len(one), -1) if one.dtype.names else one
        for name, one in own.items()
        if not fields[name].is_output
    }


def doubled(state: T) -> T:
    """Return the state with every log twice as long."""
    fields = fields_of(type(state))
    logs = {name: array for name, array in arrays_of(state).items() if fields[name].counted_by}
    return _replaced(state, {name: np.concatenate([old, np.zeros_like(old)], axis=1) for name, old in logs.items()})


def grown(state: T, *, margin: int) -> T:
    """Return the state with every log that is more than half full doubled.

    A log of length 0 is not kept. How many rows are used stands in the one row of ``state.scalars``.

    ``margin``: more entries than these are free afterwards.
    """
    larger = {}
    fields = fields_of(type(state))
    for name, old in arrays_of(state).items():
        field = fields[name]
        if not field.counted_by or not len(old):
            continue
        n_used = int(state.scalars[field.counted_by][0])  # type: ignore[attr-defined]
        if 2 * n_used + margin >= len(old):
            new = np.zeros(2 * len(old) + margin, dtype=old.dtype)
            new[:n_used] = old[:n_used]
            larger[name] = new
    return _replaced(state, larger)


# ------------------------------------------------------------------ compiled functions, one line for each field


def _compiled(signature: str, lines: list[str], names: Mapping[str, Any]) -> Any:
    """Return the compiled function of some lines, which know what stands under some names."""
    namespace = dict(names)
    exec("\n    ".join([f"def derived({signature}):", *(lines or ["pass"])]), namespace)
    return jit(namespace["derived"])


def first_row_of(kind: type[tuple[Any, ...]]) -> Any:
    """Return the compiled function that returns the arrays of the first environment of a batch.

    `hdrl.compiled.rows.moved_to` goes on to the others.
    """
    makers: dict[str, Any] = {}
    return _compiled("batch", [f"return {_first_row(kind, 'batch', makers)}"], makers)


def _first_row(kind: type[tuple[Any, ...]], batch: str, makers: dict[str, Any]) -> str:
    """Return Python code that makes the first environment of a batch; add its constructors to ``makers``."""
    arrays = []
    for name, part in _parts_of(kind).items():
        if isinstance(part, type):
            arrays.append(_first_row(part, f"{batch}.{name}", makers))
        else:
            is_own = isinstance(part, Field) and part.role is Role.OWN
            arrays.append(f"{batch}.{name}[0]" if is_own else f"{batch}.{name}")
    maker = f"make_{len(makers)}"
    makers[maker] = kind
    return f"{maker}({', '.join(arrays)})"


@jit
def _empty(slots):  # type: ignore[no-untyped-def]
    for slot in range(len(slots)):
        slots[slot].position = -1


def restoring(kind: type[tuple[Any, ...]]) -> Any:
    """Return the compiled ``restore(state, beginning)``: an episode begins with the values of another state.

    It copies what is restored, and empties the heaps.
    """
    fields = [(_paths_of(kind)[name], one) for name, one in fields_of(kind).items()]
    copies = [
        f"copy(state.{path}, beginning.{path}, 0, len(beginning.{path}))" for path, one in fields if one.is_restored
    ]
    empties = [f"empty(state.{path})" for path, one in fields if one.is_heap]
    return _compiled("state, beginning", copies + empties, {"copy": copy_rows, "empty": _empty})
