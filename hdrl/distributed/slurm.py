"""Files for ``sbatch``: any command of hdrl as one task with several processors, or as an array of such tasks.

hdrl is one process with threads, or one that starts others beside it. What it needs of Slurm is one task with ``n``
processors on one node; asking for many tasks or nodes would run the same command many times, or leave them idle.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hdrl.base.errors import OptionsError, UnknownName, quoted, suggest

COMMANDS = ("hdrl", "hdrl-launch", "hdrl-batsim")
TASK, EACH = "{task}", "{each}"
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
"""Variables that say how many threads the libraries of hdrl start; else one for each core of a node."""

_COUNT = re.compile(r"\d{1,6}", re.ASCII)
_TIME = re.compile(r"\d+|\d+:\d\d|\d+:\d\d:\d\d|\d+-\d+(:\d\d(:\d\d)?)?", re.ASCII)
_ARRAY = re.compile(r"\d+(-\d+(:[1-9]\d*)?)?(,\d+(-\d+(:[1-9]\d*)?)?)*(%[1-9]\d*)?", re.ASCII)
_WORD = re.compile(r"[\w.:@%+/=,-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Site:
    """Requirements of a machine for a job."""

    directives: tuple[tuple[str, str], ...] = ()  # options of sbatch, without the dashes
    cpus: int = 1  # processors of a task unless another number is requested
    most_cpus: int | None = None  # cores of a node, ``None`` if unknown
    modules: tuple[str, ...] = ()  # modules that are loaded
    needs_account: bool = False  # True if no job runs without an account
    srun: tuple[str, ...] = ()  # options of srun


_ONE_THREAD = ("--hint=nomultithread",)

SITES = {
    "generic": Site(),
    "archer2": Site(
        directives=(("partition", "standard"), ("qos", "standard")),
        cpus=128,  # jobs have their nodes to themselves
        most_cpus=128,
        modules=("cray-python",),
        needs_account=True,
        srun=("--distribution=block:block", *_ONE_THREAD),
    ),
    "cirrus-cpu": Site(
        directives=(("partition", "standard"), ("qos", "standard")),
        cpus=36,
        most_cpus=36,
        needs_account=True,
        srun=_ONE_THREAD,
    ),
    "cirrus-gpu": Site(
        directives=(("partition", "gpu"), ("qos", "gpu"), ("gres", "gpu:1")),
        cpus=10,  # a quarter of a node comes with each of its four GPUs
        most_cpus=40,
        needs_account=True,
        srun=_ONE_THREAD,
    ),
}
"""Sites by name: ARCHER2 (two processors of 64 cores a node), Cirrus (two of 18 cores; with GPUs two of 20)."""


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """Contents of a file for sbatch."""

    # words of the command; ``{task}`` stands for the number of the task, ``{each}`` for its value
    command: Sequence[str]
    site: str = "generic"  # a name of `SITES`
    time: str = "01:00:00"  # wall-clock limit: minutes, ``hours:minutes:seconds`` or ``days-hours:minutes:seconds``
    cpus: int | None = None  # processors of the task; ``None``: what the site usually gives
    name: str = "hdrl"
    # numbers of the tasks, as sbatch takes them: ``0-9``, ``1,3,5`` or ``0-99%4``; ``None``: there is one task
    array: str | None = None
    each: Sequence[str] = ()  # a value for each task, instead of numbers
    directives: Sequence[tuple[str, str]] = ()  # further options of sbatch by name; they replace those of the site
    modules: Sequence[str] | None = None  # modules to load; ``None``: the site's
    venv: Path | None = None  # virtual environment to activate, if any


def sbatch_text(job: SlurmJob) -> str:
    """Return a file for sbatch.

    Raises
    ------
    OptionsError
        If sbatch would refuse it, or would not do what it says.
    UnknownName
        If there is no such site.
    """
    if job.site not in SITES:
        raise UnknownName("site", job.site, SITES)
    site = SITES[job.site]
    directives = _directives(job, site)
    _check(job, site, directives)
    modules = site.modules if job.modules is None else job.modules
    lines = ["#!/bin/bash"]
    lines += [f"#SBATCH --{name}={value}" for name, value in directives.items()]
    lines += ["", "set -eo pipefail"]
    lines += [f"module load {shlex.quote(module)}" for module in modules]
    if job.venv is not None:
        lines.append(f"source {shlex.quote(str(job.venv / 'bin' / 'activate'))}")
    lines += [
        "",
        "# srun does not inherit this from sbatch by itself.",
        'export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"',
        *(f'export {name}="$SLURM_CPUS_PER_TASK"' for name in THREADS),
        "# Compute nodes may not see the home folder.",
        'export HDRL_CACHE="${HDRL_CACHE:-$SLURM_SUBMIT_DIR/.hdrl-cache}"',
        "",
    ]
    if job.each:
        lines += [f"values=({' '.join(map(shlex.quote, job.each))})", 'value="${values[$SLURM_ARRAY_TASK_ID]}"']
    words = " ".join(_quoted(word) for word in job.command)
    lines.append(" ".join(["srun", "--ntasks=1", *site.srun, words]))
    return "\n".join(lines) + "\n"


def _directives(job: SlurmJob, site: Site) -> dict[str, str]:
    of_task = "%A_%a" if job.array or job.each else "%j"
    directives = {
        "job-name": job.name,
        "nodes": "1",
        "ntasks": "1",
        "cpus-per-task": str(job.cpus or site.cpus),
        "time": job.time,
        "output": f"{job.name}-{of_task}.out",
        **dict(site.directives),
    }
    if job.array or job.each:
        directives["array"] = job.array or f"0-{len(job.each) - 1}"
    return directives | dict(job.directives)


def _check(job: SlurmJob, site: Site, directives: dict[str, str]) -> None:
    _check_command(job)
    _check_environment(job)
    # Whatever they come from: --directive replaces what other options and sites say.
    cpus, time, array = directives["cpus-per-task"], directives["time"], directives.get("array")
    most = math.inf if site.most_cpus is None else site.most_cpus
    if _COUNT.fullmatch(cpus) is None or not 1 <= int(cpus) <= most:
        raise OptionsError(
            f"cpus-per-task is {cpus!r}, expected 1 to {site.most_cpus or 'the processors of a node'} on {job.site}"
        )
    if _TIME.fullmatch(time) is None:
        raise OptionsError(f"time is {time!r}, expected minutes, hours:minutes:seconds or days-hours:minutes:seconds")
    if job.array is not None and job.each:
        raise OptionsError(f"array is {job.array!r}: and values for each task exclude each other")
    if array is not None and _ARRAY.fullmatch(array) is None:
        raise OptionsError(f"array is {array!r}: expected numbers such as 0-9 or 0-99%4")
    if site.needs_account and "account" not in directives:
        raise OptionsError(f"{job.site} runs no job without an account (--account CODE)")
    for name, value in directives.items():
        if _WORD.fullmatch(name) is None or _WORD.fullmatch(value) is None:
            raise OptionsError(f"--{name}={value}: no option that can stand in a file for sbatch")
    for name in ("nodes", "ntasks"):
        if directives[name] != "1":
            raise OptionsError(f"{name} is {directives[name]}, expected 1: hdrl is one process, more would repeat it")


def _check_environment(job: SlurmJob) -> None:
    for module in job.modules or ():
        if _WORD.fullmatch(module) is None or module.startswith("-"):
            raise OptionsError(f"--module {quoted(module)}: no name of a module that can stand in a file for sbatch")
    if job.venv is not None and not str(job.venv).isprintable():
        raise OptionsError(f"--venv {quoted(str(job.venv))}: no path that can stand in a file for sbatch")


def _check_command(job: SlurmJob) -> None:
    first = job.command[0] if job.command else ""
    if first not in COMMANDS:
        raise OptionsError(f"the command begins with {first!r}, expected one of hdrl; {suggest(first, COMMANDS)}")
    text = " ".join(job.command)
    if any("\n" in word or "\0" in word for word in (*job.command, *job.each)):
        raise OptionsError("the command has a word with a line break, which sbatch files cannot hold")
    for mark, is_there, needs in ((TASK, job.array is not None, "--array"), (EACH, bool(job.each), "--each")):
        if mark in text and not is_there:
            raise OptionsError(f"the command has {mark}, which needs {needs}")
        if is_there and mark not in text:
            raise OptionsError(f"{needs} is given, but the command has no {mark}: all tasks would do the same")


def _quoted(word: str) -> str:
    """Return a word for the shell, its placeholders replaced by shell variables of the task."""
    found = {TASK: '"$SLURM_ARRAY_TASK_ID"', EACH: '"$value"'}
    parts = re.split(r"(\{task\}|\{each\})", word)
    return "".join(found[part] if part in found else shlex.quote(part) for part in parts if part) or "''"
