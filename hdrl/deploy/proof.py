"""Test in a real Slurm of what simulation promises of policies: the claimed experiment `slurm-deploy`.

The runs of the real Slurm are recorded in a file beside the claims, so that anyone can compute them again.
``python -m hdrl.deploy.proof FILE`` records others, or those that the file lacks.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hdrl.base import elementary
from hdrl.base.csvfiles import atomic_table, read_table
from hdrl.base.errors import ReadError
from hdrl.base.seeding import stream
from hdrl.batch import Platform, SwfLog, Workload, read_platform, simulate, workload_from_swf
from hdrl.deploy.policy import deployed_policy
from hdrl.deploy.promise import simulated_name
from hdrl.deploy.simulated import simulate_deployed
from hdrl.experiments import PROTOCOLS
from hdrl.experiments.findings import Finding, Place, without_models
from hdrl.metrics import bounded_slowdown
from hdrl.metrics.orders import discordant_share
from hdrl.metrics.statistics import Bootstrap
from hdrl.settings.batch.simulators import SlurmSettings
from hdrl.settings.batch.workload.run_times import run_times_at
from hdrl.settings.batch.workload.swf import unknown_rows
from hdrl.slurm.recorded import print_progress

Floats = NDArray[np.float64]
Starts = dict[tuple[str, int], Floats]
"""Start of each job, in seconds after date 0: by the name of the run and the number of the window."""

N_WINDOWS, LENGTH, N_BEFORE = 5, 100, 1000
"""Windows, jobs of each, and jobs before the first of them, of which predictions learn."""

SEED, LOAD, N_USERS = 7, 1.5, 16
_SIZES = np.array([1, 1, 2, 4, 8, 8, 16, 16, 32])
_FACTORS = np.array([1.2, 1.5, 2, 3, 5, 10])
_LIMITS_S = 60.0 * np.array([5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 360, 480])


def machine() -> Platform:
    """Return the machine: 64 cores, which a real Slurm gets as eight nodes."""
    return read_platform("homogeneous:64")


def made_up_log() -> SwfLog:
    """Return a log of users with habits: run times, sizes, and factors by which they ask for too much time.

    Jobs are short, so that a real Slurm serves a window within minutes, and come faster than the machine serves them.
    """
    n_jobs = N_BEFORE + N_WINDOWS * LENGTH
    draws = stream(SEED, "slurm-deploy")
    shares = 1 / np.arange(1, N_USERS + 1)
    user = draws.choice(N_USERS, n_jobs, p=shares / shares.sum())
    log_s = draws.normal(5.7, 0.9, N_USERS)[user]
    factor, size = draws.choice(_FACTORS, N_USERS)[user], draws.choice(_SIZES, N_USERS)[user]
    usual_s, draw_s = elementary.exp(log_s), log_s + draws.normal(0, 0.8, n_jobs)
    run_s = np.clip(np.round(elementary.exp(draw_s)), 20, 4000)
    cores = np.clip(size * 2.0 ** draws.integers(-1, 2, n_jobs), 1, 64).astype(np.int64)
    asked_s = np.maximum(run_s, usual_s) * factor
    limit_s = _LIMITS_S[np.minimum(np.searchsorted(_LIMITS_S, asked_s), len(_LIMITS_S) - 1)]
    gap_s = float(np.mean(run_s * cores)) / (64 * LOAD)
    rows = unknown_rows(n_jobs)
    rows["job_number"], rows["user"], rows["wait_s"] = np.arange(1, n_jobs + 1), user + 1, 0
    rows["submit_s"] = np.floor(np.cumsum(draws.exponential(1.0, n_jobs)) * gap_s)
    rows["run_s"], rows["requested_s"] = run_s, np.maximum(limit_s, 60 * np.ceil(run_s / 60))
    rows["processors"] = rows["requested_processors"] = cores
    return SwfLog("slurm-deploy", rows, {})


def windows() -> list[Workload]:
    """Return the windows."""
    whole = workload_from_swf(made_up_log(), machine(), bandwidth="none", memory="none")
    return [whole.window(N_BEFORE + LENGTH * number, LENGTH) for number in range(N_WINDOWS)]


RUNS = "slurm-deploy.csv"
COLUMNS = ("run", "window", "job", "start_s")

SLURM, AGAIN = "slurm", "slurm, again"
DEPLOYED = ("sjf@geo", "es-generalist")
WITHOUT_LUA, LUA_TWIN = "sjf@geo, without the Lua", "sjf@geo"
_PLAYED = {SLURM: SLURM, AGAIN: SLURM, **{name: name for name in DEPLOYED}, WITHOUT_LUA: LUA_TWIN}
"""Policy of each run."""

# Numbers of a run over those of Slurm's own order, means over the jobs of a window.
SLOWDOWN, WAIT, P99, LONGEST = "bounded slowdown", "wait", "p99 of the slowdown", "longest wait"
WINDOWS, BY_RULES, BY_CONSERVATIVE, KEPT, OVER_LUA, PAIRS = (
    "windows",
    "promised by Slurm's rules",
    "promised by backfilling",
    "real over promised",
    "over that with the Lua",
    "pairs in another order, %",
)


@PROTOCOLS.register("slurm-deploy")
@without_models
def slurm_deploy(traces: Mapping[str, Path]) -> dict[Place, Finding]:
    """Return the gains of deployed policies in a real Slurm over its own order, and the promises of simulation.

    Parameters
    ----------
    traces
        The file with the runs of the real Slurm.
    """
    real = read_runs(traces[RUNS])
    jobs = windows()
    found: dict[Place, Finding] = {}
    rules, conservative = promised(jobs, by_rules=True), promised(jobs, by_rules=False)
    for name in dict.fromkeys(run for run, _ in real if run != SLURM):
        numbers = _windows_of(real, name, SLURM)
        found[name, WINDOWS] = Finding(len(numbers))
        for column in (SLOWDOWN, WAIT, P99, LONGEST):
            found[name, column] = _ratio(*_pairs(column, jobs, real, numbers, name, SLURM))
        gained = np.divide(*_pairs(SLOWDOWN, jobs, real, numbers, name, SLURM))
        for number, one in zip(numbers, gained.tolist(), strict=True):
            found[f"{name}, window {number + 1}", SLOWDOWN] = Finding(one)
        if name in DEPLOYED:
            found[name, BY_CONSERVATIVE] = _ratio(*_pairs(SLOWDOWN, jobs, conservative, numbers, name, SLURM))
        if name != AGAIN:
            expected_pairs = _pairs(SLOWDOWN, jobs, rules, numbers, name, SLURM)
            expected = np.divide(*expected_pairs)
            found[name, BY_RULES] = _ratio(*expected_pairs)
            found[name, KEPT] = _ratio(gained, expected)
            for number, one in zip(numbers, expected.tolist(), strict=True):
                found[f"{name}, window {number + 1}", BY_RULES] = Finding(one)
        if name == WITHOUT_LUA:
            both = _windows_of(real, name, SLURM, LUA_TWIN)
            found[name, OVER_LUA] = _ratio(*_pairs(SLOWDOWN, jobs, real, both, name, LUA_TWIN))
        if name == AGAIN:
            shares = [100 * discordant_share(real[SLURM, k], real[AGAIN, k]) for k in numbers]
            found[name, PAIRS] = Finding(float(np.mean(shares)))
    return found


def _windows_of(starts: Starts, *runs: str) -> list[int]:
    """Return the windows that all of some runs have."""
    return [number for number in range(N_WINDOWS) if all((run, number) in starts for run in runs)]


def _pairs(column: str, jobs: list[Workload], starts: Starts, numbers: list[int], *runs: str) -> list[Floats]:
    """Return a metric of runs in some windows, an array for each run."""
    return [np.array([_measured(jobs[k], starts[run, k])[column] for k in numbers]) for run in runs]


def _ratio(values: Floats, reference: Floats) -> Finding:
    return Finding(*Bootstrap(np.zeros(len(values))).ratio(values, reference), null=1.0)


def promised(jobs: list[Workload], *, by_rules: bool) -> Starts:
    """Return the simulated starts of each window under Slurm's own order and the deployed ones.

    Parameters
    ----------
    by_rules
        True if Lua and daemon order the queue of the simulated Slurm; else conservative backfilling stands for it.
    """
    platform = machine()
    starts: Starts = {}
    for number, window in enumerate(jobs):
        for name in (SLURM, *DEPLOYED, *([WITHOUT_LUA] if by_rules else [])):
            policy = None if name == SLURM else deployed_policy(_PLAYED[name])
            if by_rules:
                trace = simulate_deployed(policy, platform, window, lua=name != WITHOUT_LUA)
            else:
                played = "fcfs+conservative" if policy is None else simulated_name(policy)
                trace = simulate(platform, window, played, energy=False)
            starts[name, number] = trace.records["start_s"]
    return starts


def _measured(jobs: Workload, start_s: Floats) -> dict[str, float]:
    """Return the metrics of a window; jobs run as long as the log says, without what launching them takes."""
    wait_s = np.maximum(start_s - jobs.jobs["submit_s"], 0.0)
    run_s, _ = run_times_at(jobs, float(machine().speed_flops[0, 0]))
    slowdown = bounded_slowdown(wait_s, run_s)
    return {
        SLOWDOWN: float(np.mean(slowdown)),
        WAIT: float(np.mean(wait_s)),
        P99: float(np.quantile(slowdown, 0.99)),
        LONGEST: float(np.max(wait_s)),
    }


def read_runs(path: Path) -> Starts:
    """Read runs of a real Slurm.

    Raises
    ------
    ReadError
        If the file holds something else.
    """
    rows = read_table(path, COLUMNS)
    try:
        cells = [(run, int(window), int(job), float(start_s)) for run, window, job, start_s in rows]
    except ValueError:
        raise ReadError(path, f"holds no numbers in {', '.join(COLUMNS[1:])}") from None
    starts: Starts = {}
    for run, window, job, start_s in cells:
        if run not in _PLAYED or not 0 <= window < N_WINDOWS or not 0 <= job < LENGTH or not np.isfinite(start_s):
            raise ReadError(path, f"names job {job} of window {window} of run {run!r}, which is none of slurm-deploy")
        starts.setdefault((run, window), np.full(LENGTH, np.nan))[job] = start_s
    if any(np.isnan(one).any() for one in starts.values()) or (SLURM, 0) not in starts:
        raise ReadError(path, f"lacks jobs of a window, or Slurm's own run; expected {LENGTH} jobs of each")
    return starts


def write_runs(path: Path, starts: Starts) -> None:
    """Write runs of a real Slurm."""
    with atomic_table(path, COLUMNS) as write_row:
        for (run, window), start_s in sorted(starts.items()):
            for job, date_s in enumerate(start_s.tolist()):
                write_row((run, window, job, round(date_s)))


def recorded(path: Path, *, n_windows: int, runs: Collection[str], speed: float) -> Iterator[str]:
    """Run the missing runs of a file in a real Slurm, some five minutes for each window of each run.

    Parameters
    ----------
    n_windows
        Number of windows, the first ones.
    runs
        Runs beside Slurm's own order.
    speed
        Speed of the clock relative to real time.

    Yields
    ------
    str
        The recorded run, and the time that the host added to jobs.
    """
    starts = read_runs(path) if path.exists() else {}
    chosen = {run: policy for run, policy in _PLAYED.items() if run in {SLURM, *runs}}
    for number, window in enumerate(windows()[:n_windows]):
        for run, policy in chosen.items():
            if (run, number) not in starts:
                settings = SlurmSettings(lua=run != WITHOUT_LUA, speed=speed)
                trace = simulate(machine(), window, policy, simulator="slurm", slurm=settings, energy=False)
                starts[run, number] = trace.records["start_s"]
                write_runs(path, starts)
                yield f"{run}, window {number + 1}: {trace.info['slurm_overhead_s']} s a job to launch and to end it"


def main() -> None:
    """Record runs, as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m hdrl.deploy.proof", description="Record runs of a real Slurm.")
    parser.add_argument("file", type=Path, help="table of runs (CSV); what it lacks is recorded and added")
    parser.add_argument("--windows", type=int, default=N_WINDOWS, choices=range(1, N_WINDOWS + 1))
    parser.add_argument("--runs", nargs="*", default=list(_PLAYED), choices=list(_PLAYED), metavar="RUN")
    parser.add_argument("--speed", type=float, default=SlurmSettings().speed, help="of the clock")
    given = parser.parse_args()
    lines = recorded(given.file, n_windows=given.windows, runs=given.runs, speed=given.speed)
    print_progress(parser, lines)


if __name__ == "__main__":
    main()
