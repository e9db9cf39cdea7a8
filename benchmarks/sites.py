"""Sites: an import of 1,000,000 rows, answers to when jobs start and to what-if, and the policy slurm."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from common.measure import compile_first, run_process
from common.report import Report, arguments, finish

HDRL = (sys.executable, "-m", "hdrl")
N_ROWS, N_WAITING, N_TIMES = 1_000_000, 1000, 3
N_SCHEDULED, LOAD = 200_000, 0.8
N_OF_SITE, N_LOOPS = 20_000, 5_000_000
MACHINES = "-25%,-20%,-15%,-10%,-5%,+5%,+10%,+15%,+20%,+25%,+30%"
"""With the machine as it is, twelve."""
POLICIES = "slurm,fcfs+easy,sjf+easy,es-generalist"
SPLIT = (sys.executable, "-c", "import sys; sum(len(line.split('|')) for line in open(sys.argv[1]))")
"""What any reader of accounting in Python does."""
HEADER = (
    "JobID|JobIDRaw|User|Account|JobName|Partition|QOS|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|AllocCPUS|"
    "ReqCPUS|AllocNodes|ReqMem|ReqTRES|AllocTRES|State|NodeList|SubmitLine\n"
)
BEGIN = np.datetime64("2025-01-06T00:00:00")


def rows(n_rows: int, n_waiting: int, seed: int = 1) -> Iterator[str]:
    """Yield accounting of jobs on 512 nodes, each with its own command line; the last ones wait."""
    draws = np.random.default_rng(seed)
    submit_s = np.cumsum(draws.integers(0, 40, n_rows))
    wait_s, run_s = draws.integers(0, 20_000, n_rows), draws.integers(1, 40_000, n_rows)
    limits, sizes = draws.choice([10, 60, 240, 1440, 2880], n_rows), draws.choice([1, 2, 4, 8, 32, 64, 128], n_rows)
    numbers = draws.integers(0, 2**31, (2, n_rows))
    dates = [
        np.datetime_as_string(BEGIN + column).tolist()
        for column in (submit_s, submit_s + wait_s, submit_s + wait_s + run_s)
    ]
    columns = (*dates, run_s, limits, sizes, *numbers)
    for job, (submit, start, end, run, limit, size, user, script) in enumerate(zip(*columns, strict=True), start=1):
        waits = job > n_rows - n_waiting
        nodes = -(-size // 64)
        first = user % 500 + 1
        listed = f"n{first}" if nodes == 1 else f"n[{first}-{first + nodes - 1}]"
        ran = "Unknown|Unknown|0" if waits else f"{start}|{end}|{run}"
        tres = f"billing={size},cpu={size},mem={size * 2}G,node={nodes}"
        got, state = ("", "PENDING") if waits else (tres, "COMPLETED" if script % 20 else "FAILED")
        yield (
            f"{job}|{job}|user{user % 400}|group{user % 40}|case{script % 5000}|{'gpu' if user % 9 == 0 else 'main'}|"
            f"normal|{submit}|{submit}|{ran}|{limit}|{0 if waits else size}|{size}|{0 if waits else nodes}|2G|{tres}|"
            f"{got}|{state}|{'None assigned' if waits else listed}|sbatch -N {nodes} -n {size} -t {limit} -J "
            f"case{script % 5000} --mem-per-cpu=2G -o %j.txt /home/user{user % 400}/run{script}.sh --seed {script}\n"
        )


def write(path: Path, n_rows: int, n_waiting: int = 0) -> Path:
    """Write accounting to a file."""
    with path.open("w") as file:
        file.write(HEADER)
        file.writelines(rows(n_rows, n_waiting))
    return path


CONF = """\
ClusterName=measured
SelectType=select/cons_tres
NodeName=n[1-512] CPUs=64 RealMemory=256000
PartitionName=main Nodes=ALL Default=YES MaxTime=2-00:00:00
PartitionName=gpu Nodes=ALL MaxTime=2-00:00:00
"""


def measure_import(report: Report, folder: Path) -> None:
    """Measure an import, and in turn what only splits the same lines; then a second answer of ``hdrl wait``."""
    (folder / "slurm.conf").write_text(CONF)
    dump = write(folder / "sacct.txt", N_ROWS)
    words = [*HDRL, "site", "import", str(dump), "--conf", str(folder / "slurm.conf"), "--replay", "none", "-q"]
    split, done = [], []
    for number in range(N_TIMES):
        split.append(run_process([*SPLIT, str(dump)]).cpu_s)
        done.append(run_process([*words, "-o", str(folder / f"site{number}")]))
    ratio = statistics.median(one.cpu_s / plain for one, plain in zip(done, split, strict=True))
    what = "import of 1,000,000 rows with command lines, processor time"
    report.add(what, [one.cpu_s for one in done], at_most=20, ratio=f"{ratio:.0f} x splitting its lines")
    report.add("memory of it", [one.peak_mib for one in done], "MiB", at_most=2048)
    queue = write(folder / "queue.txt", 2 * N_WAITING, N_WAITING)
    words = [*HDRL, "wait", str(folder / "site0"), "--now", str(queue), "--json"]
    run_process(words)
    done = [run_process(words) for _ in range(N_TIMES)]
    what = f"second answer for {N_WAITING:,} waiting jobs, processor time of the whole process"
    report.add(what, [one.cpu_s for one in done], at_most=N_WAITING / 1000)


def measure_what_if(report: Report, folder: Path) -> None:
    """Measure what-if on 12 machines under 4 policies in 10 windows of 1,000 jobs."""
    run_process([*HDRL, "site", "example", str(folder / "example"), "--jobs", str(N_OF_SITE)])
    names = [str(folder / "example" / name) for name in ("sacct.txt", "slurm.conf")]
    site = str(folder / "answered")
    run_process([*HDRL, "site", "import", names[0], "--conf", names[1], "--replay", "none", "-q", "-o", site])
    words = [*HDRL, "what-if", site, "--nodes", MACHINES, "--policies", POLICIES, "--windows", "1000:10"]
    done = [run_process([*words, "-o", str(folder / f"answer{number}")]) for number in range(N_TIMES)]
    what = "what-if on 12 machines, 4 policies, 10 windows of 1,000 jobs, processor time"
    report.add(what, [one.cpu_s for one in done], at_most=60)


def _plain_s() -> float:
    """Return how long a loop in plain Python takes now: other programs slow both down."""
    begun_s, total = time.process_time(), 0
    for number in range(N_LOOPS):
        total += number * number
    return time.process_time() - begun_s


def measure_slurm(report: Report) -> None:
    """Measure the policy slurm on jobs of the Lublin-Feitelson model on 300 nodes of 16 cores."""
    from hdrl.batch import build_platform, lublin_workload, simulate
    from hdrl.settings.batch.site_rules.conf import Nodes, SiteConf
    from hdrl.settings.batch.site_rules.machine import platform_of
    from hdrl.settings.batch.site_rules.rules import rules_of

    conf = SiteConf("measured", (Nodes("n[1-300]", 300, 16),), {})
    machine = replace(build_platform(platform_of(conf), name="measured"), site=rules_of(conf))
    jobs = lublin_workload(machine, N_SCHEDULED, seed=1, load=LOAD, bandwidth="none")
    simulate(machine, jobs.window(0, 100), "slurm", energy=False)
    times, ratios = [], []
    for _ in range(N_TIMES):
        plain_s, begun_s = _plain_s(), time.process_time()
        simulate(machine, jobs, "slurm", energy=False)
        times.append(time.process_time() - begun_s)
        ratios.append(times[-1] / plain_s)
    ratio = f"{statistics.median(ratios):.0f} x a loop of {N_LOOPS:,} products in Python"
    report.add(f"policy slurm, {N_SCHEDULED:,} jobs at load {LOAD}, processor time", times, at_most=10, ratio=ratio)


def main() -> None:
    """Measure, print, and keep the numbers if asked to."""
    report_options = arguments(__doc__)
    report = Report("Sites: importing accounting, answers, and the policy slurm")
    compile_first()
    with tempfile.TemporaryDirectory(prefix="hdrl-benchmark-") as name:
        measure_import(report, Path(name))
        measure_what_if(report, Path(name))
    measure_slurm(report)
    finish(report, report_options)


if __name__ == "__main__":
    main()
