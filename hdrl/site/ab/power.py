"""Days that an experiment needs, by the differences between days in a log of the site, or in a generated one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import OptionsError
from hdrl.base.seeding import stream
from hdrl.batch import lublin_log, read_platform, read_swf, simulate, workload_from_swf
from hdrl.metrics.statistics import power_after
from hdrl.metrics.tasks import describe_times
from hdrl.site.ab.blocks import FEWEST_JOBS
from hdrl.site.ab.plan import DAY_S, METRICS, PAIRINGS, Pairing, PlanChoices, days_of_round, wash_out_of
from hdrl.site.folder import LOG, conf_of
from hdrl.site.joining import SHORTEST_S

FloatArray = NDArray[np.float64]

GAIN = 0.2
"""The gain that an experiment is planned for: 20 % less."""

POWER = 0.8

N_EXPERIMENTS = 200
"""Experiments that are drawn from the differences of the log."""

MOST_PAIRS = 1024
"""Pairs after which one stops to ask."""

FEWEST_DIFFERENCES = 10

GENERATED_CORES, GENERATED_JOBS, GENERATED_LOAD = 256, 20_000, 0.8


@dataclass(frozen=True, slots=True)
class History:
    """Jobs of a log under one policy."""

    # of each job, in seconds since 1970, shape ``(n_jobs,)``
    eligible_s: FloatArray
    wait_s: FloatArray
    run_s: FloatArray
    name: str  # source of the history


@dataclass(frozen=True, slots=True)
class Needed:
    """Needs of an experiment."""

    # by which metric, with which pairs
    metric: str
    pairing: Pairing
    # number of pairs of the log, and the standard deviation of the logarithm of their ratios
    n_pairs: int
    sd: float
    days: float  # days until four of five experiments show the gain; infinite beyond `MOST_PAIRS`


@dataclass(frozen=True, slots=True)
class Outlook:
    """Statistical power of a plan.

    Attributes
    ----------
    source
        The log.
    needed
        Days for each metric and pairing.
    power
        Share of experiments as long as the plan that show the gain, by the metric of the plan.
    clear_h
        Hours after a switch until all jobs that waited then have started, on nine days of ten.
    carried
        Share of jobs that start after the end of the block in which they become eligible.
    """

    source: str
    needed: tuple[Needed, ...]
    power: float
    clear_h: float
    carried: float

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "source": self.source,
            "gain": GAIN,
            "power": self.power,
            "clear_h": self.clear_h,
            "carried": self.carried,
            "needed": [
                {
                    "metric": one.metric,
                    "pairing": one.pairing,
                    "pairs_of_the_log": one.n_pairs,
                    "sd": None if math.isnan(one.sd) else one.sd,
                    "days": one.days if math.isfinite(one.days) else None,
                }
                for one in self.needed
            ],
        }


def history_of(site: str | Path | None, seed: int) -> History:
    """Return the jobs of an imported site as it scheduled them, or those of a generated log under ``fcfs+easy``.

    Raises
    ------
    HdrlError
        If the folder holds no site.
    """
    site = None if site is None else Path(site)
    if site is not None:
        conf_of(site)
        log = read_swf(site / LOG)
        known = log.rows[log.rows["wait_s"] >= 0]
        eligible_s = log.first_date_s + known["submit_s"]
        return History(eligible_s, known["wait_s"], np.maximum(known["run_s"], SHORTEST_S), str(site))
    platform = read_platform(f"homogeneous:{GENERATED_CORES}")
    log = lublin_log(GENERATED_JOBS, GENERATED_CORES, seed=seed, load=GENERATED_LOAD, estimates="tsafrir")
    workload = workload_from_swf(log, platform, bandwidth="none", memory="none", shift=False)
    trace = simulate(platform, workload, "fcfs+easy", energy=False)
    submit_s = np.asarray(workload.jobs["submit_s"])
    wait_s = np.maximum(trace.records["start_s"] - submit_s, 0.0)
    run_s = np.maximum(trace.records["run_s"], SHORTEST_S)
    name = f"a generated log: {GENERATED_JOBS:,} jobs on {GENERATED_CORES} cores at load {GENERATED_LOAD:g}"
    return History(submit_s, wait_s, run_s, name)


def outlook(choices: PlanChoices, history: History) -> Outlook:
    """Return the statistical power of a plan, by experiments that are drawn from the pairs of days of a log.

    Raises
    ------
    OptionsError
        If the log has too few days.
    """
    wash_out_s = wash_out_of(choices)
    length_s = choices.block_days * DAY_S
    number = np.floor(history.eligible_s / length_s).astype(np.int64)
    offset_s = history.eligible_s - number * length_s
    blocks = _numbers(history, number - number.min(), offset_s >= wash_out_s)
    metrics = dict.fromkeys((choices.metric, "mean_bounded_slowdown", "mean_wait_s"))
    pairings = [pairing for pairing in PAIRINGS if pairing == "next" or 7 % choices.block_days == 0]
    differences = {
        (metric, pairing): _differences(blocks[metric], 1 if pairing == "next" else 7 // choices.block_days)
        for metric in metrics
        for pairing in pairings
    }
    planned = differences[choices.metric, choices.pairing]
    if len(planned) < FEWEST_DIFFERENCES:
        raise OptionsError(
            f"{history.name}: has {len(planned)} pairs of blocks with {FEWEST_JOBS} jobs or more each, expected at "
            f"least {FEWEST_DIFFERENCES} to plan with"
        )
    level = 1 - choices.confidence
    needed = [
        Needed(metric, pairing, len(those), *_days(those, pairing, choices, level))
        for (metric, pairing), those in differences.items()
    ]
    days, per_round = days_of_round(choices.pairing, choices.block_days)
    drawn = _drawn(planned, choices.n_days // days * per_round, choices.seed)
    waits_over_s = offset_s + history.wait_s
    counts = offset_s >= wash_out_s
    return Outlook(
        history.name,
        tuple(needed),
        float(power_after(drawn, level)[-1]),
        _clear_h(history, number, length_s),
        float(np.mean(waits_over_s[counts] > length_s)),
    )


def _numbers(history: History, number: NDArray[np.int64], counts: NDArray[np.bool_]) -> dict[str, FloatArray]:
    """Return the logarithm of each metric in each block of the log, NaN where it has none."""
    order = np.argsort(number, kind="stable")
    order = order[counts[order]]
    n_blocks = int(number.max()) + 1
    ends = np.searchsorted(number[order], np.arange(n_blocks + 1))
    found = {metric: np.full(n_blocks, math.nan) for metric in METRICS}
    for block in range(n_blocks):
        mine = order[ends[block] : ends[block + 1]]
        if len(mine) < FEWEST_JOBS:
            continue
        for metric, value in describe_times(history.wait_s[mine], history.run_s[mine]).items():
            found[metric][block] = math.log(value) if value > 0 else math.nan
    return found


def _differences(values: FloatArray, apart: int) -> FloatArray:
    found = values[apart:] - values[:-apart]
    return found[~np.isnan(found)]


def _drawn(differences: FloatArray, n_pairs: int, seed: int) -> FloatArray:
    """Draw experiments from the pairs of a log: a coin for the order of each, and the gain that is to be found."""
    rng = stream(seed, "ab/power")
    sizes = differences[rng.integers(0, len(differences), (N_EXPERIMENTS, n_pairs))]
    signs = 1.0 - 2.0 * rng.integers(0, 2, (N_EXPERIMENTS, n_pairs))
    return np.asarray(math.log(1 - GAIN) + sizes * signs)


def _days(differences: FloatArray, pairing: Pairing, choices: PlanChoices, level: float) -> tuple[float, float]:
    """Return the standard deviation of the differences, and the days until four of five experiments show the gain."""
    if len(differences) < FEWEST_DIFFERENCES:
        return math.nan, math.inf
    sd = float(np.std(differences))
    n_pairs = 32
    while True:
        reached = np.flatnonzero(power_after(_drawn(differences, n_pairs, choices.seed), level) >= POWER)
        if len(reached) or n_pairs >= MOST_PAIRS:
            break
        n_pairs = min(2 * n_pairs, MOST_PAIRS)
    if not len(reached):
        return sd, math.inf
    days, per_round = days_of_round(pairing, choices.block_days)
    return sd, float(math.ceil((int(reached[0]) + 1) / per_round) * days + math.ceil(choices.settle_s / DAY_S))


def _clear_h(history: History, number: NDArray[np.int64], length_s: float) -> float:
    """Return the hours after which what waited at the begin of a block has started, on nine of ten begins."""
    start_s = history.eligible_s + history.wait_s
    first, last = int(number.min()) + 1, int(number.max())
    hours = []
    order = np.argsort(history.eligible_s, kind="stable")
    # The latest start of all jobs that became eligible before a date.
    latest_s = np.maximum.accumulate(start_s[order])
    for begin_s in (np.arange(first, last + 1) * length_s).tolist():
        n_before = int(np.searchsorted(history.eligible_s[order], begin_s))
        hours.append(max(0.0, float(latest_s[n_before - 1]) - begin_s) / 3600 if n_before else 0.0)
    return float(np.quantile(hours, 0.9)) if hours else 0.0
