"""hdrl-batsim in Batsim's place: its own processor time under EASY backfilling on 64 hosts, and what takes it."""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from common.conversations import Easy, Watched, World, run_over_zmq, run_pybatsim_over_zmq
from common.measure import ROOT, environment
from common.report import Report, arguments, finish

N_HOSTS = 64
N_JOBS = (2_000, 5_000)
N_ROUNDS = 5
SCHEDULER = "easyBackfill"
PARTS = ("start-up, imports included", "platform and workload", "simulation with its texts", "files")

IN_PARTS = """\
import gc, json, sys, time
gc.set_threshold(100_000)  # as the command does
import hdrl.launcher.batsim, hdrl.batsim.connection
from hdrl.batsim.exact.simulation import ExactBatsim
ends_s = [time.process_time()]
name, replies = sys.argv[1], iter(json.load(open(sys.argv[2])))
ends_s.append(time.process_time())
main = hdrl.launcher.batsim.main
options = hdrl.launcher.batsim.batsim_options(main.make_context("hdrl-batsim", sys.argv[3:]).params)
simulation = ExactBatsim(options)
ends_s.append(time.process_time())
class Answering:
    def exchange(self, message):
        return next(replies)
result = simulation.run(Answering())
ends_s.append(time.process_time())
result.outputs.write(name, result.schedule, trace=result.trace)
ends_s.append(time.process_time())
print(json.dumps([ends_s[0], *(later - earlier for earlier, later in zip(ends_s[1:], ends_s[2:]))]), file=sys.stderr)
"""
"""A simulation in which recorded replies are given, in one process, and the processor time of its parts."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One round.

    Attributes
    ----------
    whole_s
        Processor time of hdrl-batsim over its socket, in seconds.
    n_exchanges
        Messages and their replies.
    parts_s
        That of each of `PARTS`, in a process that has no socket.
    """

    whole_s: float
    n_exchanges: int
    parts_s: list[float]


def write_world(folder: Path, n_jobs: int) -> World:
    """Write 64 equal hosts, and jobs of the Lublin-Feitelson model with requested times as walltimes.

    Parameters
    ----------
    folder
        Where to write.
    n_jobs
        How many jobs.
    """
    from hdrl.settings.batch.platform import read_platform, write_simgrid
    from hdrl.settings.batch.workload import lublin_log, read_workload, write_batsim_json, write_swf

    platform = read_platform(f"homogeneous:{N_HOSTS}")
    world = World(folder / "platform.xml", folder / f"{n_jobs}.json", energy=True)
    write_simgrid(replace(platform, initial_pstate=platform.initial_pstate * 0), world.platform)
    # The comment holds what hdrl knows of the machine; without it the hosts are what the file says, as for Batsim.
    world.platform.write_text(re.sub(r"<!--.*?-->", "", world.platform.read_text(), flags=re.DOTALL))
    log = folder / f"{n_jobs}.swf"
    write_swf(lublin_log(n_jobs, N_HOSTS, seed=2009), log)
    write_batsim_json(read_workload(log, platform, seed=2009), world.workload, platform=platform)
    jobs = json.loads(world.workload.read_text())
    for job in jobs["jobs"]:
        job["walltime"] = jobs["profiles"][job["profile"]]["req_time"]
    world.workload.write_text(json.dumps(jobs))
    return world


def measure_round(world: World) -> Measured:
    """Simulate once over the socket, then once in parts with the same replies."""
    watched = Watched(Easy())
    whole_s = run_over_zmq(world, watched)
    replies = world.workload.with_suffix(".replies")
    replies.write_text(json.dumps(watched.replies))
    command = [sys.executable, "-c", IN_PARTS, str(replies.with_suffix(".parts")), str(replies), *world.arguments]
    done = subprocess.run(command, check=True, cwd=ROOT, env=environment(), capture_output=True, text=True)
    return Measured(whole_s, watched.n_exchanges, json.loads(done.stderr))


def measure(report: Report, world: World, n_jobs: int) -> None:
    """Measure a world a few times and add what was found.

    Parameters
    ----------
    report
        Where the numbers go.
    world, n_jobs
        What is simulated.
    """
    rounds = [measure_round(world) for _ in range(N_ROUNDS)]
    report.add(f"{n_jobs:,} jobs, {rounds[0].n_exchanges:,} exchanges: hdrl-batsim", [one.whole_s for one in rounds])
    for k, part in enumerate(PARTS):
        report.add(f"... {part}", [one.parts_s[k] for one in rounds])
    rest_s = statistics.median(one.whole_s for one in rounds) - sum(
        statistics.median(one.parts_s[k] for one in rounds) for k in range(len(PARTS))
    )
    report.add("... what is left: the socket", [rest_s])


def measure_pybatsim(report: Report, world: World, n_jobs: int) -> None:
    """Measure with PyBatsim's scheduler at the other end of the socket, where it is installed."""
    from hdrl.batsim.pybatsim import MissingPyBatsim, scheduler_names

    try:
        scheduler_names()
    except MissingPyBatsim as missing:
        report.notes.append(f"Left out: {SCHEDULER}; {missing}")
        return
    runs = [run_pybatsim_over_zmq(world, SCHEDULER) for _ in range(N_ROUNDS)]
    report.add(f"{n_jobs:,} jobs, PyBatsim's {SCHEDULER}: hdrl-batsim", [run.cpu_s for run in runs])


def main() -> None:
    """Measure, print, and keep the numbers if asked to."""
    report_options = arguments(__doc__)
    report = Report(f"hdrl-batsim alone, {N_HOSTS} hosts with energy: processor time")
    with tempfile.TemporaryDirectory(prefix="hdrl-benchmark-") as name:
        for n_jobs in N_JOBS:
            world = write_world(Path(name), n_jobs)
            measure(report, world, n_jobs)
            measure_pybatsim(report, world, n_jobs)
    report.notes.append(
        "The scheduler, EASY backfilling in this process unless another is named, is not counted. Parts are of a "
        "process that is given the same replies without a socket; their texts are read and written as always."
    )
    finish(report, report_options)


if __name__ == "__main__":
    main()
