"""hdrl beside a plain Python simulator of the same world, and beside published times of Batsim with HDeepRM."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from common.inputs import CONTENTION, Inputs, prepared_inputs
from common.measure import LAUNCH, ROOT, compile_first, ratio_of_medians, run_process, time_in_turn
from common.report import Report, arguments, finish

if TYPE_CHECKING:
    from hdrl.settings.batch.platform.model import Platform
    from hdrl.settings.batch.workload.model import Workload

ORACLE = ROOT / "tests" / "settings" / "batch"
"""Where the plain Python simulator of the tests lies."""

N_JOBS = 1_000
N_ROUNDS = 3
PUBLISHED_S = {"uncontended": 415.4, f"dates / {CONTENTION}": 234.4}
"""Wall-clock seconds of HDeepRM 0.3.1 on Batsim 4.2.1, 10,000 jobs on gaia with energy, as published."""


def measure_processes(report: Report, inputs: Inputs) -> None:
    """Measure whole processes beside the published times."""
    workloads = {"uncontended": inputs.classic, f"dates / {CONTENTION}": inputs.classic_contended}
    for index, (what, workload) in enumerate(workloads.items()):
        options = inputs.options(f"classic_{index}", workload)
        command = [*LAUNCH, str(options), "--quiet", "--out"]
        times = [run_process([*command, str(inputs.folder / f"{index}_{round_}")]).wall_s for round_ in range(N_ROUNDS)]
        published = PUBLISHED_S[what]
        ratio = f"{ratio_of_medians([published], times):,.0f} x faster than the published {published} s"
        report.add(f"hdrl-launch, 10,000 classic jobs, {what}: whole process", times, ratio=ratio)
    report.notes.append(
        "Published: Batsim + HDeepRM, 10,000 jobs of the same model on gaia (415.4 s uncontended, 234.4 s contended; "
        "2 cores). Quoted, not measured here: neither the machine nor the very jobs are the same."
    )


def measure_oracle(report: Report, inputs: Inputs) -> None:
    """Measure the compiled simulator beside the plain one, on the same jobs in turn, and compare what they did."""
    from hdrl.settings.batch.platform import read_platform
    from hdrl.settings.batch.workload import read_workload

    gaia = read_platform("gaia")
    whole = read_workload(inputs.classic, gaia, seed=2009, n_jobs=N_JOBS)
    for what, divisor in (("uncontended", 1), (f"dates / {CONTENTION}", CONTENTION)):
        jobs = whole.jobs.copy()
        jobs["submit_s"] /= divisor
        pair = Pair(gaia, replace(whole, jobs=jobs))
        pair.run_compiled()  # loads what is compiled
        seconds = time_in_turn({"plain": pair.run_plain, "compiled": pair.run_compiled}, N_ROUNDS)
        if pair.plain_starts_s != pair.compiled_starts_s:
            raise SystemExit(f"{what}: the two simulators do not start the jobs at the same dates")
        faster = ratio_of_medians(seconds["plain"], seconds["compiled"])
        report.add(f"plain Python, {N_JOBS:,} classic jobs, {what}: simulation", seconds["plain"])
        report.add(
            f"compiled, {N_JOBS:,} classic jobs, {what}: simulation",
            seconds["compiled"],
            ratio=f"{faster:,.0f} x faster than plain Python",
        )
    report.notes.append(
        "Plain Python: tests/settings/batch/oracle, written independently; both start every job at the same date."
    )


class Pair:
    """The two simulators with the same work before them, and the dates at which each has started the jobs.

    Parameters
    ----------
    platform, workload
        What they simulate.
    """

    def __init__(self, platform: Platform, workload: Workload) -> None:
        sys.path.insert(0, str(ORACLE))
        from oracle import simulator

        self.platform, self.workload = platform, workload
        self.oracle = simulator
        self.plain_platform = simulator.OraclePlatform.from_arrays(platform)
        self.plain_jobs = simulator.jobs_from(workload)
        self.plain_starts_s: list[float] = []
        self.compiled_starts_s: list[float] = []

    def run_plain(self) -> None:
        """Simulate with the plain one."""
        result = self.oracle.simulate(self.plain_platform, self.plain_jobs, "shortest", "high_gflops")
        self.plain_starts_s = [round(record.start_s, 6) for record in result.records]

    def run_compiled(self) -> None:
        """Simulate with the compiled one."""
        from hdrl.settings.batch.policies import simulate

        trace = simulate(self.platform, self.workload, "shortest-high_gflops")
        self.compiled_starts_s = [round(start_s, 6) for start_s in trace.records["start_s"].tolist()]


def main() -> None:
    """Measure, print, and keep the numbers if asked to."""
    report_options = arguments(__doc__)
    report = Report("hdrl beside others: shortest-high_gflops on gaia")
    compile_first()
    with prepared_inputs() as inputs:
        measure_processes(report, inputs)
        measure_oracle(report, inputs)
    finish(report, report_options)


if __name__ == "__main__":
    main()
