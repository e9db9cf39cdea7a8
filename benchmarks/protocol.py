"""Batsim's protocol: messages per second in one process and over ZeroMQ, and PyBatsim's easyBackfill on 10,000 jobs."""

from __future__ import annotations

import functools
import os
import re
import shutil
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from common.conversations import (
    FirstFit,
    Recorded,
    Scheduler,
    Watched,
    World,
    run_embedded,
    run_exact,
    run_over_zmq,
    run_pybatsim_over_zmq,
)
from common.inputs import Inputs, prepared_inputs
from common.measure import ROOT, compile_first
from common.report import Report, arguments, finish

N_JOBS = 1_000
N_ROUNDS = 3
SCHEDULER = "easyBackfill"
RECORDED = ROOT / ".." / "shared" / "batsim-runs"
"""Recorded runs of the real Batsim, where they have been put beside the checkout."""

RECORDED_RUNS = {"hdeeprm_gaia200_padded": "HDeepRM on gaia", "bf_200": "batsched easy_bf"}
PUBLISHED_PER_S = {True: 871, False: 2_220}
"""Exchanges per second of Batsim 4.2.1 with PyBatsim's easyBackfill, 1,000 jobs, with and without energy."""

PUBLISHED_S = 25.0
"""Wall-clock seconds of the same with 10,000 jobs and energy."""

SIMULATORS: dict[str, Callable[[World, Scheduler], object]] = {
    "hdrl-batsim over ZeroMQ": run_over_zmq,
    "exact engine in-process": run_exact,
    "embedded simulator in-process": run_embedded,
}


@dataclass(frozen=True, slots=True)
class Worlds:
    """Gaia with every core in its fastest P-state, as published times have it, and classic jobs.

    Attributes
    ----------
    platform
        Its SimGrid file.
    some_jobs, all_jobs
        Files of 1,000 and of 10,000 jobs.
    """

    platform: Path
    some_jobs: Path
    all_jobs: Path

    @classmethod
    def written(cls, inputs: Inputs) -> Worlds:
        """Write the files."""
        from hdrl.settings.batch.platform import read_platform, write_simgrid
        from hdrl.settings.batch.workload import read_workload, write_batsim_json

        gaia = read_platform("gaia")
        worlds = cls(inputs.folder / "gaia.xml", inputs.folder / "some.json", inputs.folder / "all.json")
        write_simgrid(replace(gaia, initial_pstate=gaia.initial_pstate * 0), worlds.platform)
        # The comment holds what hdrl knows of the machine; without it the hosts are what the file says, as for Batsim.
        text = worlds.platform.read_text()
        worlds.platform.write_text(re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL))
        for file, n_jobs in ((worlds.some_jobs, N_JOBS), (worlds.all_jobs, None)):
            write_batsim_json(read_workload(inputs.classic, gaia, seed=2009, n_jobs=n_jobs), file, platform=gaia)
        return worlds


def measure_rates(
    report: Report, what: str, world: World, new_scheduler: Callable[[], Scheduler], others: Mapping[str, float]
) -> None:
    """Measure exchanges per second of the three simulators in turn, and compare how many exchanges they had.

    Parameters
    ----------
    report, what
        Where the numbers go, and under which name.
    world
        What is simulated.
    new_scheduler
        Makes the scheduler of a simulation.
    others
        Exchanges per second of others, by name.
    """
    rates: dict[str, list[float]] = {name: [] for name in SIMULATORS}
    n_exchanges = set()
    for _ in range(N_ROUNDS):
        for name, run in SIMULATORS.items():
            watched = Watched(new_scheduler())
            run(world, watched)
            rates[name].append(watched.rate)
            n_exchanges.add(watched.n_exchanges)
    if len(n_exchanges) > 1:
        raise SystemExit(f"{what}: the simulators have {sorted(n_exchanges)} exchanges, not all the same number")
    for name, values in rates.items():
        median = statistics.median(values)
        ratio = "; ".join(f"{median / rate:.3g} x {other} ({rate:,.0f} /s)" for other, rate in others.items())
        report.add(f"{what}: {name}", values, "/s", ratio=ratio)


def measure_first_fit(report: Report, worlds: Worlds) -> None:
    """Measure rates under the simplest scheduler, beside the published ones."""
    for energy, published_per_s in PUBLISHED_PER_S.items():
        world = World(worlds.platform, worlds.some_jobs, energy)
        what = f"{N_JOBS:,} classic jobs, {'with' if energy else 'without'} energy"
        measure_rates(report, what, world, FirstFit, {"the published": published_per_s})


def measure_recorded(report: Report, folder: Path) -> None:
    """Measure rates with the recorded replies of real runs, beside the rates that Batsim had."""
    from hdrl.settings.batch.simulation.readers import read_out_schedule

    if not RECORDED.is_dir():
        report.notes.append("Left out: recorded runs of the real Batsim, which are not beside the checkout.")
        return
    for name, stack in RECORDED_RUNS.items():
        run = RECORDED / name
        # hdrl-batsim writes its files beside its input, so that is copied.
        platform, workload = (
            Path(shutil.copy(run / file, folder / f"{name}_{file}")) for file in ("platform.xml", "workload.json")
        )
        schedule = read_out_schedule(run / "out_schedule.csv")
        whole_s, scheduler_s = float(schedule["simulation_time"]), float(schedule["scheduling_time"])
        n_exchanges = len(Recorded(run).replies)
        measure_rates(
            report,
            f"recorded run of {stack}, {n_exchanges} exchanges",
            World(platform, workload, energy=(run / "out_consumed_energy.csv").exists()),
            functools.partial(Recorded, run),
            {"Batsim's": n_exchanges / (whole_s - scheduler_s), "the whole run's": n_exchanges / whole_s},
        )
    report.notes.append(
        "Recorded runs: the scheduler's recorded replies are given again. Batsim's rate is the one that its own "
        "out_schedule.csv tells, less the time in which it waited for the scheduler; it was another machine."
    )


def measure_pybatsim(report: Report, worlds: Worlds) -> None:
    """Measure ten thousand jobs under a scheduler of PyBatsim, beside the published times."""
    from hdrl.batsim.pybatsim import MissingPyBatsim, scheduler_names

    try:
        scheduler_names()
    except MissingPyBatsim as missing:
        report.notes.append(f"Left out: {SCHEDULER}; {missing}")
        return
    world = World(worlds.platform, worlds.all_jobs, energy=True)
    runs: dict[str, Callable[[World], object]] = {
        "embedded simulator in-process": run_pybatsim,
        "hdrl-batsim over ZeroMQ, both processes": lambda world: run_pybatsim_over_zmq(world, SCHEDULER),
    }
    for name, run in runs.items():
        start_s, start_cpu_s = time.perf_counter(), processor_s()
        run(world)
        wall_s, cpu_s = time.perf_counter() - start_s, processor_s() - start_cpu_s
        report.add(
            f"PyBatsim's {SCHEDULER}, 10,000 classic jobs, with energy: {name}",
            [wall_s],
            ratio=f"{PUBLISHED_S / wall_s:.3g} x the speed of the published ({PUBLISHED_S} s)",
        )
        report.add("... its processor time", [cpu_s])


def processor_s() -> float:
    """Return the processor time of this process and of its children that have ended, in seconds."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def run_pybatsim(world: World) -> None:
    """Simulate in this process under the scheduler of PyBatsim, from the files to the Trace.

    Parameters
    ----------
    world
        What is simulated.
    """
    from hdrl.batsim.pybatsim import run_scheduler
    from hdrl.settings.batch.platform import read_simgrid
    from hdrl.settings.batch.workload import read_batsim_json

    run_scheduler(SCHEDULER, read_simgrid(world.platform), read_batsim_json(world.workload), energy=world.energy)


def main() -> None:
    """Measure, print, and keep the numbers if asked to."""
    report_options = arguments(__doc__)
    report = Report("Batsim's protocol: exchanges per second, and PyBatsim")
    compile_first()
    with prepared_inputs() as inputs:
        worlds = Worlds.written(inputs)
        measure_first_fit(report, worlds)
        measure_recorded(report, inputs.folder)
        measure_pybatsim(report, worlds)
    report.notes.append(
        "An exchange is a message and its reply; rates are from the first message to the last. Classic jobs run on "
        "gaia with all cores in their fastest P-state; a scheduler that takes the first free hosts decides, or "
        "PyBatsim's easyBackfill where it says so. Published: Batsim 4.2.1 "
        "with PyBatsim's easyBackfill on the same hosts with jobs of the same model, 2 cores, start-up (0.16 s) "
        "included: 871 exchanges/s with energy and 2,220 without for 1,000 jobs; 25.0 s, which is 800 exchanges/s and "
        "24.7 s of processor time, for 10,000 with energy. With HDeepRM 0.3.1 it was 96 exchanges/s. Quoted, not "
        "measured here: neither the machine nor the very jobs are the same."
    )
    finish(report, report_options)


if __name__ == "__main__":
    main()
