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


_BEGIN_ANEW = ("PREEMPTED", "NODE_FAIL")
"""States of jobs that are requeued, where they are."""

_HAS_ENDED = ("already completing or completed", "Invalid job id", "already finished")
"""Parts of Slurm's messages about a job that is over."""


class Failed(Exception):
    """Slurm does not do what it should; the message is one line."""


class Driver:
    """Starts the daemons, submits the jobs at their dates and waits until all have ended.

    Parameters
    ----------
    plan
        ``folder``; ``commands``: path by name; ``ports`` of slurmctld and of the nodes; ``nodes``: their names;
        ``speed`` of the clock; ``timeout_s``: simulated seconds without any change after which Slurm is given up;
        ``jobs``: for each ``at``, seconds after date 0, ``until``, before which it may not start, ``longest_s``, the
        longest time that it may run, options of sbatch with words that are filled in here, ``filled``, its other
        ``arguments``, ``positions``, the numbers of the jobs that it makes, and whether they are the tasks of an array,
        ``is_array``; ``events``: for each ``at``, ``until``, the date of its end, the ``job`` that it is about, if any,
        and its ``command`` with words that are filled in here; ``requeues``: whether jobs begin anew that lose their
        nodes; ``beside``: ``None``, or the ``command`` that runs beside the daemons, and the file that it writes first,
        ``is_ready``; ``accounting``: ``None``, or the arguments of what a database is ``made_by`` and of the
        ``database``, its ``socket``, the ``port`` of slurmdbd, ``commands`` that fill it, and what is ``shown`` of it,
        by file.
    """

    def __init__(self, plan: dict[str, Any]) -> None:
        self._plan = plan
        self._folder = Path(plan["folder"])
        self._jobs = plan["jobs"]
        self._ids: dict[int, int] = {}
        self._names: dict[int, str] = {}
        self._happened: dict[int, float] = {}
        self._until_s = -math.inf
        self._longest_s = 0.0
        self._n_jobs = sum(len(job["positions"]) for job in self._jobs)
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._reports = (self._folder / "reports").open("a", encoding="utf-8")
        self._reported_s = -math.inf
        self._changed_s = time.time()
        self._seen = (-1, -1, -1)
        self._polled_s = -math.inf
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
        for at, _, do, what in self._agenda():
            if not self._wait_until(self._epoch_s + at):
                break
            do(what)
        while not self._is_over():
            self._watch(self._pause_s())
        ids = [self._ids[position] for position in range(self._n_jobs)]
        end_s = time.time() - self._epoch_s
        self._report("over", end_s=end_s, late_s=self._late_s, ids=ids, happened=self._happened)

    def _agenda(self) -> list[tuple[float, int, Any, Any]]:
        """Return the actions by date: at one date, events of the machine, then submissions, then events of jobs."""
        events = [
            (one["at"], 0 if one["job"] is None else 2, self._act, (number, one))
            for number, one in enumerate(self._plan["events"])
        ]
        submissions = [(job["at"], 1, self._submit, job) for job in self._jobs]
        return sorted([*events, *submissions], key=lambda one: one[:2])

    def _is_over(self) -> bool:
        """Return whether all jobs have ended."""
        if len(self._ids) < self._n_jobs:
            return False
        if self._seen[2] >= self._n_jobs:
            return True
        # One line is about all tasks of an array that never started, so that lines do not tell when an array has ended.
        if not any(job["is_array"] for job in self._jobs) or time.time() < self._polled_s + self._plan["speed"]:
            return False
        self._polled_s = time.time()
        if self._output("squeue", "-h", "-o", "%i").strip():
            return False
        self._watch(self._pause_s())  # what has left the queue may not have been noted yet
        return True

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

    def _wait_until(self, date_s: float) -> bool:
        """Wait for a date; return whether anything is left to happen then."""
        while True:
            if self._is_over():
                return False
            left_s = date_s - time.time()
            if left_s <= 0:
                return True
            self._until_s = max(self._until_s, date_s)
            self._watch(min(left_s, self._pause_s()))

    def _submit(self, job: dict[str, Any]) -> None:
        self._late_s = max(self._late_s, time.time() - self._epoch_s - job["at"])
        output = self._output("sbatch", *self._filled(job["filled"]), *job["arguments"]).strip()
        first = int(output.split(";")[0])
        # The components of a het job are numbered one after the other, the tasks of an array when they start.
        for number, position in enumerate(job["positions"]):
            self._ids[position] = first + number * (not job["is_array"])
            self._names[position] = f"{first}_{number}" if job["is_array"] else str(first + number)
        self._wait_for_change(max(job["until"], job["at"]), job["longest_s"])

    def _act(self, numbered: tuple[int, dict[str, Any]]) -> None:
        """Do what a user or an administrator does; a job that has ended cannot be cancelled or released any more."""
        number, event = numbered
        command, *arguments = self._filled(event["command"])
        self._happened[number] = time.time() - self._epoch_s
        try:
            self._output(command, *arguments)
        except Failed as failure:
            if not any(words in str(failure) for words in _HAS_ENDED):
                raise
        self._wait_for_change(max(event["until"], event["at"]), 0.0)

    def _filled(self, words: list[str]) -> list[str]:
        """Return words with Slurm's numbers of jobs and dates in them; see `hdrl.slurm.requests`."""
        return [word.format(id=self._names, job=self._ids, date=_Dates(self._epoch_s)) for word in words]

    def _wait_for_change(self, until_s: float, longest_s: float) -> None:
        """Note that something has changed, and how long nothing else may happen."""
        self._changed_s = time.time()
        self._until_s = max(self._until_s, self._epoch_s + until_s)
        self._longest_s = max(self._longest_s, longest_s)
        if time.time() - self._reported_s > self._pause_s():
            self._watch(0.0)

    def _watch(self, sleep_s: float) -> None:
        """Sleep; then look at what has started and ended, and report it."""
        time.sleep(sleep_s)
        self._check_daemons()
        now_s = time.time()
        started = sum(1 for _ in (self._folder / "ran").iterdir())
        n_ended, n_never_started = self._n_ended()
        seen = (len(self._ids), started, n_ended)
        if seen != self._seen:
            self._seen, self._changed_s = seen, now_s
        self._report("progress", now_s=now_s - self._epoch_s, submitted=seen[0], started=seen[1], ended=seen[2])
        longest_s = self._longest_s if started > n_ended - n_never_started else 0.0
        if now_s > max(self._changed_s + longest_s, self._until_s) + self._plan["timeout_s"]:
            why = " ".join(self._output("squeue", "-h", "-t", "PD", "-o", "%i:%r").split()[:3]) or "none is pending"
            raise Failed(
                f"{seen[0]} jobs submitted, {seen[1]} started, {seen[2]} ended, and nothing has changed for "
                f"{now_s - self._changed_s:.0f} simulated s; pending: {why}"
            )

    def _n_ended(self) -> tuple[int, int]:
        """Return the number of jobs that have ended, and the number of these that never started."""
        try:
            lines = (self._folder / "jobcomp.txt").read_bytes()
        except OSError:
            return 0, 0
        anew = sum(lines.count(f" JobState={state} ".encode()) for state in _BEGIN_ANEW)
        n_ended = lines.count(b"\n") - (anew if self._plan["requeues"] else 0)
        return n_ended, lines.count(b" NodeList=(null) ")


class _Dates:
    """Dates as Slurm reads them, by seconds after date 0."""

    def __init__(self, epoch_s: float) -> None:
        self._epoch_s = epoch_s

    def __getitem__(self, seconds: int | str) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(self._epoch_s + int(seconds)))


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
