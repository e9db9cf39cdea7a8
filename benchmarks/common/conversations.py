"""Conversations in Batsim's protocol: schedulers that take no time to speak of, and three simulators for them."""

from __future__ import annotations

import abc
import gzip
import heapq
import json
import math
import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import zmq

from common.measure import ROOT, Process, environment, run_process

HDRL_BATSIM = (sys.executable, "-c", "from hdrl.launcher.batsim import main; main(prog_name='hdrl-batsim')")
PYBATSIM = (sys.executable, "-c", "import sys; from batsim.cmds.launcher import main; sys.exit(main())")
"""The command lines of hdrl-batsim and pybatsim, found without looking for installed scripts."""

SILENCE_S = 60
"""Who says nothing for so many seconds has failed."""


class Scheduler(Protocol):
    """Who decides: a message of Batsim goes in, the reply comes out, both as text."""

    def exchange(self, message: str) -> str:
        """Answer a message."""


@dataclass(frozen=True, slots=True)
class World:
    """What is simulated, as Batsim's files.

    Attributes
    ----------
    platform, workload
        The files.
    energy
        Whether energy is accounted for.
    """

    platform: Path
    workload: Path
    energy: bool

    @property
    def arguments(self) -> list[str]:
        """The options of batsim."""
        return ["-p", str(self.platform), "-w", str(self.workload), "-q", *(["-E"] if self.energy else [])]


class _Scheduler(abc.ABC):
    """Knows which hosts are free, which jobs wait (id, hosts, requested seconds) and which run (until when, where)."""

    def __init__(self) -> None:
        self._free: list[int] = []
        self._waiting: list[tuple[str, int, float]] = []
        self._running: dict[str, tuple[float, list[int]]] = {}

    def exchange(self, message: str) -> str:
        """Answer a message."""
        told = json.loads(message)
        for event in told["events"]:
            data = event["data"]
            if event["type"] == "SIMULATION_BEGINS":
                self._free = list(range(data["nb_compute_resources"]))
            elif event["type"] == "JOB_SUBMITTED":
                self._waiting.append((data["job_id"], data["job"]["res"], data["job"].get("walltime", math.inf)))
            elif event["type"] == "JOB_COMPLETED":
                for host in self._running.pop(data["job_id"])[1]:
                    heapq.heappush(self._free, host)
        now_s = told["now"]
        starts = [
            {"timestamp": now_s, "type": "EXECUTE_JOB", "data": self._start(*job, now_s)} for job in self._chosen(now_s)
        ]
        return json.dumps({"now": now_s, "events": starts})

    @abc.abstractmethod
    def _chosen(self, now_s: float) -> list[tuple[str, int, float]]:
        """Take the jobs that start now from those that wait."""

    def _start(self, job_id: str, n_hosts: int, walltime_s: float, now_s: float) -> dict[str, str]:
        hosts = [heapq.heappop(self._free) for _ in range(n_hosts)]
        self._running[job_id] = (now_s + walltime_s, hosts)
        return {"job_id": job_id, "alloc": " ".join(map(str, hosts))}

    def _first_that_fit(self) -> list[tuple[str, int, float]]:
        """Take the first jobs that wait, as many as there are hosts for."""
        chosen, n_free = [], len(self._free)
        while self._waiting and self._waiting[0][1] <= n_free:
            chosen.append(self._waiting.pop(0))
            n_free -= chosen[-1][1]
        return chosen


class FirstFit(_Scheduler):
    """Starts the jobs in order, each on the free hosts of the lowest ids: the least that a scheduler can do."""

    def _chosen(self, now_s: float) -> list[tuple[str, int, float]]:
        del now_s
        return self._first_that_fit()


class Easy(_Scheduler):
    """EASY backfilling by requested times: the first job that waits gets a reservation, others may overtake it."""

    def _chosen(self, now_s: float) -> list[tuple[str, int, float]]:
        chosen = self._first_that_fit()
        n_free = len(self._free) - sum(n_hosts for _, n_hosts, _ in chosen)
        if not self._waiting or not n_free:
            return chosen
        ends = [(now_s + walltime_s, n_hosts) for _, n_hosts, walltime_s in chosen]
        n_then, reserved_s, needed = n_free, now_s, self._waiting[0][1]
        for end_s, n_hosts in sorted(ends + [(end_s, len(hosts)) for end_s, hosts in self._running.values()]):
            n_then += n_hosts
            reserved_s = end_s
            if n_then >= needed:
                break
        n_spare, left = n_then - needed, [self._waiting[0]]
        for job in self._waiting[1:]:
            _, n_hosts, walltime_s = job
            is_over = now_s + walltime_s <= reserved_s
            if n_hosts <= n_free and (is_over or n_hosts <= n_spare):
                n_free -= n_hosts
                n_spare -= 0 if is_over else n_hosts
                chosen.append(job)
            else:
                left.append(job)
        self._waiting = left
        return chosen


class Recorded:
    """Gives the replies that a scheduler gave in a recorded run.

    Parameters
    ----------
    folder
        The run; its ``transcript.jsonl.gz`` holds a message per line.
    """

    def __init__(self, folder: Path) -> None:
        lines = gzip.decompress((folder / "transcript.jsonl.gz").read_bytes()).decode().splitlines()
        messages = [json.loads(line) for line in lines if line.strip()]
        self.replies = [line["message"] for line in messages if line["from"] == "scheduler"]
        self._next = iter(self.replies)

    def exchange(self, message: str) -> str:  # noqa: ARG002 - the tests compare the messages
        """Answer a message."""
        return str(next(self._next))


class Watched:
    """A scheduler of which is known how often it is asked, between which dates, and what it answers.

    Parameters
    ----------
    scheduler
        Who decides.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.n_exchanges = 0
        self.replies: list[str] = []
        self._scheduler = scheduler
        self._first_s = self._last_s = 0.0

    def exchange(self, message: str) -> str:
        """Answer a message."""
        self._last_s = time.perf_counter()
        if self.n_exchanges == 0:
            self._first_s = self._last_s
        self.n_exchanges += 1
        self.replies.append(self._scheduler.exchange(message))
        return self.replies[-1]

    @property
    def rate(self) -> float:
        """Exchanges per second of wall-clock time, from the first message to the last."""
        return (self.n_exchanges - 1) / (self._last_s - self._first_s)


def run_embedded(world: World, scheduler: Scheduler) -> None:
    """Simulate in this process with the embedded simulator.

    Parameters
    ----------
    world, scheduler
        What is simulated, and who decides.
    """
    from hdrl.batsim.embedded_server import EmbeddedServer
    from hdrl.settings.batch.platform import read_simgrid
    from hdrl.settings.batch.workload import read_batsim_json

    platform, workload = read_simgrid(world.platform), read_batsim_json(world.workload)
    EmbeddedServer(platform, workload, energy=world.energy).run(scheduler)


def run_exact(world: World, scheduler: Scheduler) -> None:
    """Simulate in this process with the exact engine.

    Parameters
    ----------
    world, scheduler
        What is simulated, and who decides.
    """
    from hdrl.batsim.exact import BatsimOptions, ExactBatsim

    options = BatsimOptions(platform=world.platform, workloads=(world.workload,), energy=world.energy)
    ExactBatsim(options).run(scheduler)


def run_over_zmq(world: World, scheduler: Scheduler) -> float:
    """Simulate with hdrl-batsim in a process of its own; the scheduler is here, behind a socket.

    Parameters
    ----------
    world, scheduler
        What is simulated, and who decides.

    Returns
    -------
    float
        Processor time of hdrl-batsim alone, in seconds.

    Raises
    ------
    SystemExit
        If hdrl-batsim fails.
    """
    with zmq.Context() as context, context.socket(zmq.REP) as replies:
        replies.linger = 0
        endpoint = f"tcp://localhost:{replies.bind_to_random_port('tcp://127.0.0.1')}"
        output = str(world.workload.parent / "zmq")
        process = subprocess.Popen(
            [*HDRL_BATSIM, *world.arguments, "-s", endpoint, "-e", output], cwd=ROOT, env=environment()
        )
        try:
            is_over = False
            while not is_over:
                if not replies.poll(SILENCE_S * 1000):
                    raise SystemExit(f"hdrl-batsim says nothing for {SILENCE_S} s")
                message = replies.recv_string()
                is_over = '"SIMULATION_ENDS"' in message
                replies.send_string(scheduler.exchange(message))
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                raise SystemExit(f"hdrl-batsim ended with code {process.returncode}")
            return usage.ru_utime + usage.ru_stime
        finally:
            process.kill()
            process.wait()


def run_pybatsim_over_zmq(world: World, scheduler: str) -> Process:
    """Simulate with hdrl-batsim and the command pybatsim, which talk over a socket.

    Parameters
    ----------
    world
        What is simulated.
    scheduler
        Name of a scheduler of PyBatsim.

    Returns
    -------
    Process
        hdrl-batsim.
    """
    endpoint = free_endpoint()
    folder = world.workload.parent
    command = [*PYBATSIM, "-t", "0", "-v", "error", "-s", endpoint, scheduler]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    try:
        where = ["-s", endpoint, "-e", str(folder / "pybatsim"), "--timeout", str(SILENCE_S)]
        batsim = run_process([*HDRL_BATSIM, *world.arguments, *where])
        process.wait(SILENCE_S)
        return batsim
    finally:
        process.kill()
        process.wait()


def free_endpoint() -> str:
    """Return an endpoint on this machine at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"
