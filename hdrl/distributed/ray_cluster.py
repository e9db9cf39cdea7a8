"""Tasks on a Ray cluster: one that runs somewhere, or one that is started on this machine for the time being."""

from __future__ import annotations

import collections
import contextlib
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hdrl.distributed.attempts import Outcome, attempt, too_often
from hdrl.distributed.tasks import MAX_ATTEMPTS, OnResult, default_workers
from hdrl.errors import HdrlError, MissingExtra


class RayError(HdrlError):
    """A Ray cluster cannot be reached, or was lost."""


def run_on_ray(
    function: Callable[[Any], Any],
    tasks: Sequence[Any],
    *,
    address: str | None,
    n_workers: int | None,
    keep: OnResult,
    describe: Callable[[Any], str],
) -> None:
    """Work on tasks on Ray, see `hdrl.distributed.run_tasks`. Its machines need hdrl, and the files that tasks name.

    Parameters
    ----------
    function, tasks, describe
        As there.
    address
        Address of a running cluster (``auto``, ``host:port`` or ``ray://host:port``); ``None`` starts one here.
    n_workers
        How many tasks are worked on at a time; by default as many as the cluster has cores.
    keep
        Told every result.

    Raises
    ------
    MissingExtra
        If Ray is not installed.
    RayError
        If the cluster cannot be reached, or is lost.
    WorkerDied
        If the worker of one task dies too often.
    HdrlError
        If the function raises one.
    """
    try:
        import ray
    except ImportError:
        raise MissingExtra("ray", "ray") from None
    with _connected(ray, address, n_workers):
        try:
            _run(ray, function, tasks, n_workers, keep, describe)
        except (ray.exceptions.RaySystemError, ConnectionError) as error:
            raise RayError(f"the Ray cluster was lost ({_one_line(error)}); what finished is kept") from None


def _run(
    ray: Any,
    function: Callable[[Any], Any],
    tasks: Sequence[Any],
    n_workers: int | None,
    keep: OnResult,
    describe: Callable[[Any], str],
) -> None:
    """Keep as many tasks in flight as the cluster can work on, and one more for each, so that none waits for us."""
    # Ray itself does a task again whose worker or machine dies.
    remote = ray.remote(num_cpus=1, max_retries=MAX_ATTEMPTS - 1)(_attempt)
    shared = ray.put(function)
    n_in_flight = n_workers or 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
    pending = collections.deque(range(len(tasks)))
    flying: dict[Any, int] = {}
    try:
        while pending or flying:
            while pending and len(flying) < n_in_flight:
                index = pending.popleft()
                flying[remote.remote(shared, tasks[index])] = index
            done, _ = ray.wait(list(flying))
            for reference in done:
                index = flying.pop(reference)
                keep(index, _outcome(ray, reference, describe, tasks[index]).unwrap())
    finally:
        for reference in flying:
            with contextlib.suppress(Exception):
                ray.cancel(reference, force=True)


def _attempt(function: Callable[[Any], Any], task: Any) -> Outcome:
    return attempt(function, task)


def _outcome(ray: Any, reference: Any, describe: Callable[[Any], str], task: Any) -> Outcome:
    try:
        outcome: Outcome = ray.get(reference)
    except (ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError, ray.exceptions.OutOfMemoryError) as error:
        raise too_often(describe(task), MAX_ATTEMPTS, f"on Ray ({type(error).__name__})") from None
    except ray.exceptions.RayTaskError as error:
        raise RayError(f"{describe(task)}: a machine of the Ray cluster cannot run it ({_one_line(error)})") from None
    return outcome


@contextlib.contextmanager
def _connected(ray: Any, address: str | None, n_workers: int | None) -> Iterator[None]:
    """Connect to a cluster, or start one; leave alone one that this process is connected to already."""
    if ray.is_initialized():
        yield
        return
    choices: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        # Only this machine: no dashboard, no open ports.
        choices |= {"num_cpus": n_workers or default_workers(), "include_dashboard": False}
        choices |= {"_node_ip_address": "127.0.0.1"}
    else:
        choices |= {"address": address}
    with _quiet():
        try:
            ray.init(**choices)
        except (ConnectionError, TimeoutError, RuntimeError, ValueError, OSError) as error:
            where = f"ray:{address}: cannot be reached" if address else "Ray cannot be started"
            raise RayError(f"{where} ({_one_line(error)})") from None
    try:
        yield
    finally:
        with _quiet():
            ray.shutdown()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep Ray from reporting usage to its makers and from warning about what users cannot change."""
    changes = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update({name: value for name, value in changes.items() if before[name] is None})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)


def _one_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
