"""Tasks on a Ray cluster: one that runs somewhere, or one that is started on this machine for the time being."""

from __future__ import annotations

import collections
import contextlib
import logging
import os
import socket
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hdrl.base.cores import usable_cores
from hdrl.base.errors import HdrlError, MissingExtra
from hdrl.distributed.attempts import MAX_ATTEMPTS, Attempted, OnResult, attempt, first_line, repeated_failure

PATIENCE_S = 5.0
"""Time that a cluster may take to answer a first request, in seconds."""


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
    address
        Address of a running cluster (``auto``, ``host:port`` or ``ray://host:port``); ``None`` means the
        one that RAY_ADDRESS names (every Ray job has it), and without it starts one here. Where a
        cluster asks for a token, Ray takes it from ``~/.ray/auth_token`` if RAY_AUTH_MODE is ``token``.
    n_workers
        Number of tasks at a time; by default as many as the cluster has cores.

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
    with connected(address, n_workers) as ray:
        try:
            _run(ray, function, tasks, n_workers, keep, describe)
        except (ray.exceptions.RaySystemError, ConnectionError) as error:
            raise RayError(f"the Ray cluster was lost ({first_line(error)}); finished tasks are kept") from None


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
    remote = ray.remote(num_cpus=1, max_retries=MAX_ATTEMPTS - 1)(attempt)
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


def _outcome(ray: Any, reference: Any, describe: Callable[[Any], str], task: Any) -> Attempted:
    try:
        outcome: Attempted = ray.get(reference)
    except (ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError, ray.exceptions.OutOfMemoryError) as error:
        raise repeated_failure(describe(task), f"on Ray ({type(error).__name__})") from None
    except ray.exceptions.RayTaskError as error:
        raise RayError(f"{describe(task)}: a machine of the Ray cluster cannot run it ({first_line(error)})") from None
    return outcome


@contextlib.contextmanager
def connected(address: str | None, n_workers: int | None) -> Iterator[Any]:
    """Connect to a cluster, or start one; leave alone one that this process is connected to already.

    Yields
    ------
    module
        Ray.

    Raises
    ------
    MissingExtra
        If Ray is not installed.
    RayError
        If the cluster cannot be reached.
    """
    address = address or os.environ.get("RAY_ADDRESS") or None
    address = None if address == "local" else address
    with _surroundings(is_local=address is None):
        try:
            import ray
        except ImportError:
            raise MissingExtra("ray", "ray") from None
        if ray.is_initialized():
            yield ray
            return
        _connect(ray, address, n_workers)
        try:
            yield ray
        finally:
            with _no_warnings():
                ray.shutdown()


def _connect(ray: Any, address: str | None, n_workers: int | None) -> None:
    choices: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        choices |= {"num_cpus": n_workers or usable_cores(), "include_dashboard": False}
        choices |= {"_node_ip_address": "127.0.0.1"}
    else:
        _check_reachable(address)
        choices |= {"address": address}
    try:
        with _no_warnings():
            ray.init(**choices)
    except (ConnectionError, TimeoutError, RuntimeError, ValueError, OSError) as error:
        where = f"ray:{address}: cannot be reached" if address else "Ray cannot be started"
        raise RayError(f"{where} ({first_line(error)})") from None


def _check_reachable(address: str) -> None:
    """Knock before Ray does, which waits for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE_S).close()
    except (OSError, OverflowError) as error:
        raise RayError(f"ray:{address}: nothing answers there ({first_line(error)})") from None


@contextlib.contextmanager
def _surroundings(*, is_local: bool) -> Iterator[None]:
    """Set Ray's environment variables for as long as it is used; those that users set themselves stay.

    It reports nothing to its makers, and a Ray that is started here listens on this machine only (its switch for that
    is named after the systems that have it on). RAY_AUTH_MODE is what Ray itself changes.
    """
    changes = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    if is_local:
        changes["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        changes["RAY_worker_niceness"] = "0"  # by default 15: other programs would starve the workers
    before = {name: os.environ.get(name) for name in (*changes, "RAY_AUTH_MODE")}
    os.environ.update({name: value for name, value in changes.items() if before[name] is None})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _no_warnings() -> Iterator[None]:
    """Keep quiet about what users cannot change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
