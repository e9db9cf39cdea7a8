"""Accounting of a site: how long an import of 1,000,000 rows takes, and a second answer to when jobs start."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from common.measure import compile_first, run_process
from common.report import Report, arguments, finish

HDRL = (sys.executable, "-m", "hdrl")
N_ROWS, N_WAITING, N_TIMES = 1_000_000, 1000, 3
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


def main() -> None:
    """Measure, print, and keep the numbers if asked to."""
    asked = arguments(__doc__)
    report = Report("Sites: importing accounting, and when jobs start")
    compile_first()
    with tempfile.TemporaryDirectory(prefix="hdrl-benchmark-") as name:
        folder = Path(name)
        (folder / "slurm.conf").write_text(CONF)
        dump = write(folder / "sacct.txt", N_ROWS)
        words = [*HDRL, "site", "import", str(dump), "--conf", str(folder / "slurm.conf"), "--replay", "none", "-q"]
        done = [run_process([*words, "-o", str(folder / f"site{number}")]) for number in range(N_TIMES)]
        report.add(
            "import of 1,000,000 rows with command lines, processor time", [one.cpu_s for one in done], at_most=20
        )
        report.add("memory of it", [one.peak_mib for one in done], "MiB", at_most=2048)
        queue = write(folder / "queue.txt", 2 * N_WAITING, N_WAITING)
        words = [*HDRL, "wait", str(folder / "site0"), "--now", str(queue), "--json"]
        run_process(words)
        done = [run_process(words) for _ in range(N_TIMES)]
        report.add(
            f"second answer for {N_WAITING:,} waiting jobs, processor time of the whole process",
            [one.cpu_s for one in done],
            at_most=N_WAITING / 1000,
        )
    finish(report, asked)


if __name__ == "__main__":
    main()
