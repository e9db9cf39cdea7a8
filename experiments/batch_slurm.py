"""Distances of the simulated policy `slurm`, and of two policies that are not Slurm's, from runs of a real Slurm.

Intervals are over blocks of neighbouring jobs, since what one job leaves to the next (a queue) stays together.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from hdrl.base import elementary
from hdrl.base.seeding import stream
from hdrl.batch import Platform, SwfLog, Workload, simulate, workload_from_swf
from hdrl.experiments import PROTOCOLS
from hdrl.experiments.findings import Finding, Place, finding_of_resamples, without_models
from hdrl.metrics.statistics import block_counts
from hdrl.settings.batch.platform.conversion import build_platform
from hdrl.settings.batch.simulators import SlurmSettings
from hdrl.settings.batch.site_rules.columns import SiteColumns
from hdrl.settings.batch.site_rules.conf import Downtime, Nodes, Partition, SiteConf
from hdrl.settings.batch.site_rules.machine import platform_of
from hdrl.settings.batch.site_rules.rules import rules_of
from hdrl.settings.batch.workload.swf import unknown_rows
from hdrl.slurm.fidelity import POLICIES, simulated_start_s
from hdrl.slurm.recorded import RecordedRun, keep_run, print_progress, read_run

Floats = NDArray[np.float64]
Columns = dict[str, Floats]
"""Distances by column: the number, then that in each resample."""

OURS, *OTHERS = POLICIES

N_RESAMPLES = 10_000

ITSELF = "Slurm itself"
ALL = "all sites"
PAIRS, WAIT, APART = "pairs in another order, %", "mean wait, ratio to Slurm's", "mean wait, distance to Slurm's, %"

N_JOBS, GAP_S, SEED = 100, 60.0, 11
"""Jobs of a made-up site, the mean time between two of them, and the seed."""

_NODES = Nodes("n[1-8]", 8, 8)
_SIZES = [1, 2, 4, 8, 8, 16, 16, 32, 64]
_SIZES_IN_PARTITIONS = [*_SIZES[:-1], 40]
_FACTORS = [1.0, 1.2, 1.5, 2.0, 3.0, 5.0]
_BEGIN = "1767225600"
_TOO_SHORT = 0.8
_USER_SHARES = [0.3, 0.25, 0.2, 0.1, 0.1, 0.05]
_QOS_SHARES = [0.5, 0.3, 0.2]
_WEIGHTS = {
    "AccountingStorageType": "accounting_storage/slurmdbd",
    "PriorityType": "priority/multifactor",
    "PriorityWeightAge": "1000",
    "PriorityMaxAge": "0-06:00:00",
    "PriorityCalcPeriod": "1",
}
_PARTITIONS = SiteConf(
    nodes=(_NODES,),
    scheduler={
        "AccountingStorageType": "accounting_storage/none",
        "SchedulerParameters": "bf_resolution=60,bf_window=2880,bf_continue",
        "PriorityWeightJobSize": "2000",
        "PriorityWeightPartition": "3000",
    },
    partitions={
        "main": Partition("n[1-6]", 7200.0, priority=10, is_default=True),
        "wide": Partition("n[3-8]", 14400.0, priority=5),
        "debug": Partition("n[1-8]", 600.0, tier=5),
    },
)
SITES = {
    "plain": SiteConf(
        nodes=(_NODES,),
        scheduler={
            "AccountingStorageType": "accounting_storage/none",
            "SchedulerParameters": "bf_resolution=1,bf_max_job_test=1000,bf_continue",
        },
    ),
    "partitions": _PARTITIONS,
    "mixed": replace(
        _PARTITIONS,
        downtimes=(
            Downtime("2026-01-01T00:40:00Z", "2026-01-01T01:10:00Z", "n[5-8]"),
            Downtime("2026-01-01T01:30:00Z", "2026-01-01T01:50:00Z", "n3", "drain"),
        ),
    ),
    "fairshare": SiteConf(
        nodes=(_NODES,),
        scheduler={**_WEIGHTS, "PriorityWeightFairshare": "10000", "PriorityDecayHalfLife": "01:00:00"},
        accounts={
            "physics": {"Share": "3"},
            "optics": {"Share": "2", "ParentName": "physics"},
            "plasma": {"Share": "1", "ParentName": "physics"},
            "biology": {"Share": "1"},
        },
    ),
    "preemption": SiteConf(
        nodes=(_NODES,),
        scheduler={**_WEIGHTS, "PriorityWeightQOS": "5000", "PreemptType": "preempt/qos", "PreemptMode": "REQUEUE"},
        qos={
            "low": {"Priority": "0"},
            "middle": {"Priority": "50"},
            "high": {"Priority": "100", "Preempt": "low"},
        },
    ),
}
"""Made-up sites; the last two need a database."""

N_RUNS = 2
"""Number of recorded runs of each site: the second run measures the distance of Slurm from itself."""


def made_up_site(name: str) -> tuple[Platform, Workload]:
    """Return the machine of a site and its jobs: eight nodes of eight cores, six users."""
    conf = SITES[name]
    platform = replace(build_platform(platform_of(conf), name=name), site=rules_of(conf))
    draws = stream(SEED, f"slurm-fidelity/{name}/jobs")
    rows = unknown_rows(N_JOBS)
    rows["job_number"], rows["wait_s"] = np.arange(1, N_JOBS + 1), 0
    rows["submit_s"] = np.floor(np.cumsum(draws.exponential(1.0, N_JOBS)) * GAP_S)
    rows["run_s"] = np.clip(np.round(elementary.exp(draws.normal(5.6, 1.0, N_JOBS))), 30, 3000)
    sizes = _SIZES_IN_PARTITIONS if conf.partitions else _SIZES
    rows["processors"] = rows["requested_processors"] = draws.choice(sizes, N_JOBS)
    factors = [_TOO_SHORT, *_FACTORS] if conf.downtimes else _FACTORS
    rows["requested_s"] = 60 * np.ceil(rows["run_s"] * draws.choice(factors, N_JOBS) / 60)
    users = draws.choice(len(_USER_SHARES), N_JOBS, p=_USER_SHARES) + 1
    rows["user"] = users
    header, cells = {}, []
    if conf.qos:
        rows["queue"] = draws.choice(len(conf.qos), N_JOBS, p=_QOS_SHARES)
        header["Queue"] = "\n".join(f"{number} {one}" for number, one in enumerate(conf.qos))
    if conf.accounts:
        leaves = [one for one in conf.accounts if all(row.get("ParentName") != one for row in conf.accounts.values())]
        accounts = [leaves[user % len(leaves)] for user in users]
        cells = [(number, {"job": str(number), "account": one}) for number, one in enumerate(accounts, start=1)]
    if conf.partitions:
        names = draws.choice(["main", "main", "wide"], N_JOBS)
        is_short = (rows["requested_s"] <= (conf.partitions["debug"].max_time_s or np.inf)) & (
            draws.random(N_JOBS) < 0.4
        )
        chosen = np.where(is_short, "debug", names).tolist()
        longest_s = [conf.partitions[name].max_time_s or np.inf for name in chosen]
        rows["requested_s"] = np.minimum(rows["requested_s"], longest_s)
        cells = [(number, {"job": str(number), "partitions": one}) for number, one in enumerate(chosen, start=1)]
    walltime = None
    if conf.downtimes:
        header["UnixStartTime"] = _BEGIN
        walltime = "requested"
        _add_requests(rows, [cell for _, cell in cells], draws)
    log = SwfLog(name, rows, header, columns=SiteColumns(Path(name), tuple(cells)))
    return platform, workload_from_swf(log, platform, bandwidth="none", memory="none", walltime=walltime)


def _add_requests(rows: NDArray[np.void], cells: list[dict[str, str]], draws: np.random.Generator) -> None:
    """Let a third of the jobs ask a site for something, and put some together into arrays."""
    place = 0
    while place < len(rows):
        share_drawn, date_s = draws.random(), float(rows["submit_s"][place])
        length, other = int(draws.integers(3, 7)), place + 1 - int(draws.integers(1, 9))
        kind = ("afterany", "afterok", "after", "singleton")[int(draws.integers(4))]
        delay_s, until_s = int(draws.integers(120, 900)), int(draws.integers(60, 1200))
        at_most, nice = int(draws.integers(1, 3)), int(draws.choice([100, 500, 1500]))
        requests: list[tuple[float, dict[str, str]]] = [
            (0.10, {"dependencies": f"{kind}:{other}"} if other > 0 else {}),
            (0.05, {"begin_s": f"{date_s + delay_s}"}),
            (0.05, {"array": f"{place}", "array_limit": f"{at_most}"} if place + length <= len(rows) else {}),
            (0.05, {"nice": f"{nice}"}),
            (0.04, {"exclusive": "1"}),
            (0.04, {"cancelled_s": f"{date_s + until_s}"}),
            (0.03, {"held_until_s": f"{date_s + delay_s}"}),
            (1.0, {}),
        ]
        chosen = requests[int(np.searchsorted(np.cumsum([share for share, _ in requests]), share_drawn))][1]
        length = length if "array" in chosen else 1
        tasks = slice(place, place + length)
        if "array" in chosen:
            chosen["partitions"] = cells[place]["partitions"]
            rows["processors"][place] = rows["requested_processors"][place] = min(8, rows["processors"][place])
            for column in ("submit_s", "requested_s", "processors", "requested_processors", "user"):
                rows[column][tasks] = rows[column][place]
        for cell in cells[tasks]:
            cell |= chosen
        place += length


def recorded(folder: Path, sites: Iterable[str], settings: SlurmSettings) -> Iterator[str]:
    """Run made-up sites in a real Slurm, as far as a folder lacks their runs; some seven minutes for each run.

    Yields
    ------
    str
        Name of each new run, and the seconds that launching and ending took for each job.
    """
    for name in sites:
        platform, workload = made_up_site(name)
        for number in range(1, N_RUNS + 1):
            place = folder / f"{name}-{number}"
            if place.exists():
                continue
            with TemporaryDirectory() as run:
                trace = simulate(
                    platform, workload, OURS, simulator="slurm", slurm=settings, folder=Path(run), energy=False
                )
                keep_run(Path(run), place)
            yield f"{place.name}: {trace.info['slurm_overhead_s']} s a job to launch and to end it"


@PROTOCOLS.register("slurm-fidelity")
@without_models
def slurm_fidelity(traces: Mapping[str, Path]) -> dict[Place, Finding]:
    """Return how far each policy is from each run and from all sites in the mean, and how much nearer `slurm` is.

    Parameters
    ----------
    traces
        The folders of the runs. Those that repeat each other are of one site, and tell how far Slurm is from itself.
    """
    sites: list[dict[str, RecordedRun]] = []
    for name, folder in traces.items():
        run = read_run(folder)
        site = next((site for site in sites if next(iter(site.values())).is_repeated_by(run)), None)
        if site is None:
            sites.append(site := {})
        site[name] = run
    found: dict[str, dict[str, Columns]] = {}
    floors: dict[str, float | None] = {}
    for site in sites:
        found |= _of_site(site)
        measured = [found[name][ITSELF][PAIRS][0] for name in site if len(site) > 1]
        floors |= dict.fromkeys(site, float(np.mean(measured)) if measured else None)
    found[ALL] = {
        policy: _mean([_mean([found[name][policy] for name in site]) for site in sites]) for policy in POLICIES
    }
    of_sites = [floors[next(iter(site))] for site in sites]
    known = [one for one in of_sites if one is not None]
    floors[ALL] = float(np.mean(known)) if len(known) == len(sites) else None
    results: dict[Place, Finding] = {}
    for name, by_policy in found.items():
        for policy, columns in by_policy.items():
            null = None if policy == ITSELF else floors[name]
            results[f"{name}, {policy}", PAIRS] = finding_of_resamples(columns[PAIRS], null=null)
            results[f"{name}, {policy}", WAIT] = finding_of_resamples(columns[WAIT], null=1.0)
        for other in by_policy:
            for column in (PAIRS, APART) if other != OURS else ():
                nearer = by_policy[OURS][column] - by_policy[other][column]
                results[f"{name}, {OURS} less {other}", column] = finding_of_resamples(nearer, null=0.0)
    return results


def _of_site(site: Mapping[str, RecordedRun]) -> dict[str, dict[str, Columns]]:
    """Return the distances of policies, and of the other runs of the site, from each of its runs."""
    found: dict[str, dict[str, Columns]] = {}
    first = next(iter(site))
    drawn = block_counts(len(site[first].start_s), stream(0, f"slurm-fidelity/{first}"), N_RESAMPLES)
    for name, run in site.items():
        found[name] = {policy: _measured(run, simulated_start_s(run, policy), drawn) for policy in POLICIES}
        others = [other for other in site.values() if other is not run]
        if others:
            found[name][ITSELF] = _mean([_measured(run, run.start_s_of(other), drawn) for other in others])
    return found


def _mean(several: Sequence[Columns]) -> Columns:
    return {column: np.mean([one[column] for one in several], axis=0) for column in several[0]}


def _measured(run: RecordedRun, start_s: Floats, counts: NDArray[np.int64]) -> Columns:
    """Return the distance of starts from the starts of a run by column, then the distance in each resample."""
    start_s = np.round(start_s, 3)
    both = np.isfinite(start_s) & np.isfinite(run.start_s)
    start_s, true_s, eligible_s, counts = start_s[both], run.start_s[both], run.eligible_s[both], counts[both]
    order = np.sign(np.subtract.outer(start_s, start_s)) * np.sign(np.subtract.outer(true_s, true_s))
    n_swapped = np.zeros(counts.shape[1], dtype=np.int64)
    for first, second in np.argwhere(np.triu(order < 0)):
        n_swapped += counts[first] * counts[second]
    waited_s, true_waited_s = np.zeros(counts.shape[1]), np.zeros(counts.shape[1])
    for job, count in enumerate(counts):  # a fixed order of sums
        waited_s += count * (start_s[job] - eligible_s[job])
        true_waited_s += count * (true_s[job] - eligible_s[job])
    n_jobs = counts.sum(axis=0)
    ratio = waited_s / true_waited_s
    return {PAIRS: 100 * n_swapped / (n_jobs * (n_jobs - 1) / 2), WAIT: ratio, APART: 100 * np.abs(ratio - 1)}


def main() -> None:
    """Record runs, as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m hdrl.experiments.batch_slurm", description="Record a real Slurm.")
    parser.add_argument("folder", type=Path, help="folder for a folder of each run; those that it lacks are recorded")
    parser.add_argument("sites", nargs="*", default=list(SITES), choices=list(SITES))
    parser.add_argument("--speed", type=float, default=40.0, help="speed of the clock; lower on a busy host")
    given = parser.parse_args()
    print_progress(parser, recorded(given.folder, given.sites, SlurmSettings(speed=given.speed)))


if __name__ == "__main__":
    main()
