"""One real Slurm from its start to its end: its folder, its ports, its clock, and what it says.

All daemons run below one guard (`hdrl.base.guard`), which ends them when we end, however that is. `hdrl.slurm.driver`
starts them and submits the jobs; it lives in the accelerated clock, we do not.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hdrl.base.closing import Closing
from hdrl.base.errors import SimulationError, readable
from hdrl.base.process import Process, printable
from hdrl.settings.batch.simulators import SlurmSettings
from hdrl.settings.batch.site_rules.hostlist import node_names
from hdrl.slurm import accounting as database
from hdrl.slurm import driver
from hdrl.slurm.accounting import Accounting
from hdrl.slurm.conf import NO_ACCOUNTING, slurm_conf
from hdrl.slurm.jobcomp import Completion, read_jobcomp
from hdrl.slurm.machine import SlurmMachine
from hdrl.slurm.requests import NO_REQUESTS, JobRequests, PlannedCommand

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "faketime")
"""Debian's packages with what is needed."""

COMMANDS = ("slurmctld", "slurmd", "sbatch", "scancel", "scontrol", "sinfo", "squeue", "faketime")

BEGIN = "2026-01-01 00:00:00"
"""Date at which the clock begins, in UTC."""

_CYCLE = re.compile(r"^\[(\d{4}-\d\d-\d\dT[\d:.]+)\] sched/backfill: _attempt_backfill: beginning", re.MULTILINE)

_LOOK_EVERY_S = 0.1
_GRACE_S = 5.0
"""Seconds to wait longer than the driver does: it reports the reason, and a busy host starts it late."""

_LONGEST_QUOTE = 200
_LONGEST_FOLDER = 70
"""Characters: a socket's path has at most 107, and slurmd adds the rest."""

_MORE_PLACES = "/usr/sbin:/usr/local/sbin"
"""Folders of daemons, which the PATH of users often lacks."""

_OWN_VARIABLES = ("SLURM_", "SBATCH_", "SQUEUE_", "SINFO_", "FAKETIME")
"""Beginnings of environment variables that would change what Slurm does."""

_SCRIPT = """#!/bin/sh
# Notes on which nodes it and the other components of its het job run, then sleeps as long as the slowest of them needs.
# All tasks of an array get the words of each.
shift $((${{SLURM_ARRAY_TASK_ID:-0}} * {n_words}))
echo "$SLURM_JOB_NODELIST $SLURM_JOB_CPUS_PER_NODE" > "{ran}/$1"
[ -n "$SLURM_ARRAY_TASK_ID" ] || (
shift {n_words}
group=1
for number in "$@"; do
    eval 'echo "$SLURM_JOB_NODELIST_HET_GROUP_'$group' $SLURM_JOB_CPUS_PER_NODE_HET_GROUP_'$group'"' > "{ran}/$number"
    group=$((group + 1))
done
)
case "$SLURM_JOB_NODELIST" in
{cases}
esac
exit 9
"""


@dataclass(frozen=True, slots=True)
class Submission:
    """A job as it is submitted.

    Attributes
    ----------
    at_s
        Date of the submission, in seconds after date 0.
    cores
        Number of cores that it requests.
    limit_min
        Its time limit in minutes; ``None``: none.
    run_s
        Its run time in seconds on nodes of each kind, the slowest first.
    exit_code
        Its exit code.
    memory_mib
        Memory for each core; ``None`` where memory does not count.
    partitions
        Names of the partitions that it may run in; none: the default one.
    nice
        Number by which its priority is lowered.
    account, qos
        The account and the QOS that it names; empty: none.
    first
        The number of the submission of the first component of its het job; ``None``: it is no component.
    requests
        Its further requests to a site.
    """

    at_s: float
    cores: int
    limit_min: int | None
    run_s: tuple[float, ...]
    exit_code: int = 0
    memory_mib: int | None = None
    partitions: tuple[str, ...] = ()
    nice: int = 0
    account: str = ""
    qos: str = ""
    first: int | None = None
    requests: JobRequests = NO_REQUESTS

    @property
    def is_task(self) -> bool:
        """True if it is a task of an array."""
        return self.requests.first is not None


@dataclass(frozen=True, slots=True)
class Deployed:
    """A policy that orders the queue of a Slurm.

    Attributes
    ----------
    write
        Writes what Slurm reads into the folder of ``slurm.conf``.
    conf
        Lines of ``slurm.conf``.
    command
        A program that runs beside the daemons, given that folder.
    log
        The file of that folder in which the program notes what it does, from its first look at the queue on.
    """

    write: Callable[[Path], None]
    conf: tuple[str, ...]
    command: Callable[[Path], Sequence[str]]
    log: str


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """Outcome of a run.

    Attributes
    ----------
    completions
        The jobs in the order in which they ended.
    keys
        For each job, in the order of the submissions, the number that sbatch gave and the number of a task in its
        array, as `hdrl.slurm.jobcomp.Completion.key`.
    happened
        Date at which each event happened, or would have happened after the last job, in seconds after date 0, in the
        order in which they were given.
    cycles_s
        Dates at which the backfill cycles began, in seconds after date 0.
    cpus
        Number of cores of each job on each node, by the number of its submission.
    epoch_s
        Date 0 in seconds since 1970.
    end_s
        Date at which the last job had ended, in seconds after date 0.
    late_s
        Largest delay of a submission, in seconds.
    version
        Name and version that slurmctld prints.
    conf
        The text of slurm.conf.
    """

    completions: list[Completion]
    keys: list[tuple[int, int]]
    happened: list[float]
    cycles_s: list[float]
    cpus: dict[int, dict[str, int]]
    epoch_s: float
    end_s: float
    late_s: float
    version: str
    conf: str


def find_commands(*, accounting: bool = False) -> dict[str, str]:
    """Return the paths of all that is needed.

    Parameters
    ----------
    accounting
        True if a database is.

    Raises
    ------
    SimulationError
        If something is missing, or of several versions of Slurm.
    """
    positions = f"{os.environ.get('PATH', os.defpath)}:{_MORE_PLACES}"
    names = [*COMMANDS, *(database.COMMANDS if accounting else ())]
    packages = [*PACKAGES, *(database.PACKAGES if accounting else ())]
    found = {name: shutil.which(name, path=positions) for name in names}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        raise SimulationError(
            f"simulator 'slurm' needs {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not on PATH: "
            f"make slurm, or apt-get install {' '.join(packages)}"
        )
    return {name: str(path) for name, path in found.items()}


def version_of(commands: dict[str, str], *, timeout_s: float) -> str:
    """Return the version of Slurm.

    Raises
    ------
    SimulationError
        If it does not say, or its parts are of different versions, as those of Debian's emulator are.
    """
    versions = {}
    for name in ("slurmctld", "slurmd"):
        try:
            done = subprocess.run(
                [commands[name], "-V"], stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SimulationError(f"{commands[name]} -V: {' '.join(str(error).split())}") from None
        versions[name] = " ".join(printable(done.stdout.decode(errors="replace")).split())[:60]
        if done.returncode != 0 or not versions[name]:
            raise SimulationError(f"{commands[name]} -V ended with code {done.returncode}, expected a version")
    if len(set(versions.values())) > 1:
        said = ", ".join(f"{name} {version!r}" for name, version in versions.items())
        raise SimulationError(f"parts of different versions of Slurm: {said}; install {' '.join(PACKAGES)} of one")
    return versions["slurmctld"]


class SlurmCluster(Closing):
    """A real Slurm on this host. Use it as a context manager: at its end no process and no file is left.

    Parameters
    ----------
    scheduling, partitions, of_nodes
        Lines about scheduling and about partitions for ``slurm.conf``, and words of the line of each node.
    kills, requeues
        True if jobs end at their limit, and whether they begin anew where their nodes are taken or fail.
    events
        Commands of users and administrators.
    deployed
        The policy that orders the queue; ``None``: Slurm's own order.
    accounting
        The accounts and QOS; ``None``: it has no database.

    Raises
    ------
    SimulationError
        If something that is needed is missing.
    """

    def __init__(
        self,
        machine: SlurmMachine,
        settings: SlurmSettings,
        *,
        scheduling: Sequence[str],
        partitions: Sequence[str],
        of_nodes: Sequence[str] = (),
        kills: bool,
        requeues: bool = False,
        events: Sequence[PlannedCommand] = (),
        deployed: Deployed | None = None,
        accounting: Accounting | None = None,
    ) -> None:
        self._commands = find_commands(accounting=accounting is not None)
        self._version = version_of(self._commands, timeout_s=settings.timeout_s)
        self._machine, self._settings = machine, settings
        self._lines = {"scheduling": scheduling, "partitions": partitions, "of_nodes": of_nodes}
        self._kills, self._requeues, self._events = kills, requeues, events
        self._deployed, self._accounting = deployed, accounting
        self._process: Process | None = None
        self._folder = _new_folder()
        self._read_to = 0
        self._rest = ""

    def close(self) -> None:
        """End all that was started, and remove its files."""
        if self._process is not None:
            self._process.close()
            self._process = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self, jobs: Sequence[Submission], watch: Callable[[dict[str, Any]], None]) -> RunOutcome:
        """Submit jobs, wait until all have ended, and return what happened.

        Parameters
        ----------
        jobs
            In the order of submission.
        watch
            Called with each report of `hdrl.slurm.driver`.

        Raises
        ------
        SimulationError
            If Slurm fails, or does nothing for too long.
        """
        conf = self._prepare(jobs)
        epoch_s, over = 0.0, None
        last_s = time.monotonic()
        while over is None:
            for report in self._new_reports():
                last_s = time.monotonic()
                if report["kind"] == "failed":
                    raise SimulationError(f"Slurm: {report['problem']}{self._last_error()}")
                if report["kind"] == "ready":
                    epoch_s = float(report["epoch_s"])
                if report["kind"] == "over":
                    over = report
                watch(report)
            if over is None:
                self._check(last_s)
                time.sleep(_LOOK_EVERY_S)
        tasks = {k: position for positions in together(jobs) for position, k in enumerate(positions) if jobs[k].is_task}
        return RunOutcome(
            completions=read_jobcomp(self._folder / "jobcomp.txt"),
            keys=[(number, tasks.get(k, -1)) for k, number in enumerate(over["ids"])],
            happened=[over["happened"].get(str(number), one.at_s) for number, one in enumerate(self._events)],
            cycles_s=_cycles_s((self._folder / "log" / "slurmctld.log").read_text(errors="replace"), epoch_s),
            cpus={int(path.name): _cpus(path.read_text()) for path in (self._folder / "ran").iterdir()},
            epoch_s=epoch_s,
            end_s=over["end_s"],
            late_s=over["late_s"],
            version=self._version,
            conf=conf,
        )

    def copy_logs(self, folder: Path) -> None:
        """Copy what Slurm wrote of the jobs that have ended and of accounts, and what a deployment did."""
        names = ["jobcomp.txt", *([] if self._accounting is None else database.SHOWN)]
        names += [] if self._deployed is None else [self._deployed.log]
        for name in names:
            shutil.copyfile(self._folder / name, folder / Path(name).name)

    @property
    def folder(self) -> Path:
        """Folder of the files of the daemons."""
        return self._folder

    def _prepare(self, jobs: Sequence[Submission]) -> str:
        settings, folder = self._settings, self._folder
        for name in ("state", "spool", "log", "ran"):
            (folder / name).mkdir()
        ports = _free_ports(1 + len(self._machine.nodes) + (self._accounting is not None))
        lines = self._lines if self._deployed is None else self._lines | {"scheduling": self._ordered()}
        conf = slurm_conf(
            self._machine,
            folder=folder,
            ports=ports,
            **lines,
            storage=NO_ACCOUNTING if self._accounting is None else database.conf_lines(ports[-1]),
            n_jobs=len(jobs),
            kills=self._kills,
            requeues=self._requeues,
            remembers=any(job.requests.after for job in jobs),
            speed=settings.speed,
        )
        (folder / "slurm.conf").write_text(conf)
        if self._deployed is not None:
            self._deployed.write(folder)
        script = folder / "job.sh"
        kinds = range(len(self._machine.speeds_flops))
        # After the number of the job and its exit code come its run times, the slowest kind of node first.
        cases = "\n".join(f'*k{kind}n*) sleep "${{{kind + 3}}}"; exit "$2" ;;' for kind in kinds)
        script.write_text(_SCRIPT.format(ran=folder / "ran", cases=cases, n_words=2 + len(kinds)))
        script.chmod(0o700)
        plan = {
            "folder": str(folder),
            "commands": self._commands,
            "ports": ports,
            "nodes": [node.name for node in self._machine.nodes],
            "accounting": self._accounting and database.plan_of(self._accounting, folder, ports[-1], settings.speed),
            "beside": self._deployed and {"command": [*self._deployed.command(folder)], "is_ready": self._deployed.log},
            "speed": settings.speed,
            "timeout_s": settings.timeout_s * settings.speed,
            "requeues": self._requeues,
            "jobs": [
                {
                    "at": jobs[positions[0]].at_s,
                    "until": jobs[positions[0]].requests.until_s,
                    "longest_s": max(max(jobs[number].run_s) for number in positions),
                    "positions": positions,
                    "is_array": jobs[positions[0]].is_task,
                    "filled": jobs[positions[0]].requests.filled,
                    "arguments": _arguments(positions, jobs, script),
                }
                for positions in together(jobs)
            ],
            "events": [
                {"at": one.at_s, "until": one.until_s, "job": one.job, "command": one.command} for one in self._events
            ],
        }
        (folder / "plan.json").write_text(json.dumps(plan))
        self._process = Process(
            [
                *(self._commands["faketime"], "-f", f"@{BEGIN} x{settings.speed:g}"),
                *(sys.executable, "-I", "-S", str(Path(driver.__file__)), str(folder / "plan.json")),
            ],
            folder=folder,
            log=folder / "log" / "driver.out",
            environment=_environment(folder),
            remove=[str(folder), "/dev/shm/faketime_shm_{pid}", "/dev/shm/sem.faketime_sem_{pid}"],
        )
        return conf

    def _ordered(self) -> list[str]:
        """Return the lines about scheduling of a queue that a policy orders: its priorities must be multifactor."""
        assert self._deployed is not None  # noqa: S101 - checked before
        kept = [line for line in self._lines["scheduling"] if not line.startswith("PriorityType=")]
        return [*kept, "PriorityType=priority/multifactor", *self._deployed.conf]

    def _new_reports(self) -> list[dict[str, Any]]:
        with contextlib.suppress(FileNotFoundError), (self._folder / "reports").open(encoding="utf-8") as file:
            file.seek(self._read_to)
            self._rest += file.read()
            self._read_to = file.tell()
        *lines, self._rest = self._rest.split("\n")
        return [json.loads(line) for line in lines]

    def _check(self, last_s: float) -> None:
        assert self._process is not None  # noqa: S101 - started before
        if self._process.poll() is not None:
            raise SimulationError(f"Slurm: {self._process.describe_exit()}; {self._process.log_tail()}")
        if time.monotonic() - last_s > self._settings.timeout_s + _GRACE_S:
            raise SimulationError(
                f"Slurm has not answered for {self._settings.timeout_s:g} s (slurm.timeout_s){self._last_error()}"
            )

    def _last_error(self) -> str:
        """Return why a daemon gave up, as its log says, to be put at the end of a message."""
        logs = [self._folder / "log" / name for name in ("slurmctld.log", "slurmctld.out")]
        logs += sorted((self._folder / "log").glob("k*.log"))
        for log in logs:
            with contextlib.suppress(OSError):
                lines = printable(log.read_text(errors="replace")).splitlines()
                found = next((line for line in lines if "fatal: " in line), None)
                if found is not None:
                    return f"; {log.stem} says {readable(found.partition('fatal: ')[2], _LONGEST_QUOTE)}"
        return ""


def _new_folder() -> Path:
    """Return a folder that only its owner may enter.

    Raises
    ------
    SimulationError
        If its path is too long for the sockets of slurmd.
    """
    folder = Path(tempfile.mkdtemp(prefix="hdrl-slurm-"))
    if len(str(folder)) > _LONGEST_FOLDER:
        folder.rmdir()
        raise SimulationError(
            f"{folder.parent} is too long a path for the sockets of slurmd; set TMPDIR to a folder of at most "
            f"{_LONGEST_FOLDER - len(folder.name) - 1} characters"
        )
    return folder


def together(jobs: Sequence[Submission]) -> list[list[int]]:
    """Return the submissions that sbatch gets at once: a job, the components of a het job, or the tasks of an array."""
    found: dict[int, list[int]] = {}
    for number, job in enumerate(jobs):
        first = job.requests.first if job.first is None else job.first
        found.setdefault(number if first is None else first, []).append(number)
    return list(found.values())


def _arguments(positions: Sequence[int], jobs: Sequence[Submission], script: Path) -> list[str]:
    number, *others = positions
    job = jobs[number]
    is_array = job.is_task
    parts = [] if is_array else [part for other in others for part in (":", *_options(other, jobs[other]))]
    throttle = "" if job.requests.at_most is None else f"%{job.requests.at_most}"
    options = [*_options(number, job), *([f"--array=0-{len(others)}{throttle}"] if is_array else parts)]
    words = [word for one in (positions if is_array else [number]) for word in _words(one, jobs[one])]
    words += [] if is_array else map(str, others)
    return ["--parsable", "-o", "/dev/null", "-D", "/", *options, str(script), *words]


def _words(number: int, job: Submission) -> list[str]:
    """Return the arguments of the script of a job: its number, its exit code and its run times in seconds."""
    return [str(number), str(job.exit_code), *(f"{seconds:.3f}" for seconds in job.run_s)]


def _options(number: int, job: Submission) -> list[str]:
    limit = "UNLIMITED" if job.limit_min is None else str(job.limit_min)
    more = [] if job.memory_mib is None else [f"--mem-per-cpu={job.memory_mib}M"]
    more += ["-p", ",".join(job.partitions)] if job.partitions else []
    more += [f"--nice={job.nice}"] if job.nice else []
    more += [f"--account={job.account}"] if job.account else []
    more += [f"--qos={job.qos}"] if job.qos else []
    name = number if job.requests.namesake is None else job.requests.namesake
    return ["-n", str(job.cores), "-t", limit, "--job-name", f"j{name}", *more, *job.requests.options]


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith(_OWN_VARIABLES)}
    # Slurm writes local dates; one shared clock for all processes is what DONT_RESET asks for.
    own = {"SLURM_CONF": str(folder / "slurm.conf"), database.SOCKET_VARIABLE: str(folder / database.SOCKET)}
    return kept | own | {"TZ": "UTC", "FAKETIME_DONT_RESET": "1"}


def _free_ports(number: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


def _cycles_s(log: str, epoch_s: float) -> list[float]:
    """Return when backfill cycles began, as the log of slurmctld says, in seconds after date 0."""
    dates = (datetime.fromisoformat(date).replace(tzinfo=UTC).timestamp() for date in _CYCLE.findall(log))
    return [round(date - epoch_s, 3) for date in dates if date >= epoch_s]


def _cpus(text: str) -> dict[str, int]:
    """Return the number of cores of a job on each node, read from its script's note: ``k0n[1-2],k1n1 8(x2),4``."""
    names, _, counts = text.strip().partition(" ")
    n_cores: list[int] = []
    for part in counts.split(","):
        number, _, times = part.partition("(x")
        n_cores += [int(number)] * int(times.rstrip(")") or 1)
    return dict(zip(node_names(names), n_cores, strict=True))
