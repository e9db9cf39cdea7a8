"""Findings from run folders alone: the question, the verdict, and what would mislead a reader."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from hdrl.figures.figure import Run
from hdrl.figures.numbers import Form, listed, metric_form, metric_words, number_words
from hdrl.metrics.catalogue import MetricInfo
from hdrl.report.runs import policy_of
from hdrl.setting import Setting


@dataclass(frozen=True, slots=True)
class Findings:
    """Summary at the top of a report."""

    question: str  # the question, one sentence
    verdict: str  # the answer in one sentence
    certainty: str  # its certainty: the interval, or why there is none
    warnings: tuple[str, ...]  # cautions for readers, a sentence each


@dataclass(frozen=True, slots=True)
class _Group:
    """The runs of one policy, each counted once."""

    policy: str
    values: tuple[float, ...]
    n_unrun: int
    n_repeated: int

    @property
    def mean(self) -> float:
        return math.fsum(self.values) / len(self.values)

    @property
    def is_complete(self) -> bool:
        return self.n_unrun == 0 and all(math.isfinite(value) for value in self.values)


def findings_of_runs(runs: Sequence[Run], metric: str, setting: Setting) -> Findings:
    """Return the findings of plain runs about a metric."""
    differences = _differences(runs)
    groups = _groups(runs, metric, setting)
    warnings = (*differences, *_repeated(groups), *_unrun(runs, setting), *_cautions(runs), *_unequal_seeds(runs))
    question = _question(runs, metric, groups, setting)
    if differences:
        verdict = "These runs answer no common question: they differ in more than the policy."
        return Findings(question, verdict, _one_each(groups), warnings)
    return Findings(question, _verdict(groups, metric, setting), _certainty(groups, metric, setting), warnings)


def is_comparable(runs: Sequence[Run]) -> bool:
    """Return whether the runs differ in the policy and the seed only, by their own data."""
    return not _differences(runs)


def n_unrun(run: Run, setting: Setting) -> int:
    """Return the number of items that a run did not bring to an end."""
    return int(sum(run.metrics.get(name, 0) for name in setting.measures.unrun))


def best_of(values: Sequence[float | None], info: MetricInfo | None, *, allowed: Sequence[bool]) -> list[bool]:
    """Return the mask of the best of several values; none where all are equal or nothing is better.

    A run that left something unrun is not ``allowed`` to be the best.
    """
    usable = [
        value
        for value, is_allowed in zip(values, allowed, strict=True)
        if is_allowed and value is not None and math.isfinite(value)
    ]
    if info is None or info.lower_is_better is None or len(values) < 2 or not usable or min(usable) == max(usable):
        return [False] * len(values)
    best = min(usable) if info.lower_is_better else max(usable)
    return [is_allowed and value == best for value, is_allowed in zip(values, allowed, strict=True)]


def _groups(runs: Sequence[Run], metric: str, setting: Setting) -> list[_Group]:
    groups = []
    for policy in dict.fromkeys(map(policy_of, runs)):
        mine = [run for run in runs if policy_of(run) == policy]
        once = list({_identity(run): run for run in mine}.values())
        values = tuple(run.metrics.get(metric, math.nan) for run in once)
        groups.append(_Group(policy, values, sum(n_unrun(run, setting) for run in once), len(mine) - len(once)))
    return groups


def _identity(run: Run) -> str:
    """Return the identity of a run, the same for equal runs of a policy: the seed and all numbers."""
    if "seed" not in run.provenance:
        return str(run.folder.resolve())
    return json.dumps([run.provenance["seed"], sorted(run.metrics.items())])


def _less_is_better(metric: str, setting: Setting) -> bool:
    info = setting.measures.metrics.get(metric)
    return info is None or info.lower_is_better is not False


def _form(metric: str, setting: Setting, values: Sequence[float]) -> Form:
    return metric_form(metric, setting.measures.metrics.get(metric), values)


def _question(runs: Sequence[Run], metric: str, groups: Sequence[_Group], setting: Setting) -> str:
    platform = _one_or_many([run.platform for run in runs], "platform")
    workload = _one_or_many([run.workload for run in runs], "workload")
    if len(groups) == 1:
        return f"How does {groups[0].policy} schedule {workload} on {platform}?"
    most = "lowest" if _less_is_better(metric, setting) else "highest"
    names = listed([group.policy for group in groups])
    return f"Which of {names} has the {most} {metric_words(metric)} for {workload} on {platform}?"


def _one_or_many(names: Sequence[str | None], what: str) -> str:
    n_names = len(set(names))
    return f"{n_names} {what}s" if n_names > 1 else names[0] or f"its {what}"


def _verdict(groups: Sequence[_Group], metric: str, setting: Setting) -> str:
    label = metric_words(metric)
    form = _form(metric, setting, [group.mean for group in groups])
    complete = [group for group in groups if group.is_complete]
    left = [group.policy for group in groups if not group.is_complete]
    if not complete:
        return f"No verdict: {listed(left)} left jobs unrun, so a {label} says nothing."
    if len(groups) == 1:
        return f"{groups[0].policy} reaches a {label} of {form.quantity(groups[0].mean)}."
    aside = f" {listed(left)} left jobs unrun and cannot win." if left else ""
    if len(complete) == 1:
        only = complete[0]
        return f"Only {only.policy} ran all jobs, with a {label} of {form.quantity(only.mean)}.{aside}"
    return _winner(complete, label, form, less_is_better=_less_is_better(metric, setting)) + aside


def _winner(groups: Sequence[_Group], label: str, form: Form, *, less_is_better: bool) -> str:
    """Name the best of several policies."""
    ranked = sorted(groups, key=lambda group: group.mean if less_is_better else -group.mean)
    first, second = ranked[0], ranked[1]
    most = "lowest" if less_is_better else "highest"
    if first.mean == second.mean:
        names = [group.policy for group in ranked if group.mean == first.mean]
        return f"{listed(names)} share the {most} {label}: {form.quantity(first.mean)}."
    times = f", which is {number_words(first.mean / second.mean)} times" if second.mean > 0 else ", before"
    runner_up = second.policy if len(ranked) == 2 else f"{second.policy}, the next"
    return (
        f"{first.policy} has the {most} {label}: {form.quantity(first.mean)}{times} "
        f"the {form.quantity(second.mean)} of {runner_up}."
    )


def _one_each(groups: Sequence[_Group]) -> str:
    return "One run each: no interval." if all(len(group.values) == 1 for group in groups) else ""


def _certainty(groups: Sequence[_Group], metric: str, setting: Setting) -> str:
    if all(len(group.values) == 1 for group in groups):
        each = "One run" if len(groups) == 1 else "One run each"
        return (
            f"{each}: no interval shows how much of this is chance. "
            "hdrl compare repeats it over windows of the workload and seeds."
        )
    form = _form(metric, setting, [value for group in groups for value in group.values])
    ranges = [
        f"{group.policy} from {form.number(min(group.values))} to {form.quantity(max(group.values))}"
        for group in groups
    ]
    return (
        f"Means of repeated runs with other seeds: {listed(ranges, most=6)}. Too few for an interval; "
        "hdrl compare gives one."
    )


def _differences(runs: Sequence[Run]) -> list[str]:
    """Return the differences between the runs, apart from the policy and the seed."""
    result = []
    for what in dict.fromkeys(name for run in runs for name in run.conditions):
        found = {json.dumps(run.conditions.get(what), sort_keys=True) for run in runs}
        if len(found) > 1:
            result.append(f"The runs have {len(found)} different {what}: their numbers cannot be compared.")
    return result


def _repeated(groups: Sequence[_Group]) -> list[str]:
    return [
        f"{group.policy}: the same run was given more than once; it counts once, since a seed always gives the same "
        "numbers."
        for group in groups
        if group.n_repeated
    ]


def _unrun(runs: Sequence[Run], setting: Setting) -> list[str]:
    result = []
    for run in runs:
        if n_unrun(run, setting):
            unrun = setting.measures.unrun
            parts = [f"{int(n):,} {metric_words(name)}" for name in unrun if (n := run.metrics.get(name, 0))]
            total = "" if run.n_items is None else f" of {run.n_items:,}"
            result.append(
                f"{run.name} did not run {n_unrun(run, setting):,}{total} jobs ({', '.join(parts)}): "
                "its means cover the others only."
            )
    return result


def _cautions(runs: Sequence[Run]) -> list[str]:
    """Return the cautions of the runs; one that holds for all appears once."""
    names_of: dict[str, list[str]] = {}
    for run in runs:
        for text in run.cautions.values():
            names_of.setdefault(text, []).append(run.name)
    return [
        f"{text[:1].upper()}{text[1:]}" if len(names) == len(runs) else f"{listed(names)}: {text}"
        for text, names in names_of.items()
    ]


def _unequal_seeds(runs: Sequence[Run]) -> list[str]:
    seeds: dict[str, set[str]] = {}
    for run in runs:
        seeds.setdefault(policy_of(run), set()).add(str(run.provenance.get("seed")))
    if len({frozenset(values) for values in seeds.values()}) > 1:
        return ["The policies ran with different seeds: a part of their difference comes from the draws."]
    return []
