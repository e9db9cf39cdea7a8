"""Serving the rows of a batch: the one loop over environments, and the one entry that Python calls for it.

A kernel says what a request does with *one* environment, and of which numbers it knows what they mean; `serving` makes
of it the compiled function that does so with the chosen environments of a batch, alone or among threads, and that tells
illegal actions from legal ones and keeps count when a step is led. ::

    @jit
    def _serve_row(state, counts, request, row, numbers, results):
        ...

    SERVED = serving(entry, State, new_batch, serve_row=_serve_row, knows=_knows, requests=REQUESTS, module=__name__)

The first two requests of every kernel are `RESET` and `STEP`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import SimulationError
from hdrl.compiled.borrow import borrow, take_as
from hdrl.compiled.borrowed import Borrowed
from hdrl.compiled.codes import UNKNOWN_CODE, CodeTable, check_status
from hdrl.compiled.counts import ALL_LEGAL, NO_ACTION, Counts, counts_at, keep_count, new_counts, take_actions
from hdrl.compiled.fields import first_row_of
from hdrl.compiled.jit import jit
from hdrl.compiled.rows import moved_to
from hdrl.compiled.team import LEADER, Team, enter_round, leave_round, new_team, request_of, take_row

T = TypeVar("T", bound=tuple[Any, ...])
F = TypeVar("F", bound=Callable[..., Any])

RESET, STEP = range(2)
"""The requests of every batch: begin the episodes of rows anew, carry out an action in each."""

NO_NUMBERS = np.zeros(0, dtype=np.int64)


@jit
def tolerate_none(batch):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Return that no action is legal against the mask."""
    return NO_ACTION


# What stands for a kernel's own below, until `_with` puts that in its place.
_first_row: Any = None
_serve_row: Any = None
_is_valid_request: Any = None
_tolerated: Any = None
_batch_at: Any = None
_rows: Any = None


def _serve_rows(batch, counts, team, member, chosen, numbers, results):  # type: ignore[no-untyped-def]
    """Carry out a request in chosen environments, as long as there are any to take."""
    request = request_of(team)
    state = borrow(_first_row(batch))
    row = take_row(team, member)
    while row >= 0:
        if chosen[row]:
            state = moved_to(state, batch, row)
            _serve_row(state, counts, request, row, numbers, results)
        row = take_row(team, member)


def _serve(positions, counts, team, request, member, chosen, numbers, results):  # type: ignore[no-untyped-def]
    """Carry out a request in chosen environments, alone or with others; who does not lead helps for a while.

    Returns the first environment whose action is illegal or `UNKNOWN_CODE` (nothing has happened then), and how many
    episodes a step has ended.
    """
    batch, borrowed_counts = _batch_at(positions), counts_at(counts)
    if not _is_valid_request(batch, request, numbers):
        return UNKNOWN_CODE, 0
    leads_step = member == LEADER and request == STEP
    if leads_step:
        illegal = take_actions(borrowed_counts, chosen, numbers, _tolerated(batch))
        if illegal != ALL_LEGAL:
            return illegal, 0
    is_on = enter_round(team, request, member)
    while is_on:
        _rows(batch, borrowed_counts, team, member, chosen, numbers, results)
        is_on = leave_round(team, member)
    return ALL_LEGAL, keep_count(borrowed_counts, chosen) if leads_step else 0


def _with(function: Any, module: str, **names: Any) -> Any:
    """Return a function whose names stand for something else; compiled, it is cached under its module and own name."""
    made = FunctionType(function.__code__, {**function.__globals__, "__name__": module, **names}, function.__name__)
    made.__qualname__ = function.__name__.removeprefix("_")
    return made


_NO_COUNTS = Borrowed(new_counts(0, 0))

UsedCodes = Iterable[tuple[CodeTable, int]]


class Served(Generic[T]):
    """Requests to the environments of a batch; see `serving`, which makes it.

    ``used_codes``: returns, for a batch, a request and its numbers, what is looked up in tables, for messages.
    """

    def __init__(
        self,
        call: Callable[..., tuple[int, int]],
        requests: CodeTable,
        used_codes: Callable[[T, int, Sequence[int]], UsedCodes],
        n_results: int,
    ) -> None:
        self._call = call
        self._requests = requests
        self._used_codes = used_codes
        self._n_results = n_results
        self._no_results = np.zeros((n_results, 0))

    def _serve(
        self,
        batch: Borrowed[T],
        counts: Borrowed[Counts],
        team: Team,
        request: int,
        member: int,
        chosen: NDArray[np.bool_],
        numbers: NDArray[np.int64],
        results: NDArray[np.float64],
    ) -> tuple[int, int]:
        illegal, n_ended = self._call(
            batch.addresses, counts.addresses, team, request, member, chosen, numbers, results
        )
        if illegal == UNKNOWN_CODE:
            given = numbers.tolist()
            check_status(illegal, (self._requests, request), *self._used_codes(batch.arrays, request, given))
            raise SimulationError(f"the numbers of request {request} do not go together: {given}")
        return illegal, n_ended

    def reset(
        self, batch: Borrowed[T], team: Team, chosen: NDArray[np.bool_], counts: Borrowed[Counts] = _NO_COUNTS
    ) -> None:
        """Begin the episodes of the chosen environments, up to their first decisions.

        Parameters
        ----------
        batch
            The arrays; what the episodes consist of has been written into them.
        team
            Threads that share the rows, see `hdrl.compiled.team`.
        counts
            Counts of the steps, where a reset writes something into it, such as masks.

        Raises
        ------
        SimulationError
            If a number that the episodes depend on is in no table.
        """
        self._serve(batch, counts, team, RESET, LEADER, chosen, NO_NUMBERS, self._no_results)

    def step(
        self,
        batch: Borrowed[T],
        counts: Borrowed[Counts],
        team: Team,
        chosen: NDArray[np.bool_],
        actions: NDArray[np.int64],
    ) -> tuple[int, int]:
        """Carry out actions up to the next decisions.

        Returns
        -------
        tuple
            The first of the environments whose action is illegal, `ALL_LEGAL` if there is none: nothing has happened
            otherwise; and how many episodes have ended.
        """
        return self._serve(batch, counts, team, STEP, LEADER, chosen, actions, self._no_results)

    def help(
        self, batch: Borrowed[T], counts: Borrowed[Counts], team: Team, member: int, chosen: NDArray[np.bool_]
    ) -> None:
        """Help with `reset` and `step` of another thread, until nothing has been to do for a while."""
        self._serve(batch, counts, team, STEP, member, chosen, NO_NUMBERS, self._no_results)

    def call(
        self,
        batch: Borrowed[T],
        request: int,
        chosen: NDArray[np.bool_],
        numbers: NDArray[np.int64] = NO_NUMBERS,
        counts: Borrowed[Counts] = _NO_COUNTS,
    ) -> NDArray[np.float64]:
        """Carry out any other request in chosen environments, on one thread; return the results, by number and row."""
        results = np.zeros((self._n_results, len(chosen)))
        self._serve(batch, counts, new_team(len(chosen)), request, LEADER, chosen, numbers, results)
        return results


def _no_tables(batch: tuple[Any, ...], request: int, numbers: Sequence[int]) -> UsedCodes:
    del batch, request, numbers
    return ()


def serving(
    entry: Callable[[Any], Any],
    kind: type[T],
    example: Callable[[], T],
    *,
    serve_row: Any,
    is_valid: Any,
    requests: CodeTable,
    module: str,
    used_codes: Callable[[T, int, Sequence[int]], UsedCodes] = _no_tables,
    tolerated: Any = tolerate_none,
    n_results: int = 1,
) -> Served[T]:
    """Return the server of requests to the environments of batches.

    Parameters
    ----------
    entry
        Compiles what Python calls, see `hdrl.compiled.jit.entry_in`.
    example
        Returns a batch of the same types; it is called when something is compiled.
    serve_row
        The compiled ``serve_row(state, counts, request, row, numbers, results)``: carries out a request in one
        environment, which is a row of its batch. It writes what a step gives into ``counts``, at its row.
    is_valid
        The compiled ``is_valid(batch, request, numbers)``: whether all numbers that a request depends on are in tables.
    requests
        The table of requests; the first are `RESET` and `STEP`.
    module
        Name of the kernel's module, under which the code is cached.
    tolerated
        The compiled ``tolerated(batch)``: which action is legal whatever the mask says, or `NO_ACTION`.
    """
    rows = _with(_serve_rows, module, _first_row=first_row_of(kind), _serve_row=serve_row)
    names = {"_batch_at": take_as(example), "_is_valid_request": is_valid, "_tolerated": tolerated, "_rows": jit(rows)}
    return Served(entry(_with(_serve, module, **names)), requests, used_codes, n_results)
