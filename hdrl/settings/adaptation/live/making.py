"""Tables of our own: every sequence of adaptations really trained, what sequences share only once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hdrl.base.errors import OptionsError, ReadError
from hdrl.base.files import read_json
from hdrl.base.sequences import words_of
from hdrl.learn.threads import torch_threads
from hdrl.settings.adaptation.live.clocks import MeasuredClock, find_clock
from hdrl.settings.adaptation.live.data import read_data
from hdrl.settings.adaptation.live.job import JobRules, LiveJob
from hdrl.settings.adaptation.machine import read_device
from hdrl.settings.adaptation.models import describe, describe_blocks, reachable
from hdrl.settings.adaptation.ownmodels import is_own_model, read_model
from hdrl.settings.adaptation.policies import LINEAR_DECAY
from hdrl.settings.adaptation.table import MOST_SEQUENCES

RUNGS = (0.25, 0.5)
"""Shares of the time behind the last decision at which learning curves are measured."""

DIGITS = 4
"""Decimals of accuracies in a table."""


@dataclass(frozen=True, slots=True)
class TablePlan:
    """Measurements that make a table."""

    # see `hdrl.settings.adaptation.ownmodels.read_model` and `hdrl.settings.adaptation.live.data.read_data`
    model: str
    data: str
    budget_s: float  # training budget of a job, in seconds
    # time of the first adaptation, and training time between two decisions
    start_s: float
    gap_s: float
    device: str = "counted"  # device of the training
    clock: str = "counted"  # see `hdrl.settings.adaptation.live.clocks.find_clock`
    n_steps: int = 3  # number of decisions
    # see `hdrl.settings.adaptation.live.job.JobRules`
    rate: str = "reset"
    norm: str = "preserving"
    lr: float = 0.01
    batch_size: int = 64


def check_plan(plan: TablePlan) -> None:
    """Refuse a plan that cannot be measured.

    Raises
    ------
    OptionsError
        If the last decision is not within the budget, the clock and the device do not go together, or there are too
        many sequences.
    UnknownName
        If there is no such model or data.
    """
    device = read_device(plan.device, "device")
    clock = find_clock(plan.clock, device)
    data = read_data(plan.data, 0)
    model = read_model(plan.model, data.shape, data.n_classes)
    n_actions = len(model.targets) + 1
    if n_actions**plan.n_steps > MOST_SEQUENCES:
        raise OptionsError(
            f"{plan.model}: {plan.n_steps} decisions among {n_actions} actions are more than {MOST_SEQUENCES} sequences"
        )
    if isinstance(clock, MeasuredClock):
        clock.check(reachable(model, plan.n_steps), data.shape)
    last_s = plan.start_s + (plan.n_steps - 1) * plan.gap_s
    if not (plan.start_s >= 0.0 and plan.gap_s > 0.0 and last_s < plan.budget_s < math.inf):
        raise OptionsError(
            f"{plan.n_steps} decisions from {plan.start_s:g} s on, {plan.gap_s:g} s apart, are not within the budget of"
            f" {plan.budget_s:g} s"
        )


def measure(plan: TablePlan, seed: int) -> dict[str, Any]:
    """Train a job under every sequence.

    Parameters
    ----------
    seed
        Seed of first weights, order and parts of the data.

    Returns
    -------
    dict
        ``left_s``: for each sequence, see `words_of`, the time left before each decision; ``before`` and
        ``curve``: validation accuracies then, and after the last one; ``draw``: accuracies at the end (validation and
        test); ``others``: those of jobs that never adapt, under other rules.

    Raises
    ------
    OptionsError
        If the budget ends before the last decision.
    """
    device = read_device(plan.device, "device")
    clock = find_clock(plan.clock, device)
    data = read_data(plan.data, seed)
    common: dict[str, Any] = {"budget_s": plan.budget_s, "lr": plan.lr, "batch_size": plan.batch_size}
    rules = JobRules(**common, rate=plan.rate, norm=plan.norm)  # type: ignore[arg-type]
    found: dict[str, Any] = {"left_s": {}, "before": {}, "draw": {}, "curve": {}}
    with torch_threads(1):
        job = LiveJob(plan.model, data, rules, clock, seed)
        job.train_until(plan.start_s)
        _explore(job, (), (), (), plan, found)
        other = LiveJob(plan.model, data, JobRules(**common, rate="linear"), clock, seed)
        other.train_until(plan.budget_s)
    found["others"] = {LINEAR_DECAY: _accuracies(other)}
    return found


def _explore(
    job: LiveJob,
    done: tuple[int, ...],
    left_s: tuple[float, ...],
    before: tuple[float, ...],
    plan: TablePlan,
    found: dict[str, Any],
) -> None:
    """Go all ways from a decision on."""
    if job.left_s <= 0.0:
        raise OptionsError(
            f"the budget of {plan.budget_s:g} s ends before decision {len(done) + 1}, expected an earlier start"
        )
    before = (*before, round(job.validation(), DIGITS))
    for action in range(len(job.network.model.targets) + 1):
        here = job.snapshot()
        here.adapt(action)
        actions, times = (*done, action), (*left_s, job.left_s)
        if len(actions) < plan.n_steps:
            here.train_until(here.spent_s + plan.gap_s)
            _explore(here, actions, times, before, plan, found)
            continue
        curve, last_s = [], here.left_s
        for rung in RUNGS:
            here.train_until(here.rules.budget_s - (1.0 - rung) * last_s)
            curve.append(round(here.validation(), DIGITS))
        here.train_until(here.rules.budget_s)
        key = words_of(actions, len(job.network.model.targets) + 1)
        found["left_s"][key], found["before"][key] = list(times), list(before)
        found["curve"][key], found["draw"][key] = curve, _accuracies(here)


def _accuracies(job: LiveJob) -> list[float]:
    return [round(job.validation(), DIGITS), round(job.test(), DIGITS)]


def is_measured(plan: TablePlan, seed: int, path: Path) -> bool:
    """Return True if a file holds the measurements of a plan with a seed; refuse a file of another plan."""
    if not path.is_file():
        return False
    data, head = read_json(path), _head(plan, seed)
    if not isinstance(data, Mapping) or {key: data.get(key) for key in head} != head or "before" not in data:
        raise ReadError(path, "was measured by another plan, expected another folder, or none")
    keys = set(_sequences(plan).values())
    parts = [data.get(name) for name in ("left_s", "before", "draw", "curve")]
    if not all(isinstance(one, Mapping) and keys <= set(one) for one in parts) or "others" not in data:
        raise ReadError(path, f"lacks some of {len(keys)} sequences: remove it to measure them again")
    return True


def _sequences(plan: TablePlan) -> dict[tuple[int, ...], str]:
    """Return the name of each sequence of a plan in its parts."""
    data = read_data(plan.data, 0)
    n_actions = len(read_model(plan.model, data.shape, data.n_classes).targets) + 1
    every = itertools.product(range(n_actions), repeat=plan.n_steps)
    return {actions: words_of(actions, n_actions) for actions in every}


def measure_part(plan: TablePlan, seed: int) -> dict[str, Any]:
    """Return the stored record of a seed: the results of `measure`, and the plan."""
    return {**_head(plan, seed), **measure(plan, seed)}


def _head(plan: TablePlan, seed: int) -> dict[str, Any]:
    """Return by what a part is known: the plan, and what is in files that it names and that may change."""
    head: dict[str, Any] = {"plan": asdict(plan), "seed": seed}
    if is_own_model(plan.model):
        data = read_data(plan.data, 0)
        head["layers"] = describe_blocks(read_model(plan.model, data.shape, data.n_classes))
    clock = find_clock(plan.clock, read_device(plan.device, "device"))
    if isinstance(clock, MeasuredClock):
        head["times"] = clock.sha256()
    return head


def table_json(plan: TablePlan, parts: Sequence[Path], scenario: str) -> dict[str, Any]:
    """Return the table of the measurements in files, one for each seed; ``scenario`` names its start."""
    data = read_data(plan.data, 0)
    model = read_model(plan.model, data.shape, data.n_classes)
    measured = [read_json(part) for part in parts]
    rows = []
    for actions, key in _sequences(plan).items():
        times = [sum(column) / len(measured) for column in zip(*(one["left_s"][key] for one in measured), strict=True)]
        rows.append(
            {
                "actions": list(actions),
                "timeleft_s": [round(one, 6) for one in times],
                "draws": [one["draw"][key] for one in measured],
                "before": [one["before"][key] for one in measured],
                "curves": [one["curve"][key] for one in measured],
            }
        )
    return {
        "model": model.name,
        "scenario": scenario,
        "data": plan.data,
        "device": plan.device,
        "clock": plan.clock,
        "budget_s": plan.budget_s,
        "start_s": plan.start_s,
        "gap_s": plan.gap_s,
        "rules": {"rate": plan.rate, "norm": plan.norm, "lr": plan.lr, "batch_size": plan.batch_size},
        "seeds": [one["seed"] for one in measured],
        "layers": describe_blocks(model) if is_own_model(plan.model) else describe(model),
        "rungs": list(RUNGS),
        "others": {name: [one["others"][name] for one in measured] for name in measured[0]["others"]},
        "rows": rows,
    }
