"""Run workers, servers and replay in this process, or each in a Ray actor of its own.

Their director calls methods and gets handles, which it passes on without looking into them. On Ray, what they
hold goes from role to role by Ray's objects. Every role handles its calls in the order of the calls, so the
results depend on that order alone, and both pools give the same bytes.

A method of a role returns a pair: what others need (tensors), and what the director wants to know (a few numbers).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hdrl.base.cores import usable_cores
from hdrl.base.errors import HdrlError
from hdrl.distributed.attempts import first_line
from hdrl.distributed.tasks import check_executor


class RoleDied(HdrlError):
    """The process of a worker, a server or the replay is gone."""


@dataclass(frozen=True, slots=True)
class Handle:
    """The result of a call: ``content`` can be an argument of other calls, the director waits for ``report``."""

    content: Any
    report: Any


class LocalPool:
    """All roles in this process, one after the other: the twin of `RayPool` with the same bytes."""

    def start_role(self, role: type[Any], *arguments: Any) -> Any:
        """Make a role and return what `call` takes."""
        return role(*arguments)

    def call(self, member: Any, method: str, *arguments: Any, **named: Any) -> Handle:
        """Call a method at once; arguments that are a `Handle`, or lists of them, stand for their content."""
        content, report = getattr(member, method)(*(_opened(one) for one in arguments), **named)
        return Handle(content, report)

    def result_of(self, handle: Handle) -> Any:
        """Return the report of a call."""
        return handle.report

    def content(self, handle: Handle) -> Any:
        """Return the content of a call."""
        return handle.content

    def keep(self, content: Any, report: Any) -> Handle:
        """Return a handle of what is there already."""
        return Handle(content, report)

    def wait(self, handles: list[Handle]) -> int:
        """Return the first: all are done."""
        del handles
        return 0

    def stop_role(self, member: Any) -> None:
        """End a role."""
        if hasattr(member, "close"):
            member.close()


class RayPool:
    """Each role in a Ray actor."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._members: list[Any] = []

    def start_role(self, role: type[Any], *arguments: Any) -> Any:
        """Make an actor; workers take turns on the cores, so that there may be more of them."""
        member = self._ray.remote(num_cpus=0)(role).remote(*arguments)
        self._members.append(member)
        return member

    def call(self, member: Any, method: str, *arguments: Any, **named: Any) -> Handle:
        """Call a method, and do not wait."""
        # Ray resolves references that are arguments themselves, not those within lists.
        flat, shape = [], []
        for one in arguments:
            parts = list(one) if isinstance(one, list) else [one]
            shape.append(len(parts) if isinstance(one, list) else -1)
            flat += [part.content if isinstance(part, Handle) else part for part in parts]
        content, report = member.__ray_call__.options(num_returns=2).remote(_called, method, shape, named, *flat)
        return Handle(content, report)

    def result_of(self, handle: Handle) -> Any:
        """Wait for the report of a call.

        Raises
        ------
        RoleDied
            If the role that was called is gone.
        HdrlError
            If the call raised one.
        """
        return self._got(handle.report)

    def content(self, handle: Handle) -> Any:
        """Wait for the content of a call."""
        return self._got(handle.content)

    def keep(self, content: Any, report: Any) -> Handle:
        """Return a handle of what is there already."""
        return Handle(self._ray.put(content), self._ray.put(report))

    def wait(self, handles: list[Handle]) -> int:
        """Wait for one of some calls and return its index."""
        references = [handle.report for handle in handles]
        done, _ = self._ray.wait(references, num_returns=1)
        return references.index(done[0])

    def stop_role(self, member: Any) -> None:
        """End an actor."""
        self._ray.kill(member)
        self._members.remove(member)

    def close(self) -> None:
        """End all actors."""
        for member in self._members:
            with contextlib.suppress(Exception):
                self._ray.kill(member)
        self._members = []

    def _got(self, reference: Any) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(reference)
        except errors.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, HdrlError):
                raise HdrlError(str(cause)) from None
            if isinstance(cause, errors.RayActorError):
                raise RoleDied(first_line(cause)) from None
            raise
        except (errors.RayActorError, errors.ObjectLostError, errors.WorkerCrashedError) as error:
            raise RoleDied(first_line(error)) from None


WorkerPool = LocalPool | RayPool
"""Pool in which roles run."""


@contextlib.contextmanager
def open_pool(on: str, n_workers: int) -> Iterator[WorkerPool]:
    """Provide workers on ``"local"``, ``"ray"`` or ``"ray:<address>"``; raise HdrlError for anything else."""
    address = check_executor(on)
    if on == "local":
        yield LocalPool()
        return
    from hdrl.distributed.ray_cluster import connected

    with connected(address, max(1, min(n_workers, usable_cores()))) as ray:
        pool = RayPool(ray)
        try:
            yield pool
        finally:
            pool.close()


def _opened(argument: Any) -> Any:
    if isinstance(argument, Handle):
        return argument.content
    if isinstance(argument, list):
        return [_opened(one) for one in argument]
    return argument


def _called(role: Any, method: str, shape: Sequence[int], named: dict[str, Any], *flat: Any) -> Any:
    """Restore the arguments in the role's process, and call its method."""
    arguments: list[Any] = []
    at = 0
    for n in shape:
        arguments.append(flat[at] if n < 0 else list(flat[at : at + n]))
        at += 1 if n < 0 else n
    return getattr(role, method)(*arguments, **named)
