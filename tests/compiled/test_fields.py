"""One table of fields: what is added to it is found everywhere."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from hdrl.compiled.borrow import take_as
from hdrl.compiled.borrowed import Borrowed
from hdrl.compiled.fields import (
    Role,
    alone,
    arrays_of,
    copied,
    fields_of,
    first_row_of,
    for_another_thread,
    grown,
    log,
    names_of,
    new_arrays,
    own,
    repeated,
    restoring,
    saved,
    scratch,
    shared,
)
from hdrl.compiled.heap import SLOT_DTYPE
from hdrl.compiled.records import record_dtype
from hdrl.settings.batch.kernel.state import BatchState

SCALARS = record_dtype([("now_s", np.float64), ("n_starts", np.int64)])
SIZES = {"one": 1, "n_units": 3, "n_log": 4}


class Before(NamedTuple):
    scalars: Annotated[NDArray[np.void], own(SCALARS, "one", is_restored=True)]
    speeds: Annotated[NDArray[np.float64], shared(np.float64, "n_units")]


def with_field(field: Any) -> type[tuple[Any, ...]]:
    """Return the table with one field more, in the middle."""
    hints = {"scalars": Before.__annotations__["scalars"], "added": field, "speeds": Before.__annotations__["speeds"]}
    return NamedTuple("After", hints.items())


GIVEN = {"speeds": np.array([1.0, 2.0, 3.0])}
OWN = Annotated[NDArray[np.float64], own(np.float64, "n_units", is_restored=True)]
HEAP = Annotated[NDArray[np.void], own(SLOT_DTYPE, "n_units", is_heap=True)]
SHARED = Annotated[NDArray[np.int32], shared(np.int32, "n_units")]
SCRATCH = Annotated[NDArray[np.int32], scratch(np.int32, "n_units")]
LOG = Annotated[NDArray[np.int32], log(np.int32, "n_log", counted_by="n_starts")]


def new(field: Any, n_rows: int | None = None) -> Any:
    return new_arrays(with_field(field), SIZES, GIVEN, n_rows)


class Inner(NamedTuple):
    added: OWN
    slots: HEAP
    events: LOG


class Outer(NamedTuple):
    inner: Inner
    scalars: Annotated[NDArray[np.void], own(SCALARS, "one", is_restored=True)]
    speeds: Annotated[NDArray[np.float64], shared(np.float64, "n_units")]


def test_fields_of_a_table_within_a_table() -> None:
    assert list(fields_of(Outer)) == ["added", "slots", "events", "scalars", "speeds"]
    state = new_arrays(Outer, SIZES, GIVEN)
    batch = repeated(state, 2)
    assert (batch.inner.added.shape, batch.scalars.shape) == ((2, 3), (2, 1))
    assert batch.speeds is state.speeds
    assert arrays_of(batch)["events"] is batch.inner.events
    assert set(saved(batch)) == {"added", "slots", "events", "scalars"}

    first_row, batch_at = first_row_of(Outer), take_as(lambda: batch)
    restore = restoring(Outer)

    @numba.njit
    def change_first(addresses):  # type: ignore[no-untyped-def]
        row = first_row(batch_at(addresses))
        row.inner.added[1] = 5.0
        row.inner.slots[2].position = 0

    @numba.njit
    def bring_back(whole, first):  # type: ignore[no-untyped-def]
        restore(whole, first)

    change_first(Borrowed(batch).addresses)
    assert batch.inner.added.tolist() == [[0.0, 5.0, 0.0], [0.0, 0.0, 0.0]]
    one, beginning = copied(state), copied(state)
    one.inner.added[:], one.inner.slots["position"], one.scalars["n_starts"] = 7.0, 1, 3
    assert grown(one, margin=1).inner.events.shape == (9,)
    bring_back(one, beginning)
    assert (one.inner.added.tolist(), one.inner.slots["position"].tolist()) == ([0.0] * 3, [-1] * 3)


def test_names_of_fields_are_unique() -> None:
    class Twice(NamedTuple):
        inner: Inner
        added: OWN

    Twice.__annotations__ = {"inner": Inner, "added": OWN}
    with pytest.raises(TypeError, match="Twice has two fields added"):
        arrays_of(Twice(new_arrays(Inner, SIZES, {}), np.zeros(3)))


@pytest.mark.parametrize(
    ("field", "role", "of_one", "of_two"),
    [
        (OWN, Role.OWN, (3,), (2, 3)),
        (HEAP, Role.OWN, (3,), (2, 3)),
        (SHARED, Role.SHARED, (3,), (3,)),
        (SCRATCH, Role.SCRATCH, (3,), (3,)),
        (LOG, Role.OWN, (4,), (2, 4)),
    ],
    ids=["own", "heap", "shared", "scratch", "log"],
)
def test_a_field_that_is_added_is_in_every_list(field: Any, role: Role, of_one: Any, of_two: Any) -> None:
    state, batch = new(field), new(field, 2)
    kind = type(state)
    assert list(fields_of(kind)) == ["scalars", "added", "speeds"]
    assert "added" in names_of(kind, role)
    assert "added" not in names_of(kind, *set(Role) - {role})
    assert (state.added.shape, batch.added.shape) == (of_one, of_two)
    assert repeated(state, 2).added.shape == of_two
    assert alone(state).added.shape == (1, *of_one) if role is Role.OWN else of_one
    other = for_another_thread(batch)
    assert (other.added is batch.added) is (role is not Role.SCRATCH)
    assert copied(state).added is not state.added

    first_row, batch_at = first_row_of(kind), take_as(lambda: batch)

    @numba.njit
    def shape_of_first(positions):  # type: ignore[no-untyped-def]
        return first_row(batch_at(positions)).added.shape

    assert shape_of_first(Borrowed(batch).addresses) == of_one


@pytest.mark.parametrize("field", [OWN, HEAP], ids=["copied", "emptied"])
def test_a_field_that_is_added_is_brought_back(field: Any) -> None:
    state = new(field)
    beginning = copied(state)
    restore = restoring(type(state))

    @numba.njit
    def bring_back(whole, first):  # type: ignore[no-untyped-def]
        restore(whole, first)

    values = state.added["position"] if field is HEAP else state.added
    assert set(values.tolist()) == {-1 if field is HEAP else 0.0}
    values[:], state.scalars["now_s"] = 7, 5.0
    bring_back(state, beginning)
    assert set(values.tolist()) == {-1 if field is HEAP else 0.0}
    assert state.scalars["now_s"][0] == 0.0


def test_a_log_that_is_added_grows() -> None:
    state = new(LOG)
    state.added[:3] = 1, 2, 3
    assert grown(state, margin=1) is not state
    assert grown(state, margin=1).added is state.added
    state.scalars["n_starts"] = 3
    larger = grown(state, margin=1)
    assert larger.added.tolist() == [1, 2, 3, 0, 0, 0, 0, 0, 0]
    assert larger.speeds is state.speeds


def test_what_is_given_is_what_the_table_says() -> None:
    kind = with_field(OWN)
    for wrong, message in [
        ({"added": np.zeros(2)}, r"added: \(2,\) of float64; the table of fields says \(3,\) of float64"),
        ({"added": np.zeros(3, dtype=np.float32)}, r"added: \(3,\) of float32; the table of fields says"),
        ({"adder": np.zeros(3)}, "After has no field adder"),
    ]:
        with pytest.raises(TypeError, match=message):
            new_arrays(kind, SIZES, GIVEN | wrong)


def test_restored_fields_of_the_kernel() -> None:
    """What an episode does not begin with anew belongs to its window, its policy, or is written before it is read."""
    names = {name for name, field in fields_of(BatchState).items() if field.role is Role.OWN}
    names -= {name for name, field in fields_of(BatchState).items() if field.is_restored or field.is_heap}
    assert {"jobs", "order", "submitters", "twister"} < names
    assert not {"scalars", "cores", "free", "n_free", "free_memory_mib"} & names
