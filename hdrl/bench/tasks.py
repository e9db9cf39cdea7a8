"""Tasks: a machine, a load and its windows, what may be known of them, and by what a schedule is judged.

A task is a file of `TASKS`. What it simulates is a sweep, so that a comparison runs it; the rest are the rules.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from hdrl.base.errors import OptionsError, ReadError, UnknownName
from hdrl.base.files import read_json
from hdrl.base.hashing import sha256_of_file
from hdrl.bench.rounds import AT, find_round
from hdrl.experiment.reproduce.recipe import TRACES_VARIABLE, trace_folders
from hdrl.experiment.run.inputs import make_sweep
from hdrl.options.block import Block
from hdrl.options.numbers import Positive
from hdrl.options.reading import validated
from hdrl.options.sweep import Sweep
from hdrl.setting import BATCH, Setting, find_setting

TASKS = Path(__file__).parent / "tasks"

SMALL, ALL = "small", "all"
"""Names of groups: the tasks whose loads need not be fetched, and all of them."""

LEVELS = ("nothing", "requests", "predictions", "truth")
"""Information about run times that a policy may use, each level with those before it. Predictions use jobs that have
ended."""

RULED = ("candidates", "baseline", "metrics")
"""Keys of a sweep that follow from the rules of a task."""

Text = Annotated[str, Field(min_length=1)]


class TaskLog(Block):
    """A log that is not shipped."""

    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] = Field(description="SHA-256 of the file.")
    how: Text = Field(description="Instructions to get it, a sentence.")


class Yardstick(Block):
    """Yardstick for the difficulty of a task: no policy can be expected to beat it; not always a bound."""

    bound: str | None = Field(default=None, description="Metric that bounds the objective from below in each window.")
    per: str | None = Field(default=None, description="Metric by which the bound is divided.")
    policies: list[Text] = Field(default_factory=list, description="Or: policies, the best of them in each window.")
    changes: dict[str, Any] = Field(default_factory=dict, description="Keys of the sweep that are others for them.")
    words: Text = Field(description="Its description, in words.")

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.bound is None) == (not self.policies):
            raise ValueError("a yardstick has either bound or policies")
        return self


class Task(Block):
    """Contents of the file of a task."""

    title: Text = Field(description="Title, a line.")
    version: Annotated[int, Field(ge=1)] = Field(description="Grows when numbers of earlier results do not hold.")
    sweep: dict[str, Any] = Field(description="Machine, load, part and windows, as a sweep file has them.")
    logs: dict[Text, TaskLog] = Field(default_factory=dict, description="Logs that must be fetched, by file name.")
    known: Literal["nothing", "requests", "predictions", "truth"] = Field(
        description="Information about run times that policies may use."
    )
    objective: Text = Field(description="The metric that decides.")
    tail: Text = Field(description="The metric of the tail.")
    tail_limit: Positive = Field(description="Largest ratio of the tail to the baseline's.")
    waits: Text = Field(description="A metric that is above 0 where anybody has to wait.")
    baseline: Text = Field(description="The policy that ratios refer to.")
    classic: list[Text] = Field(min_length=1, description="The classic policies, or groups of them.")
    yardstick: Yardstick = Field(description="Yardstick for the best classic policy.")
    budget_core_minutes: Positive = Field(description="Core-minutes that may be spent on learning.")

    @model_validator(mode="after")
    def _leaves_out(self) -> Self:
        for key in RULED:
            if key in self.sweep:
                raise ValueError(f"sweep has {key}, which follows from the rules of the task")
        return self

    @property
    def setting_name(self) -> str:
        """Name of the setting."""
        return str(self.sweep.get("setting", BATCH))

    @property
    def setting(self) -> Setting:
        """The setting."""
        return find_setting(self.setting_name)

    def sha256(self) -> str:
        """Return the SHA-256 of all that numbers depend on, that is of all but the title."""
        data = self.model_dump(mode="json", exclude={"title"})
        return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Named:
    """A task by its name.

    Attributes
    ----------
    name
        The name of its file.
    task
        Contents of its file.
    """

    name: str
    task: Task

    @property
    def is_small(self) -> bool:
        """True if its load need not be fetched."""
        return not self.task.logs

    def sweep(
        self,
        candidates: Sequence[str],
        *,
        changes: Mapping[str, Any] | None = None,
        metrics: Sequence[str] = (),
        folder: str | Path = ".",
    ) -> Sweep:
        """Return the comparison of candidates with the baseline on the task.

        Parameters
        ----------
        changes
            Keys of the sweep that are others.
        metrics
            Further metrics of the tables.
        folder
            Folder that paths of candidates start from.

        Raises
        ------
        HdrlError
            If a log is missing, or something is wrong with the candidates.
        """
        data = {**self.task.sweep, **(changes or {})}
        logs = self._logs()
        data["workloads"] = [str(logs.get(text, text)) for text in data.get("workloads", [])]
        data |= {
            "candidates": list(candidates),
            "baseline": self.task.baseline,
            "metrics": list(dict.fromkeys([self.task.objective, self.task.tail, *metrics])),
        }
        return make_sweep(data, where=f"task {self.name}", folder=folder)

    def missing(self) -> list[str]:
        """Return the names of the logs that are nowhere."""
        return [name for name in self.task.logs if _path_of_log(name) is None]

    def _logs(self) -> dict[str, Path]:
        found: dict[str, Path] = {}
        for name, log in self.task.logs.items():
            path = _path_of_log(name)
            if path is None:
                looked = ", ".join(map(str, trace_folders())) or "no folder"
                raise ReadError(
                    f"task {self.name}",
                    f"needs the log {name}; looked in: {looked}. {log.how} Or say where it is: {TRACES_VARIABLE}=DIR",
                )
            sha256 = sha256_of_file(path)
            if sha256 != log.sha256:
                raise ReadError(path, f"is another version: its SHA-256 is {sha256}, expected {log.sha256}")
            found[name] = path.absolute()
        return found


def _path_of_log(name: str) -> Path | None:
    return next((folder / name for folder in trace_folders() if (folder / name).is_file()), None)


def all_tasks() -> dict[str, Named]:
    """Return all tasks by name, those of a setting together."""
    found = [read_task(path.stem) for path in sorted(TASKS.glob("*.json"))]
    return {one.name: one for one in found}


def read_task(name: str) -> Named:
    """Return a task.

    Parameters
    ----------
    name
        Its name, or ``TASK@ROUND`` for the same with the windows of a round.

    Raises
    ------
    UnknownName
        If there is none of the name.
    OptionsError
        If the windows of the round are not known yet, or it does not have the task.
    """
    name, at, round_name = name.partition(AT)
    if at:
        return _of_round(read_task(name), round_name)
    known = {path.stem: path for path in sorted(TASKS.glob("*.json"))}
    if name not in known:
        raise UnknownName("task", name, [*known, SMALL, ALL])
    return Named(name, validated(Task, read_json(known[name]), f"task {name}"))


def _of_round(named: Named, round_name: str) -> Named:
    """Return a task with the windows of a round."""
    found = find_round(round_name)
    if named.name not in found.tasks:
        raise UnknownName(f"task of round {round_name}", named.name, found.tasks)
    sweep = with_seed(named.task.sweep, found.seed_of(named.name))
    title = f"{named.task.title}, round {round_name}"
    return Named(f"{named.name}{AT}{round_name}", named.task.model_copy(update={"sweep": sweep, "title": title}))


def with_seed(sweep: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return a sweep whose load is generated by another seed.

    Raises
    ------
    OptionsError
        If no seed changes its windows: they are those of a log, or of a table.
    """
    load = sweep.get("load", {})
    if "seed" in load:
        return {**sweep, "load": {**load, "seed": seed}}
    if "loads" in sweep:
        return {**sweep, "seed": seed}
    raise OptionsError(
        f"no seed changes the windows of {', '.join(sweep.get('workloads', []))}: expected generated loads"
    )


def chosen_tasks(text: str) -> list[Named]:
    """Return the tasks that a text names.

    Parameters
    ----------
    text
        ``small``, ``all``, or names with commas between them; ``@ROUND`` stands for all tasks of a round.

    Raises
    ------
    UnknownName
        If one does not exist.
    OptionsError
        If one is named twice, or none is.
    """
    names = [name.strip() for name in text.split(",")]
    if len(names) == 1 and text.startswith(AT):
        names = [f"{name}{text}" for name in find_round(text.removeprefix(AT)).tasks]
    if names in ([SMALL], [ALL]):
        return [one for one in all_tasks().values() if one.is_small or names == [ALL]]
    if len(set(names)) < len(names):
        raise OptionsError(f"--tasks {text}: names {max(names, key=names.count)!r} twice")
    return [read_task(name) for name in names]
