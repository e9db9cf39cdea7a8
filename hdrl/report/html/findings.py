"""What run folders say by themselves: the question, the verdict, and what would mislead a reader."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hdrl.report.html.numbers import listed, metric_form, metric_label, ratio_text
from hdrl.report.html.sources import UNRUN, Run
from hdrl.settings.batch.metrics import METRICS

LOAD_LIMIT = 1.0
"""Offered load from which on a queue grows as long as jobs arrive."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What a report says above everything else.

    Attributes
    ----------
    question
        The question, one sentence.
    verdict
        The answer in one sentence.
    certainty
        How certain it is: the interval, or why there is none.
    warnings
        What would mislead a reader, a sentence each.
    """

    question: str
    verdict: str
    certainty: str
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Group:
    """The runs of one policy."""

    policy: str
    values: tuple[float, ...]
    n_unrun: int

    @property
    def mean(self) -> float:
        return math.fsum(self.values) / len(self.values)

    @property
    def is_complete(self) -> bool:
        return self.n_unrun == 0 and all(math.isfinite(value) for value in self.values)


def findings_of_runs(runs: Sequence[Run], metric: str) -> Findings:
    """Return what plain runs say about a metric.

    Parameters
    ----------
    runs
        The runs, at least one.
    metric
        The metric that decides; ``METRICS`` says whether less of it is better.
    """
    differences = _differences(runs)
    groups = _groups(runs, metric)
    warnings = [*differences, *_unrun(runs), *_high_loads(runs), *_peeking(runs), *_unequal_seeds(runs)]
    if differences:
        verdict = "These runs answer no common question: they differ in more than the policy."
        return Findings(_question(runs, metric, groups), verdict, _repeats(groups), tuple(warnings))
    return Findings(
        _question(runs, metric, groups), _verdict(groups, metric), _certainty(groups, metric), tuple(warnings)
    )


def is_comparable(runs: Sequence[Run]) -> bool:
    """Tell whether the runs differ in the policy and the seed only, as far as they tell.

    Parameters
    ----------
    runs
        The runs.
    """
    return not _differences(runs)


def best_of(values: Sequence[float], metric: str, *, allowed: Sequence[bool]) -> list[bool]:
    """Tell which of several values are the best; none where all are equal or nothing is better.

    Parameters
    ----------
    values
        The values.
    metric
        Their metric.
    allowed
        Which of them may be the best: a run that left jobs unrun may not.
    """
    info = METRICS.get(metric)
    usable = [value for value, is_allowed in zip(values, allowed, strict=True) if is_allowed and math.isfinite(value)]
    if info is None or info.lower_is_better is None or len(values) < 2 or not usable or min(usable) == max(usable):
        return [False] * len(values)
    best = min(usable) if info.lower_is_better else max(usable)
    return [is_allowed and value == best for value, is_allowed in zip(values, allowed, strict=True)]


def _groups(runs: Sequence[Run], metric: str) -> list[_Group]:
    policies = list(dict.fromkeys(run.policy for run in runs))
    groups = []
    for policy in policies:
        mine = [run for run in runs if run.policy == policy]
        groups.append(_Group(policy, tuple(run.metric(metric) for run in mine), sum(run.n_unrun for run in mine)))
    return groups


def _question(runs: Sequence[Run], metric: str, groups: Sequence[_Group]) -> str:
    platform = runs[0].data.platform or "its platform"
    workload = runs[0].data.workload or "its workload"
    if len(groups) == 1:
        return f"How does {groups[0].policy} schedule {workload} on {platform}?"
    info = METRICS.get(metric)
    most = "highest" if info is not None and info.lower_is_better is False else "lowest"
    names = listed([group.policy for group in groups])
    return f"Which of {names} has the {most} {metric_label(metric)} for {workload} on {platform}?"


def _verdict(groups: Sequence[_Group], metric: str) -> str:
    label = metric_label(metric)
    form = metric_form(metric, [group.mean for group in groups])
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
    info = METRICS.get(metric)
    is_more_better = info is not None and info.lower_is_better is False
    ranked = sorted(complete, key=lambda group: -group.mean if is_more_better else group.mean)
    first, second = ranked[0], ranked[1]
    most = "highest" if is_more_better else "lowest"
    if first.mean == second.mean:
        names = [group.policy for group in ranked if group.mean == first.mean]
        return f"{listed(names)} share the {most} {label}: {form.quantity(first.mean)}.{aside}"
    times = f", which is {ratio_text(first.mean / second.mean)} times" if second.mean > 0 else ", before"
    runner_up = second.policy if len(ranked) == 2 else f"{second.policy}, the next best"
    return (
        f"{first.policy} has the {most} {label}: {form.quantity(first.mean)}{times} "
        f"the {form.quantity(second.mean)} of {runner_up}.{aside}"
    )


def _repeats(groups: Sequence[_Group]) -> str:
    counts = {len(group.values) for group in groups}
    return "One run each: no interval." if counts == {1} else ""


def _certainty(groups: Sequence[_Group], metric: str) -> str:
    if all(len(group.values) == 1 for group in groups):
        each = "One run" if len(groups) == 1 else "One run each"
        return (
            f"{each}: no interval tells how much of this is chance. "
            "hdrl compare repeats it over windows of the workload and seeds."
        )
    form = metric_form(metric, [value for group in groups for value in group.values])
    ranges = [
        f"{group.policy} from {form.number(min(group.values))} to {form.quantity(max(group.values))}"
        for group in groups
    ]
    return (
        f"Means of repeated runs with other seeds: {listed(ranges, most=6)}. Too few for an interval; "
        "hdrl compare gives one."
    )


def _differences(runs: Sequence[Run]) -> list[str]:
    """Say what the runs do not have in common besides the policy and the seed."""
    parts: tuple[tuple[str, Callable[[Run], Any]], ...] = (
        ("platforms", lambda run: run.origin("platform").get("sha256") or run.data.n_cores),
        ("workloads", _workload_key),
        ("simulators", lambda run: run.options.get("simulator")),
        ("compatibility modes", lambda run: run.options.get("compatibility")),
        ("models of contention", lambda run: run.options.get("contention")),
    )
    result = []
    for what, key in parts:
        found = {json.dumps(key(run), sort_keys=True) for run in runs}
        if len(found) > 1:
            result.append(f"The runs have {len(found)} different {what}: their numbers cannot be compared.")
    return result


def _workload_key(run: Run) -> Any:
    """Return what tells workloads apart that are the same but for the seed of their draws."""
    workload = run.origin("workload")
    if not workload.get("sha256"):  # a folder of another program: what its jobs tell
        data = run.data
        return sorted(zip(data.job_id.tolist(), data.submit_s.tolist(), data.cores.tolist(), strict=True))
    origin = workload.get("origin")
    if not isinstance(origin, dict) or "seed" not in origin:
        return workload.get("sha256")
    return [workload.get("n_jobs"), {key: value for key, value in origin.items() if key != "seed"}]


def _unrun(runs: Sequence[Run]) -> list[str]:
    result = []
    for run in runs:
        if run.n_unrun:
            parts = [f"{int(run.metric(key)):,} {words}" for key, words in UNRUN.items() if run.metrics.get(key, 0) > 0]
            jobs = run.metric("n_jobs")
            total = f" of {int(jobs):,}" if math.isfinite(jobs) else ""
            result.append(
                f"{run.name} did not run {run.n_unrun:,}{total} jobs ({', '.join(parts)}): "
                "its means cover the others only."
            )
    return result


def _high_loads(runs: Sequence[Run]) -> list[str]:
    high = [(run, load) for run in runs if (load := run.offered_load()) >= LOAD_LIMIT]
    if not high:
        return []
    top = max(load for _, load in high)
    who = "" if len(high) == len(runs) else f" ({listed([run.name for run, _ in high])})"
    return [
        f"The offered load is {top:.2f}{who}: jobs ask for more than the machine has, the queue grows as long as they "
        "arrive, and means depend on how many jobs there are."
    ]


def _peeking(runs: Sequence[Run]) -> list[str]:
    exact = [run.name for run in runs if _at(run.options, "workload", "estimates") == "exact"]
    if not exact:
        return []
    who = "All runs" if len(exact) == len(runs) else listed(exact)
    return [f"{who}: requested times are the true run times, which no real scheduler knows."]


def _unequal_seeds(runs: Sequence[Run]) -> list[str]:
    seeds: dict[str, set[Any]] = {}
    for run in runs:
        seeds.setdefault(run.policy, set()).add(run.provenance.get("seed"))
    if len({frozenset(values) for values in seeds.values()}) > 1:
        return ["The policies ran with different seeds: a part of their difference comes from the draws."]
    return []


def _at(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value
