"""Run a real Slurm under the clock of this process: ``driver.py PLAN``, started by `hdrl.slurm.cluster`.

It runs by itself, without hdrl, under an accelerated clock that it shares with the daemons: its dates are in
simulated seconds. ``PLAN`` is a JSON file; what happens is appended to the file of reports, one JSON object a line:
``ready``, ``progress``, ``over``, and ``failed`` with a sentence. The process that started it ends the daemons.
"""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_LEAD_S = 0.5
"""Seconds of the real clock between the moment when all nodes are there and date 0."""

_REPORTS_PER_S = 4.0
"""Reports of the progress in one second of the real clock."""


class Failed(Exception):
    """Slurm does not do what it should; the message is one line."""


class Driver:
    """Starts the daemons, submits the jobs at their dates and waits until all have ended.

    Parameters
    ----------
    plan
        ``folder``; ``commands``: path by name; ``ports`` of slurmctld and of the nodes; ``nodes``: their names;
        ``speed`` of the clock; ``timeout_s``: simulated seconds without any change after which Slurm is given up;
        ``jobs``: for each ``at``, seconds after date 0, ``longest_s``, the longest time that it may run,
        ``arguments`` of sbatch, and ``positions``, the numbers of the jobs that it makes; ``beside``: ``None``, or the
        ``command`` that runs beside the daemons, and the file that it writes first, ``is_ready``; ``accounting``:
        ``None``, or the arguments of what a database is ``made_by`` and of the ``database``, its ``socket``, the
        ``port`` of slurmdbd, ``commands`` that fill it, and what is ``shown`` of it, by file.
    """

    def __init__(self, plan: dict[str, Any]) -> None:
        self._plan = plan
        self._folder = Path(plan["folder"])
        self._jobs = plan["jobs"]
        self._ids: dict[int, int] = {}
        self._n_submitted = 0
        self._n_jobs = sum(len(job["positions"]) for job in self._jobs)
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._reports = (self._folder / "reports").open("a", encoding="utf-8")
        self._reported_s = -math.inf
        self._changed_s = time.time()
        self._seen = (-1, -1, -1)
        self._late_s = 0.0
        self._epoch_s = 0.0

    def run(self) -> None:
        """Do it all.

        Raises
        ------
        Failed
            If a daemon ends, does not answer, or does not start jobs.
        """
        self._start()
        self._epoch_s = math.ceil(time.time() + _LEAD_S * self._plan["speed"])
        self._changed_s = self._epoch_s
        self._report("ready", epoch_s=self._epoch_s)
        for job in self._jobs:
            self._wait_until(self._epoch_s + job["at"])
            self._submit(job)
        while self._seen[2] < self._n_jobs:
            self._watch(self._pause_s())
        ids = [self._ids[place] for place in range(self._n_jobs)]
        self._report("over", end_s=time.time() - self._epoch_s, late_s=self._late_s, ids=ids)

    def _report(self, kind: str, **values: Any) -> None:
        self._reports.write(json.dumps({"kind": kind, **values}) + "\n")
        self._reports.flush()
        self._reported_s = time.time()

    def report_failure(self, problem: str) -> None:
        """Say why it cannot go on."""
        self._report("failed", problem=problem)

    def _pause_s(self) -> float:
        return float(self._plan["speed"]) / _REPORTS_PER_S

    def _start(self) -> None:
        for port in self._plan["ports"]:
            _check_free(port)
        if self._plan["accounting"] is not None:
            self._start_accounting(**self._plan["accounting"])
        self._launch("slurmctld", "slurmctld", "-D", "-c")
        self._wait_for(lambda: _is_listening(self._plan["ports"][0]), "slurmctld does not listen")
        for name in self._plan["nodes"]:
            self._launch(f"slurmd of {name}", "slurmd", "-D", "-N", name)
        self._wait_for(self._has_nodes, "not all nodes are idle")
        if self._plan["beside"] is not None:
            self._run("hdrl deploy", self._plan["beside"]["command"])
            ready = self._folder / self._plan["beside"]["is_ready"]
            self._wait_for(ready.exists, "hdrl deploy has not begun")

    def _start_accounting(
        self,
        made_by: list[str],
        database: list[str],
        socket: str,
        port: int,
        commands: list[list[str]],
        shown: dict[str, list[str]],
    ) -> None:
        # The database takes no dates of its own, and its waits would be too short under another clock.
        usual_clock = {name: text for name, text in os.environ.items() if name != "LD_PRELOAD"}
        self._output("mariadb-install-db", *made_by, environment=usual_clock)
        self._report("starting")
        self._run("mariadbd", [self._plan["commands"]["mariadbd"], *database], usual_clock)
        self._wait_for(Path(socket).exists, "mariadbd does not listen")
        self._launch("slurmdbd", "slurmdbd", "-D")
        self._wait_for(lambda: _is_listening(port), "slurmdbd does not listen")
        for arguments in commands:
            self._output("sacctmgr", *arguments)
            self._report("starting")
        for name, arguments in shown.items():
            (self._folder / name).write_text(self._output("sacctmgr", *arguments))

    def _launch(self, name: str, command: str, *arguments: str) -> None:
        self._run(name, [self._plan["commands"][command], *arguments])

    def _run(self, name: str, command: list[str], environment: dict[str, str] | None = None) -> None:
        log = (self._folder / "log" / f"{name.replace(' ', '_')}.out").open("wb")
        self._daemons[name] = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
        )
        log.close()

    def _wait_for(self, condition: Any, problem: str) -> None:
        deadline_s = time.time() + self._plan["timeout_s"]
        while not condition():
            self._check_daemons()
            if time.time() > deadline_s:
                raise Failed(f"{problem} after {self._plan['timeout_s'] / self._plan['speed']:g} s")
            time.sleep(self._pause_s() / 2)
            self._report("starting")

    def _has_nodes(self) -> bool:
        # A node stands there once for each partition that it is in.
        states = set(self._output("sinfo", "-h", "-N", "-o", "%N=%t").split())
        return states == {f"{name}=idle" for name in self._plan["nodes"]}

    def _output(self, command: str, *arguments: str, environment: dict[str, str] | None = None) -> str:
        done = subprocess.run(
            [self._plan["commands"][command], *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            env=environment,
        )
        if done.returncode != 0:
            said = (done.stderr + b" " + done.stdout).decode(errors="replace")  # mariadb-install-db fails on stdout
            problem = " ".join(said.split())[:300]
            raise Failed(f"{command} ended with code {done.returncode}: {problem}")
        return done.stdout.decode(errors="replace")

    def _check_daemons(self) -> None:
        for name, daemon in self._daemons.items():
            code = daemon.poll()
            if code is not None:
                how = f"code {code}" if code >= 0 else f"signal {-code}"
                raise Failed(f"{name} ended with {how}")

    def _wait_until(self, date_s: float) -> None:
        while True:
            left_s = date_s - time.time()
            if left_s <= 0:
                return
            self._watch(min(left_s, self._pause_s()))

    def _submit(self, job: dict[str, Any]) -> None:
        self._late_s = max(self._late_s, time.time() - self._epoch_s - job["at"])
        output = self._output("sbatch", *job["arguments"]).strip()
        # The components of a het job are numbered one after the other.
        for number, place in enumerate(job["positions"], start=int(output.split(";")[0])):
            self._ids[place] = number
        self._n_submitted += 1
        self._changed_s = time.time()
        if time.time() - self._reported_s > self._pause_s():
            self._watch(0.0)

    def _watch(self, sleep_s: float) -> None:
        """Sleep; then look at what has started and ended, and report it."""
        time.sleep(sleep_s)
        self._check_daemons()
        now_s = time.time()
        started = sum(1 for _ in (self._folder / "ran").iterdir())
        seen = (len(self._ids), started, self._n_ended())
        if seen != self._seen:
            self._seen, self._changed_s = seen, now_s
        self._report("progress", now_s=now_s - self._epoch_s, submitted=seen[0], started=seen[1], ended=seen[2])
        n = self._n_submitted
        due = self._jobs[n]["at"] + self._epoch_s if n < len(self._jobs) else -math.inf
        longest_s = max((job["longest_s"] for job in self._jobs[:n]), default=0.0) if seen[1] > seen[2] else 0.0
        if now_s > max(self._changed_s + longest_s, due) + self._plan["timeout_s"]:
            why = " ".join(self._output("squeue", "-h", "-t", "PD", "-o", "%i:%r").split()[:3]) or "none is pending"
            raise Failed(
                f"{seen[0]} jobs submitted, {seen[1]} started, {seen[2]} ended, and nothing has changed for "
                f"{now_s - self._changed_s:.0f} simulated s; pending: {why}"
            )

    def _n_ended(self) -> int:
        try:
            lines = (self._folder / "jobcomp.txt").read_bytes()
        except OSError:
            return 0
        return lines.count(b"\n") - lines.count(b" JobState=PREEMPTED ")  # those begin anew


def _is_listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def _check_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise Failed(f"port {port} of 127.0.0.1 is not free: {error.strerror}") from None


def main(path: str) -> None:
    """Run a plan; then wait to be ended, so that the files can be read."""
    driver = Driver(json.loads(Path(path).read_text(encoding="utf-8")))
    try:
        driver.run()
    except (Failed, OSError, ValueError) as error:
        driver.report_failure(" ".join(str(error).split()))
    while True:
        signal.pause()


if __name__ == "__main__":
    main(sys.argv[1])
