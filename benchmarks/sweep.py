"""What hdrl compare costs beside the simulations that it consists of, and what a second process brings."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from common.measure import compile_first, ratio_of_medians, run_process
from common.report import Report, arguments, finish

N_ROUNDS = 3
SWEEP = {
    "platform": "homogeneous:256",
    "candidates": ["heuristics"],
    "loads": [0.85],
    "windows": {"length": 1000, "count": 3},
    "metrics": ["mean_bounded_slowdown"],
}
COMPARE = "from hdrl.launcher.main import cli; cli(prog_name='hdrl')"
LOOP = """
import hdrl
from hdrl.setting import BATCH, find_setting
from hdrl.settings.batch.workload import lublin_workload

platform = hdrl.read_platform("homogeneous:256")
for seed in range(3):
    workload = lublin_workload(platform, 1000, seed=seed, load=0.85)
    for policy in find_setting(BATCH).policies.groups()["heuristics"]:
        hdrl.compute_metrics(hdrl.simulate(platform, workload, policy))
"""


def main() -> None:
    """Measure, print, and keep the numbers if asked to."""
    report_options = arguments(__doc__)
    report = Report("Sweeps: hdrl compare, 51 policies on 3 generated windows of 1,000 jobs for 256 cores")
    compile_first()
    loop, one, two = [], [], []
    with tempfile.TemporaryDirectory(prefix="hdrl-benchmark-") as name:
        folder = Path(name)
        (folder / "sweep.json").write_text(json.dumps(SWEEP))
        for number in range(N_ROUNDS):
            loop.append(run_process([sys.executable, "-c", LOOP]))
            for processes, kept in ((1, one), (2, two)):
                out = folder / f"out-{processes}-{number}"
                words = ["compare", str(folder / "sweep.json"), "-j", str(processes), "--out", str(out), "--quiet"]
                kept.append(run_process([sys.executable, "-c", COMPARE, *words]))
    report.add("the simulations alone, in a loop: whole process", [process.wall_s for process in loop])
    report.add("hdrl compare -j 1: whole process", [process.wall_s for process in one])
    report.add("hdrl compare -j 2: whole process", [process.wall_s for process in two])
    report.add("hdrl compare -j 1: its processor time", [process.cpu_s for process in one])
    cost = ratio_of_medians([process.cpu_s for process in one], [process.cpu_s for process in loop])
    report.add("hdrl compare -j 1 : loop, processor time", [cost], "x", at_most=1.2)
    gain = ratio_of_medians([process.wall_s for process in one], [process.wall_s for process in two])
    report.add("hdrl compare -j 1 : -j 2, wall clock", [gain], "x", at_least=1.7)
    finish(report, report_options)


if __name__ == "__main__":
    main()
