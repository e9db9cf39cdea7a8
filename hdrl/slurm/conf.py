"""The ``slurm.conf`` of a real Slurm on this host, with an administrator's own lines about scheduling."""

from __future__ import annotations

import os
import pwd
import re
import socket
from collections.abc import Sequence
from pathlib import Path

from hdrl.base.errors import ReadError, quoted
from hdrl.base.files import read_text
from hdrl.slurm.machine import SlurmMachine

PASSED_KEYS = (
    *("SchedulerType", "SchedulerParameters", "CompleteWait", "KillWait"),
    *("PriorityType", "PriorityFlags", "PriorityCalcPeriod", "PriorityFavorSmall", "PriorityMaxAge"),
    *("PriorityWeightAge", "PriorityWeightJobSize", "PriorityWeightPartition"),
)
"""Keys of an administrator's file that count here; all others are about another machine, or about no scheduling."""

_NEEDS_ACCOUNTING = ("PriorityWeightFairshare", "PriorityWeightQOS", "PriorityWeightAssoc")
_VALUE = re.compile(r"[A-Za-z0-9_/,.:=+\-]+")
_KEYS = {key.lower(): key for key in (*PASSED_KEYS, *_NEEDS_ACCOUNTING, "PreemptType")}

_TEMPLATE = """ClusterName=hdrl
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
CommunicationParameters=NoAddrCache,NoCtldInAddrAny,NoInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/%n.log
DebugFlags=Backfill
JobCompLoc={folder}/jobcomp.txt
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
{storage}
JobCompType=jobcomp/filetxt
SelectType=select/cons_tres
SelectTypeParameters={select}
MaxJobCount={max_jobs}
MaxArraySize={max_jobs}
MaxTasksPerNode=65533
JobRequeue={requeue}
OverTimeLimit={over_time_limit}
ReturnToService=1
SlurmdParameters=config_overrides
InactiveLimit=0
MinJobAge={min_job_age}
Waittime=0
SlurmdTimeout=0
SlurmctldTimeout=600
MessageTimeout={message_timeout}
TCPTimeout={tcp_timeout}
BatchStartTimeout=3600
UnkillableStepTimeout=3600
"""


ONE_PARTITION = ("PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO",)
"""The partition of a machine without the rules of a site."""

_COMPUTING_TIMES = {
    "build_queue_timeout": (2_000_000, 2**31 - 1),
    "max_sched_time": (2, 3600),
    "bf_yield_interval": (2_000_000, 10_000_000),
    "bf_max_time": (30, 3600),
}
"""Words of SchedulerParameters for how long Slurm may compute: their defaults, and the most that it takes."""

_MOST_AGE_S = 10**8
"""Seconds for which Slurm remembers ended jobs that others may depend on: longer than any run."""

NO_ACCOUNTING = ("AccountingStorageType=accounting_storage/none",)


def scheduling_lines(path: Path) -> list[str]:
    """Return the lines of an administrator's ``slurm.conf`` that are about scheduling.

    Raises
    ------
    ReadError
        If there is none, one cannot be passed on, or one needs what is not here: accounts, preemption.
    """
    found: dict[str, str] = {}
    for number, raw in enumerate(read_text(path).splitlines(), start=1):
        name, _, value = raw.partition("#")[0].strip().partition("=")
        key, value = _KEYS.get(name.strip().lower()), value.strip().strip('"')
        if key is None:
            continue
        if _VALUE.fullmatch(value) is None:
            raise ReadError(path, f"{key} is {quoted(value)}, expected one word", line=number)
        if key in _NEEDS_ACCOUNTING and value.strip("0"):
            raise ReadError(path, f"{key} needs accounts in a slurmdbd, which hdrl does not start; set it to 0", number)
        if key == "PreemptType" and value != "preempt/none":
            raise ReadError(
                path, f"{key} is {quoted(value)}, but the simulated site has one partition and no QOS", number
            )
        if key in PASSED_KEYS:
            found[key] = value
    if not found:
        raise ReadError(
            path, f"sets no parameter of the scheduler, expected lines such as {PASSED_KEYS[1]}=bf_interval=30"
        )
    return [f"{key}={value}" for key, value in found.items()]


def slurm_conf(
    machine: SlurmMachine,
    *,
    folder: Path,
    ports: Sequence[int],
    scheduling: Sequence[str],
    n_jobs: int,
    partitions: Sequence[str] = ONE_PARTITION,
    of_nodes: Sequence[str] = (),
    storage: Sequence[str] = NO_ACCOUNTING,
    requeues: bool = False,
    remembers: bool = False,
    kills: bool,
    speed: float,
) -> str:
    """Return the text of ``slurm.conf``.

    Parameters
    ----------
    folder
        Folder of the files of the daemons.
    ports
        A port of the loopback interface for slurmctld, then one for each node.
    scheduling
        Lines about scheduling.
    partitions
        Lines about partitions.
    of_nodes
        More words of the line of each node; none: nothing.
    storage
        Lines about accounting.
    requeues
        True if jobs may begin anew.
    remembers
        True if Slurm must know jobs that ended long ago, as others may depend on them.
    kills
        True if jobs end at their time limit.
    speed
        Speed of the clock as a multiple of real time: time-outs are in its seconds.
    """
    host = socket.gethostname().split(".")[0]
    head = _TEMPLATE.format(
        host=host,
        port=ports[0],
        user=user_name(),
        folder=folder,
        select="CR_Core_Memory" if machine.counts_memory else "CR_Core",
        storage="\n".join(storage),
        requeue=int(requeues),
        max_jobs=n_jobs + 1000,
        min_job_age=_MOST_AGE_S if remembers else 300,
        over_time_limit=0 if kills else "UNLIMITED",
        message_timeout=message_timeout_s(speed),
        tcp_timeout=max(15, int(15 * speed)),
    )
    nodes = [
        f"NodeName={node.name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={len(node.cores)} "
        f"Boards=1 SocketsPerBoard=1 CoresPerSocket={len(node.cores)} ThreadsPerCore=1 "
        f"RealMemory={node.memory_mib} State=UNKNOWN{words}"
        for node, port, words in zip(
            machine.nodes, ports[1 : 1 + len(machine.nodes)], of_nodes or [""] * len(machine.nodes), strict=True
        )
    ]
    return head + "\n".join([*_with_time_to_compute(scheduling, speed), *nodes, *partitions]) + "\n"


def _with_time_to_compute(scheduling: Sequence[str], speed: float) -> list[str]:
    """Return lines about scheduling that let Slurm compute as long as it could under a clock that is not faster.

    Else a pass of the scheduler is given up when the host stops it for some hundredths of a second.
    """
    key = "SchedulerParameters="
    others = [line for line in scheduling if not line.startswith(key)]
    words = [word for line in scheduling if line.startswith(key) for word in line.removeprefix(key).split(",")]
    known = {word.partition("=")[0] for word in words}
    words += [
        f"{name}={min(int(default * speed), most)}"
        for name, (default, most) in _COMPUTING_TIMES.items()
        if name not in known and speed > 1
    ]
    return [f"{key}{','.join(words)}", *others] if words else others


def clock_text(seconds: float) -> str:
    """Return a duration as Slurm reads it: hours, minutes, seconds."""
    whole = int(seconds)
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def message_timeout_s(speed: float) -> int:
    """Return for how many seconds of a fast clock daemons wait for each other."""
    return max(100, int(50 * speed))


def without_paths(text: str, folder: Path) -> str:
    """Return a ``slurm.conf`` without the lines that name a folder of this host, as it is recorded."""
    return "".join(line for line in text.splitlines(keepends=True) if str(folder) not in line)


def user_name() -> str:
    """Return the name of the user of this process, or its number if it has no name."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
