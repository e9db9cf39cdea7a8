"""How long pictures of ten thousand jobs take, the whole process: start, reading, drawing, saving."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from common.measure import LAUNCH, compile_first, run_process
from common.report import Report, arguments, finish

N_REPEATS = 3
PLOT = [sys.executable, "-c", "from hdrl.launcher.main import cli; cli(prog_name='hdrl')", "plot"]
KINDS = ("gantt", "queue_size", "lifecycle", "mem_bw_overutilization", "slowdown_cdf", "groups")
WORLDS = {
    "gaia, 2,280 cores": ("gaia", "shortest-high_gflops"),
    "mc2, 10,002 cores": ("mc2", "shortest-high_gflops"),
    # It takes cores one by one from all over the platform: a job of 1,000 cores is 1,000 rectangles.
    "mc2, scattered jobs": ("mc2", "shortest-high_cores"),
}


def simulate(folder: Path, platform: str, policy: str) -> Path:
    """Simulate 10,000 jobs and return the folder of the run."""
    options = folder / "options.json"
    run = folder / f"{platform}-{policy}"
    options.write_text(
        json.dumps(
            {
                "platform_file_path": platform,
                "workload_file_path": "lublin_gaia_10000",
                "pybatsim": {"agent": {"policy_pair": policy}},
            }
        )
    )
    run_process([*LAUNCH, str(options), "--quiet", "--out", str(run)])
    return run


def main() -> None:
    """Measure, print, and keep the numbers if asked to."""
    report_options = arguments(__doc__)
    report = Report("Pictures: from the command to the file, 10,000 jobs")
    compile_first()
    with tempfile.TemporaryDirectory(prefix="hdrl-benchmark-") as name:
        folder = Path(name)
        for words, (platform, policy) in WORLDS.items():
            run = simulate(folder, platform, policy)
            for kind in KINDS if platform == "gaia" else ("gantt",):
                command = [*PLOT, kind, str(run), "-s", str(folder / "picture.png")]
                walls = [run_process(command).wall_s for _ in range(N_REPEATS)]
                report.add(f"{kind}: {words}", walls, at_most=5 if kind == "gantt" else None)
    finish(report, report_options)


if __name__ == "__main__":
    main()
