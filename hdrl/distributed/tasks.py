"""The one face: tasks in, results in the same order out, wherever they are worked on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from hdrl.base.cores import usable_cores as default_workers
from hdrl.base.errors import OptionsError, suggest
from hdrl.distributed.attempts import OnResult, Starting, WorkerDied, attempt

__all__ = ["WorkerDied", "check_executor", "default_workers", "run_tasks"]

EXECUTORS = ("local", "ray")
"""Executors of tasks: processes of this machine, or a Ray cluster (``ray:<address>`` for one that runs)."""


def check_executor(on: str) -> str | None:
    """Return the address of the Ray cluster that ``--on`` names; ``None`` where it names none.

    Parameters
    ----------
    on
        ``"local"``, ``"ray"`` (one is started on this machine) or ``"ray:<address>"``.

    Raises
    ------
    OptionsError
        If it is anything else.
    """
    name, colon, address = on.partition(":")
    if name not in EXECUTORS or (colon and (name != "ray" or not address)):
        raise OptionsError(
            f"no location {on!r} for workers, expected local, ray or ray:<address>; {suggest(name, EXECUTORS)}"
        )
    return address or None


def run_tasks(
    function: Callable[[Any], Any],
    tasks: Sequence[Any],
    *,
    on: str = "local",
    n_workers: int | None = None,
    on_result: OnResult | None = None,
    describe: Callable[[Any], str] = str,
    starting: Starting = contextlib.nullcontext,
    meanwhile: Callable[[], object] | None = None,
) -> list[Any]:
    """Call a function with every task and return the results in the order of the tasks.

    The results do not depend on where and by how many workers they are made, if the function depends on nothing but
    its task. A worker that dies is replaced and its task is done again, three times at most. An exception, Ctrl-C
    included, stops all workers; ``on_result`` has been called for what was finished by then.

    Parameters
    ----------
    function
        Called with one task; it and the tasks must be picklable. It is sent to each worker once, so it may carry
        what all tasks share.
    tasks
        The tasks; each is one message, so make them worth some tenths of a second.
    on
        See `check_executor`.
    n_workers
        Number of workers at a time: by default as many as there are cores. One local worker is this process itself.
    on_result
        Called in this process, in the order in which tasks end.
    describe
        Gives a task's name for messages.
    starting
        Entered while local workers start. They start faster if it keeps this process from running other threads
        meanwhile.
    meanwhile
        Called once in this process when local workers have begun: what can be done then need not be done afterwards.
        It is not called if this process works itself.

    Raises
    ------
    OptionsError
        If it is none of these, or there are no workers.
    MissingExtra
        If Ray is requested and not installed.
    WorkerDied
        If the worker of one task dies three times.
    HdrlError
        If the function raises one, or the Ray cluster cannot be reached.
    """
    address = check_executor(on)
    if n_workers is not None and n_workers < 1:
        raise OptionsError(f"n_workers is {n_workers}, expected at least 1")
    results: list[Any] = [None] * len(tasks)

    def keep(index: int, result: Any) -> None:
        results[index] = result
        if on_result is not None:
            on_result(index, result)

    if not tasks:
        return results
    if on != "local":
        from hdrl.distributed.ray_cluster import run_on_ray

        run_on_ray(function, tasks, address=address, n_workers=n_workers, keep=keep, describe=describe)
        return results
    n_workers = min(n_workers or default_workers(), len(tasks))
    if n_workers == 1:
        for index, task in enumerate(tasks):
            keep(index, attempt(function, task).unwrap())
    else:
        from hdrl.distributed.processes import run_in_processes

        run_in_processes(
            function,
            tasks,
            n_workers=n_workers,
            keep=keep,
            describe=describe,
            starting=starting,
            meanwhile=meanwhile,
        )
    return results
