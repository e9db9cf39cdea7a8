"""Events that need no request: jobs that are submitted, external events, and calls at a date."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from hdrl.base.errors import ReadError
from hdrl.base.files import read_text
from hdrl.batsim.exact.actors import Sleep, Steps
from hdrl.batsim.exact.context import ExactContext
from hdrl.batsim.exact.idsets import parse_ids
from hdrl.batsim.exact.jobs import ExactJob, ExactWorkload
from hdrl.batsim.exact.messages import Called, ExternalEvents, Goodbye, Hello, Submitted
from hdrl.batsim.exact.rapidjson import loads

_SHORTEST_CALL_S = 1e-5
_RANKS = {"machine_available": 0, "machine_unavailable": 1}
MACHINE_EVENTS = tuple(_RANKS)
"""Types of external events that Batsim acts on."""

T = TypeVar("T", ExactJob, Mapping[str, Any])


def submit_jobs(context: ExactContext, workload: ExactWorkload) -> Steps[None]:
    """Be the submitter of a workload."""
    jobs = sorted(workload.jobs.values(), key=lambda job: (job.submission_s, job.id))
    yield context.server.put(context.master, Hello())
    yield from _submit(context, jobs, lambda job: job.submission_s, Submitted, first=_note_first)
    yield context.server.put(context.master, Goodbye(of_jobs=True))


def submit_events(context: ExactContext, events: list[Mapping[str, Any]]) -> Steps[None]:
    """Be the submitter of a file of external events."""
    yield context.server.put(context.master, Hello())
    yield from _submit(context, events, lambda event: float(event["timestamp"]), ExternalEvents)
    yield context.server.put(context.master, Goodbye(of_jobs=False))


def call_later(context: ExactContext, date_s: float) -> Steps[None]:
    """Be the actor that calls the scheduler at a date."""
    duration_s = date_s - context.now_s
    if duration_s > 0:
        yield Sleep(max(duration_s, _SHORTEST_CALL_S))
    yield context.server.put(context.master, Called())


def read_events(path: Path, *, n_machines: int, forward_unknown: bool) -> list[Mapping[str, Any]]:
    """Return the events of a file, one JSON object a line, in the order of their dates.

    Types that Batsim does not have are errors unless ``forward_unknown``.
    """
    events = []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if line.strip():
            event = _parse_event(path, number, line)
            _check_event(path, number, event, n_machines=n_machines, forward_unknown=forward_unknown)
            events.append(event)
    events.sort(key=lambda event: (float(event["timestamp"]), _RANKS.get(event["type"], len(_RANKS))))
    return events


def _submit(
    context: ExactContext,
    items: Iterable[T],
    date_of: Callable[[T], float],
    message: Callable[[list[T]], object],
    first: Callable[[ExactContext], Steps[None]] | None = None,
) -> Steps[None]:
    """Send all items of a date together; sleep from one date to the next."""
    woke_s = context.now_s
    batch: list[T] = []
    for item in items:
        if date_of(item) > woke_s:
            if batch:
                yield context.server.put(context.master, message(batch))
            batch = []
            yield Sleep(date_of(item) - woke_s)
            woke_s = context.now_s
        batch.append(item)
        if first is not None:
            yield from first(context)
            first = None
    if batch:
        yield context.server.put(context.master, message(batch))


def _note_first(context: ExactContext) -> Steps[None]:
    """Read the energy that the platform has used before the first submission."""
    if context.options.energy and context.outputs.first_submission_j is None:
        context.outputs.first_submission_j = yield from context.read_energy()


def _parse_event(path: Path, number: int, line: str) -> Mapping[str, Any]:
    try:
        event = loads(line)
    except (ValueError, RecursionError) as error:
        raise ReadError(path, f"is not JSON ({error})", line=number) from None
    if not isinstance(event, dict):
        raise ReadError(path, f"{line.strip()[:40]!r}, expected an object", line=number)
    return event


def _check_event(path: Path, number: int, event: Mapping[str, Any], *, n_machines: int, forward_unknown: bool) -> None:
    date_s, kind = event.get("timestamp"), event.get("type")
    if isinstance(date_s, bool) or not isinstance(date_s, int | float) or not 0 <= date_s < 1e300:
        raise ReadError(path, f"'timestamp' is {date_s!r}, expected a number of at least 0", line=number)
    if not isinstance(kind, str):
        raise ReadError(path, f"'type' is {kind!r}, expected a string", line=number)
    if kind in MACHINE_EVENTS:
        try:
            parse_ids(str(event.get("resources", "")), n_machines)
        except ValueError as error:
            raise ReadError(path, f"'resources': {error}", line=number) from None
    elif not forward_unknown:
        raise ReadError(
            path,
            f"type {kind!r} is unknown, and --forward-unknown-events is not given: Batsim would stop here",
            line=number,
        )
