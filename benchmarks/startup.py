"""How long until the first event: of the first start ever, which compiles the simulator, and of later ones."""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

from common.measure import LAUNCH, Process, compile_first, run_process
from common.report import Report, arguments, finish

N_STARTS = 7
NUMPY = "... and NumPy"
OPTIONS = """\
{"platform_file_path": "learning", "workload_file_path": "learning",
 "pybatsim": {"agent": {"policy_pair": "first-high_gflops"}}}
"""
PARTS = {
    "Python alone": "pass",
    NUMPY: "import numpy",
    "... and Numba, the compiler, which later starts do without": "import numba",
    "... and NumPy and llvmlite, which links what is compiled": "import numpy, llvmlite.binding",
    "... and hdrl, all that an experiment needs": (
        "import hdrl.experiment, hdrl.launcher.launch; from hdrl.batch import simulate"
    ),
}


def launch_tiny(folder: Path, name: str, cache: Path | None = None) -> Process:
    """Simulate two jobs on four cores with hdrl-launch, a whole process."""
    options = folder / "options.json"
    options.write_text(OPTIONS)
    environment = {} if cache is None else {"NUMBA_CACHE_DIR": str(cache)}
    return run_process([*LAUNCH, str(options), "--out", str(folder / name)], variables=environment)


def main() -> None:
    """Measure, print, and keep the numbers if asked to."""
    report_options = arguments(__doc__)
    report = Report("Start-up: hdrl-launch with two jobs on four cores, the whole process")
    compile_first()
    with tempfile.TemporaryDirectory(prefix="hdrl-benchmark-") as name:
        folder = Path(name)
        first = launch_tiny(folder, "first", cache=folder / "cache")
        if "compiling" not in first.stderr:
            raise SystemExit(f"the first start did not say that it compiles; it said: {first.stderr}")
        report.add("first start ever, compiles the simulator and says so", [first.wall_s], at_most=20)
        report.add("memory of the first start", [first.peak_mib], "MiB")
        later = [launch_tiny(folder, f"later_{index}") for index in range(N_STARTS)]
    report.add("later starts", [process.wall_s for process in later])
    report.add("later starts, processor time", [process.cpu_s for process in later])
    for what, code in PARTS.items():
        parts = [run_process([sys.executable, "-c", code]) for _ in range(N_STARTS)]
        report.add(what, [process.wall_s for process in parts])
        if what == NUMPY:
            more_s = statistics.median(process.cpu_s for process in later) - statistics.median(
                one.cpu_s for one in parts
            )
            report.add("later starts less Python with NumPy, processor time", [more_s], at_most=0.3)
    finish(report, report_options)


if __name__ == "__main__":
    main()
