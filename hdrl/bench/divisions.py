"""What an entry knows of a task, and in which division that lets it enter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from hdrl.bench.results import DIVISIONS, Division
from hdrl.bench.tasks import LEVELS, Named
from hdrl.experiment.compare.candidates import Candidate
from hdrl.experiment.compare.cases import Case, read_loads, test_cases
from hdrl.experiment.compare.knowledge import (
    JudgingWindows,
    cautions_of_windows,
    deciders_of_files,
    rival_groups,
    see_too_much,
)
from hdrl.options.sweep import Sweep
from hdrl.setting import Load, Machine, Setting


class Known(NamedTuple):
    """What was found of an entry: what it is called, and in words."""

    kind: Literal["judged", "log", "truth", "predictions"]
    words: str


class World(NamedTuple):
    """What is simulated in a task."""

    setting: Setting
    machine: Machine
    loads: list[Load]
    cases: list[Case]

    def windows(self, sweep: Sweep, cases: Sequence[Case]) -> JudgingWindows:
        """Return cases as models may know them."""
        return JudgingWindows(
            cases, self.loads, self.machine, lambda case: case.items(self.setting, self.machine, self.loads, sweep)
        )


def world_of(named: Named, sweep: Sweep) -> World:
    """Return what a comparison on a task simulates.

    Parameters
    ----------
    named, sweep
        The task, and the comparison.
    """
    setting = named.task.setting
    machine = setting.inputs.machine(sweep)
    loads = read_loads(sweep, setting, machine)
    return World(setting, machine, loads, test_cases(sweep, loads))


def knowledge(named: Named, sweep: Sweep, world: World, candidate: Candidate, *, runs_python: bool) -> list[Known]:
    """Return what an entry knows of a task beyond what everybody does.

    Parameters
    ----------
    named, sweep, world
        The task, the comparison and what that simulates.
    candidate
        The entry.
    runs_python
        Whether a Python file may run here, which says whether it is clairvoyant.
    """
    if candidate.is_file and not runs_python:
        return []
    deciders = deciders_of_files([candidate], world.setting)
    found: list[Known] = []
    level = LEVELS.index(named.task.known)
    if see_too_much(deciders, [candidate], world.setting) and level < LEVELS.index("truth"):
        found.append(Known("truth", "sees how long jobs take"))
    if level < LEVELS.index("predictions") and rival_groups(deciders, [candidate], world.setting):
        found.append(Known("predictions", "goes by predictions of run times"))
    for _, words in cautions_of_windows(deciders, world.windows(sweep, world.cases)):
        found.append(Known("judged", words.removeprefix(f"{candidate.name} ")))
    if not found or all(one.kind != "judged" for one in found):
        wholes = [Case(load.name, place, 0, 0, load.n_items) for place, load in enumerate(world.loads)]
        for _, words in cautions_of_windows(deciders, world.windows(sweep, wholes)):
            found.append(Known("log", words.removeprefix(f"{candidate.name} ").partition(", made otherwise")[0]))
            break
    return found


def forbidden(known: Sequence[Known], division: Division) -> str:
    """Say what of an entry's knowledge a division forbids; empty if nothing.

    Parameters
    ----------
    known
        What it knows.
    division
        The division.
    """
    for one in known:
        if one.kind == "judged":
            return f"{one.words}, which no division allows"
        if one.kind in ("truth", "predictions") and division != "clairvoyant":
            return f"{one.words}, which division {division} forbids here"
        if one.kind == "log" and division == "untrained":
            return f"{one.words}: not those that judge it, but of the same log, which division untrained forbids"
    return ""


def strictest(known: Sequence[Known]) -> Division:
    """Return the strictest division that lets an entry in, as far as one does.

    Parameters
    ----------
    known
        What it knows.
    """
    return next((one for one in DIVISIONS if not forbidden(known, one)), "clairvoyant")
