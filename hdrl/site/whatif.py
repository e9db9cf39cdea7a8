"""Effects of another size or another policy of a machine: waits, utilisation, power and cost, with intervals."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import OptionsError, quoted
from hdrl.batch import BatchTrace, Platform, Workload, fits, read_swf, simulate, workload_from_swf
from hdrl.distributed.tasks import run_tasks
from hdrl.experiment import Model
from hdrl.experiment.compare.candidates import MODEL_SUFFIXES
from hdrl.metrics.statistics import Bootstrap
from hdrl.setting import BATCH, find_setting
from hdrl.settings.batch.platform.pstates import IDLE, SERVING
from hdrl.settings.batch.site_rules.conf import SiteConf
from hdrl.settings.batch.site_rules.hostlist import MAX_NODES
from hdrl.settings.batch.site_rules.metrics import length_and_size_classes
from hdrl.site.folder import LOG, PLATFORM, conf_of
from hdrl.site.machine import keeps_rules, machine_of, n_cores, scaled

FloatArray = NDArray[np.float64]

MOST_SIMULATIONS = 100_000

PARTITION = "partition "
"""Prefix of the names of classes for the jobs of a partition."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """A question about a site.

    Attributes
    ----------
    sizes
        Changes of the number of nodes: ``"-10%"``, ``"+4"``; the machine as it is, is always among them.
    policies
        Names of policies, Python files or model files.
    window, n_windows, warm_up
        Numbers of jobs of a window, of windows, and of jobs that fill the machine before each.
    target_s
        The longest 95th percentile of waits that is wanted.
    node_hour_price, kwh_price
        Prices of an hour of a node, and of a kilowatt hour.
    seed
        Seed of policies that draw, and of the resamples of intervals.
    site_rules
        True if the rules of the site count, if its machine has some.
    """

    sizes: tuple[str, ...] = ("-10%", "+10%", "+20%")
    policies: tuple[str, ...] = ("fcfs+easy", "sjf+easy")
    window: int = 1000
    n_windows: int = 10
    warm_up: int = 200
    target_s: float = 3600.0
    node_hour_price: float = 1.0
    kwh_price: float = 0.0
    seed: int = 0
    site_rules: bool = True


def what_if(
    folder: str | Path,
    question: WhatIf,
    *,
    n_workers: int | None = None,
    on_result: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Simulate a site on machines of several sizes under several policies, on the same windows of its log.

    Parameters
    ----------
    n_workers
        Number of processes that simulate; ``None``: one per core.
    on_result
        Called with how many of the pairs of machine and policy are done, and how many there are.

    Returns
    -------
    dict[str, Any]
        The answer, as JSON.

    Raises
    ------
    OptionsError
        If the log has too few jobs, or a request is too large.
    HdrlError
        If the site cannot be read, or a policy is unknown.
    """
    folder = Path(folder)
    conf = conf_of(folder)
    machines = _machines(conf, question.sizes)
    pairs = [(size, policy) for size in machines for policy in question.policies]
    if len(pairs) * question.n_windows > MOST_SIMULATIONS:
        raise OptionsError(
            f"{len(pairs):,} pairs of machine and policy on {question.n_windows:,} windows are more than "
            f"{MOST_SIMULATIONS:,} simulations; name fewer of them"
        )
    has_rules = question.site_rules and keeps_rules(folder / PLATFORM)
    platforms = {size: machine_of(one, size, has_rules=has_rules) for size, one in machines.items()}
    whole = workload_from_swf(read_swf(folder / LOG), next(iter(platforms.values())), bandwidth="none")
    can_run = np.logical_and.reduce([fits(whole, platform) for platform in platforms.values()])
    log = whole if np.all(can_run) else whole.take(np.flatnonzero(can_run))
    windows = _windows(log, question)
    done = 0

    def count(index: int, result: object) -> None:
        nonlocal done
        del index, result
        done += 1
        if on_result is not None:
            on_result(done, len(pairs))

    task = functools.partial(_simulated, platforms, windows, question, n_cores(conf), _cores_per_node(conf))
    found = run_tasks(task, pairs, n_workers=n_workers, on_result=count, describe=" under ".join)
    rows = [
        _row(machines[size], size, policy, values, question)
        for (size, policy), values in zip(pairs, found, strict=True)
    ]
    return {
        "site": conf.name or folder.resolve().name,
        "question": {
            "sizes": list(machines),
            "policies": list(question.policies),
            "window": question.window,
            "windows": len(windows),
            "warm_up": question.warm_up,
            "target_s": question.target_s,
            "node_hour_price": question.node_hour_price,
            "kwh_price": question.kwh_price,
            "seed": question.seed,
            "site_rules": has_rules,
        },
        "verdict": _verdict(rows, question),
        "notes": _notes(whole.n_jobs - log.n_jobs, conf, question, has_rules=has_rules),
        "rows": rows,
    }


def _machines(conf: SiteConf, sizes: Sequence[str]) -> dict[str, SiteConf]:
    """Return the machines by the change of their size, the smallest first."""
    total = sum(one.count for one in conf.nodes)
    shares = {"as it is": 1.0}
    for size in sizes:
        found = re.fullmatch(r"([+-]?)(\d{1,7}(?:\.\d{1,4})?)(%?)", size.strip())
        if found is None or (not found[1] and float(found[2]) != 0):
            raise OptionsError(f"--nodes has {quoted(size)}, expected changes such as -10%, +20% or +4")
        change = float(found[1] + found[2]) / (100 if found[3] else total)
        if change:
            shares[size.strip()] = 1 + change
    machines = {}
    for size, share in sorted(shares.items(), key=lambda pair: pair[1]):
        n_nodes = round(total * share)
        if share <= 0 or n_nodes > MAX_NODES:
            raise OptionsError(f"--nodes {size} gives {max(n_nodes, 0):,} nodes, expected 1 to {MAX_NODES:,}")
        machines[size] = scaled(conf, share)
    return machines


def _cores_per_node(conf: SiteConf) -> int:
    return max(one.cores for one in conf.nodes)


def _windows(log: Workload, question: WhatIf) -> list[Workload]:
    """Return windows that are spread over the log, each with the jobs that fill the machine before it."""
    n_jobs = question.warm_up + question.window
    if n_jobs > log.n_jobs:
        raise OptionsError(
            f"the log has {log.n_jobs:,} jobs, a window takes {n_jobs:,} with its {question.warm_up:,} before it; "
            "choose shorter ones (--windows, --warm-up)"
        )
    most = (log.n_jobs - question.warm_up) // question.window
    n_windows = min(question.n_windows, most)
    starts = np.linspace(0, log.n_jobs - n_jobs, n_windows).astype(int) if n_windows > 1 else [0]
    return [log.window(int(start), n_jobs) for start in starts]


def _player(policy: str) -> Callable[..., Any]:
    """Return a function that simulates a workload under a policy: a name, a Python file, or a model file."""
    if not policy.endswith(MODEL_SUFFIXES):
        return functools.partial(_play_policy, policy)
    model = Model(policy, setting=find_setting(BATCH))

    def play(platform: Platform, workload: Workload, *, seed: int) -> Any:
        model.check_can_play(platform)
        return model.play(platform, workload, seed=seed)

    return play


def _play_policy(policy: str, platform: Platform, workload: Workload, *, seed: int) -> BatchTrace:
    return simulate(platform, workload, policy, seed=seed)


def _simulated(
    platforms: Mapping[str, Platform],
    windows: Sequence[Workload],
    question: WhatIf,
    site_cores: int,
    cores_per_node: int,
    pair: tuple[str, str],
) -> dict[str, list[float]]:
    """Return the numbers of each window under one policy on one machine."""
    size, policy = pair
    found: dict[str, list[float]] = {}
    play = _player(policy)
    for window in windows:
        trace = play(platforms[size], window, seed=question.seed)
        jobs, records = window.jobs, trace.records
        counts = np.zeros(window.n_jobs, dtype=bool)
        counts[window.submission_order()[question.warm_up :]] = True
        waits = records["start_s"] - jobs["submit_s"]
        end_s = float(np.max(records["start_s"] + records["run_s"]))
        span_s = end_s - float(np.min(jobs["submit_s"]))
        numbers = {
            "mean_wait_s": float(np.mean(waits[counts])),
            "p95_wait_s": float(np.percentile(waits[counts], 95)),
            "utilization": float(np.sum(records["run_s"] * jobs["cores"])) / (platforms[size].n_cores * span_s),
            "power_kw": _consumed_j(trace, span_s) / span_s / 1000,
        }
        classes = length_and_size_classes(jobs, site_cores, cores_per_node) | _partitions(platforms[size], window)
        for name, chosen in classes.items():
            part = waits[counts & chosen]
            numbers[name] = float(np.mean(part)) if len(part) else math.nan
        for name, value in numbers.items():
            found.setdefault(name, []).append(value)
    return found


def _consumed_j(trace: BatchTrace, span_s: float) -> float:
    """Return the energy of a run; where its simulator accounts for none, that of busy and of idle cores.

    Parameters
    ----------
    span_s
        From the first submission to the last end.
    """
    if trace.has_energy:
        return trace.consumed_j
    platform, records = trace.platform, trace.records
    serving_w, idle_w = (float(np.mean(platform.full_w[:, pstate])) for pstate in (SERVING, IDLE))
    busy_core_s = float(np.sum(records["run_s"] * records["n_cores"], where=records["run_s"] > 0))
    return busy_core_s * serving_w + (platform.n_cores * span_s - busy_core_s) * idle_w


def _partitions(platform: Platform, window: Workload) -> dict[str, NDArray[np.bool_]]:
    """Return the jobs that may run in each partition, if the rules of the site count and it has several."""
    rules, site = platform.site, window.site
    if rules is None or site is None or len(rules.partition_names) < 2:
        return {}
    bits = np.where(site.jobs["partitions"] == 0, np.uint64(1 << rules.default_partition), site.jobs["partitions"])
    return {
        f"{PARTITION}{name}": bits >> np.uint64(position) & np.uint64(1) == 1
        for position, name in enumerate(rules.partition_names)
    }


def _row(
    machine: SiteConf, size: str, policy: str, values: Mapping[str, Sequence[float]], question: WhatIf
) -> dict[str, Any]:
    nodes = sum(one.count for one in machine.nodes)
    power = np.array(values["power_kw"])
    cost = 24 * (nodes * question.node_hour_price + power * question.kwh_price)
    numbers = {**values, "cost_per_day": cost.tolist()}
    intervals = {}
    for name, column in numbers.items():
        table = np.array(column)
        known = table[np.isfinite(table)]
        # A bootstrap of equal numbers has no width.
        if len(known) and np.all(known == known[0]):
            intervals[name] = [float(known[0])] * 3
        else:
            strata = np.zeros(len(known), dtype=np.int64)
            found = Bootstrap(strata, seed=question.seed).mean(known.reshape(-1, 1)) if len(known) else [math.nan] * 3
            most = 1.0 if name == "utilization" else math.inf  # of few windows an interval would pass what is possible
            intervals[name] = [min(float(one), most) for one in found]
    return {
        "size": size,
        "nodes": nodes,
        "cores": n_cores(machine),
        "policy": policy,
        "numbers": {
            name: [one if math.isfinite(one) else None for one in interval] for name, interval in intervals.items()
        },
    }


def _verdict(rows: Sequence[Mapping[str, Any]], question: WhatIf) -> str:
    """Name the cheapest machine whose 95th percentile of waits is below the target, its interval included."""
    target = f"a p95 wait below {question.target_s / 3600:g} h"
    costs = {id(row): row["numbers"]["cost_per_day"][0] for row in rows}

    def ends(row: Mapping[str, Any]) -> tuple[float, float]:
        value, _, high = row["numbers"]["p95_wait_s"]
        return value, math.inf if high is None else high

    def named(row: Mapping[str, Any], verb: str = "") -> str:
        return f"{row['nodes']:,} nodes ({row['size']}) under {row['policy']}{verb}: {costs[id(row)]:,.0f} a day"

    def cheapest(values: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        return min(values, key=lambda row: (costs[id(row)], ends(row)[0]))

    sure = [row for row in rows if ends(row)[1] < question.target_s]
    likely = [row for row in rows if ends(row)[0] < question.target_s]
    if not likely:
        nearest = min(rows, key=lambda row: ends(row)[0])
        return (
            f"No machine has {target} under any of these policies. The nearest has {ends(nearest)[0] / 3600:.1f} h: "
            f"{nearest['nodes']:,} nodes ({nearest['size']}) under {nearest['policy']}. Try larger machines "
            "(--nodes +50%,+100%) or another target (--target-wait)."
        )
    if not sure:
        return (
            f"The cheapest machine with {target} on the mean, but not with its whole interval, has "
            f"{named(cheapest(likely))}."
        )
    best, by_mean = cheapest(sure), cheapest(likely)
    text = f"The cheapest machine with {target}, its whole interval included, has {named(best)}."
    return text if by_mean is best else f"{text} By the mean alone, {named(by_mean, ' would do')}."


def _notes(n_wide: int, conf: SiteConf, question: WhatIf, *, has_rules: bool) -> list[str]:
    notes = ["Read the report of the import first: it shows how far simulations are from this site."]
    if n_wide:
        notes.append(f"{n_wide:,} jobs do not fit on the smallest machine and are left out on all of them.")
    if len(conf.partitions) > 1 and not has_rules:
        notes.append("Partitions are not enforced: any job may start on any node.")
    notes.append("Power assumes 10 W a core under load, because accounting holds no power.")
    if question.node_hour_price == 1.0 and not question.kwh_price:
        notes.append("Costs are node hours; --node-hour-price and --kwh-price give prices.")
    if len(conf.nodes) > 1:
        notes.append("All kinds of nodes grow and shrink alike.")
    return notes
