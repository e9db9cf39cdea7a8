"""Information that an entry uses in a task, and the divisions open to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from hdrl.bench.results import DIVISIONS, Division
from hdrl.bench.tasks import LEVELS, Named
from hdrl.experiment.compare.candidates import Candidate, read_candidates
from hdrl.experiment.compare.cases import Case, test_cases
from hdrl.experiment.compare.knowledge import (
    JudgingWindows,
    cautions_of_windows,
    deciders_of_files,
    hidden_information_users,
    peer_groups,
)
from hdrl.experiment.plan import Plan, plan_of
from hdrl.options.sweep import Sweep


class Known(NamedTuple):
    """Information that an entry uses: its kind, and words."""

    kind: Literal["judged", "log", "truth", "predictions"]
    words: str


@dataclass(frozen=True, slots=True)
class TaskWorld:
    """Simulation of a task.

    Attributes
    ----------
    named
        The task.
    plan
        Its comparison.
    cases
        The windows that judge.
    """

    named: Named
    plan: Plan[Sweep]
    cases: tuple[Case, ...]

    def candidate(self) -> Candidate:
        """Return the entry."""
        (found,) = read_candidates(self.plan.request, self.plan.setting.policies)
        return found

    def baseline(self) -> Candidate:
        """Return the baseline."""
        (found,) = read_candidates(self.plan.request, self.plan.setting.policies, [self.named.task.baseline])
        return found

    def windows(self, cases: Sequence[Case]) -> JudgingWindows:
        """Return cases as models may know them."""
        plan = self.plan
        return JudgingWindows(
            cases, plan.loads, plan.machine, lambda one: one.items(plan.setting, plan.machine, plan.loads, plan.request)
        )


def world_of(named: Named, sweep: Sweep) -> TaskWorld:
    """Return the simulation of a comparison on a task."""
    plan = plan_of(sweep)
    return TaskWorld(named, plan, tuple(test_cases(plan.request, plan.loads, setting=plan.setting)))


def knowledge(world: TaskWorld, *, runs_python: bool) -> list[Known]:
    """Return the information that an entry uses in a task beyond the common one.

    Parameters
    ----------
    runs_python
        True if a Python file may run here, which says whether it is clairvoyant.
    """
    candidate, setting = world.candidate(), world.plan.setting
    if candidate.is_file and not runs_python:
        return []
    deciders = deciders_of_files([candidate], setting)
    found = _known_by_name(world, candidate)
    level = LEVELS.index(world.named.task.known)
    if hidden_information_users(deciders, [candidate], setting) and level < LEVELS.index("truth"):
        found.append(Known("truth", "sees how long jobs take"))
    if level < LEVELS.index("predictions") and peer_groups(deciders, [candidate], setting):
        found.append(Known("predictions", "uses predictions of run times"))
    for _, words in cautions_of_windows(deciders, world.windows(world.cases)):
        found.append(Known("judged", words.removeprefix(f"{candidate.name} ")))
    if all(one.kind != "judged" for one in found):
        wholes = [Case(load.name, position, 0, 0, load.n_items) for position, load in enumerate(world.plan.loads)]
        for _, words in cautions_of_windows(deciders, world.windows(wholes)):
            found.append(Known("log", words.removeprefix(f"{candidate.name} ").partition(", made otherwise")[0]))
            break
    return found


def _known_by_name(world: TaskWorld, candidate: Candidate) -> list[Known]:
    """Return which loads of a task a named policy was trained on."""
    if not candidate.policy:
        return []
    sweep = world.plan.request
    shares = world.plan.setting.policies.trained_on(sweep.resolve_policy(candidate.policy))
    return [
        Known(
            "judged" if share > sweep.range[0] else "log",
            f"was trained on jobs of the first {share:.0%} of {load.name}",
        )
        for load in world.plan.loads
        if (share := shares.get(load.name, 0.0)) > 0
    ]


def forbidden(known: Sequence[Known], division: Division) -> str:
    """Describe the information of an entry that a division forbids; empty if none."""
    for one in known:
        if one.kind == "judged":
            return f"{one.words}, which no division allows"
        if one.kind in ("truth", "predictions") and division != "clairvoyant":
            return f"{one.words}, which division {division} forbids here"
        if one.kind == "log" and division == "untrained":
            return f"{one.words}: not those that judge it, but of the same log, which division untrained forbids"
    return ""


def strictest(known: Sequence[Known]) -> Division:
    """Return the strictest division that lets an entry in."""
    return next((one for one in DIVISIONS if not forbidden(known, one)), "clairvoyant")
