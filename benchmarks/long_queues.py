"""Conservative backfilling where thousands of jobs wait, beside EASY: processor time of jobs that all come at once."""

from __future__ import annotations

import time

from common.measure import ROOT, compile_first, ratio_of_medians, time_in_turn
from common.report import Report, arguments, finish

CASES = ((1000, False, 3), (4000, False, 3), (10_000, False, 1), (1000, True, 3), (2000, True, 1))
"""How many jobs, whether they ask for memory, and how often each is simulated."""

AT_MOST_S = {(10_000, False): 60.0}


def measure(report: Report) -> None:
    """Measure both policies in turn."""
    from dataclasses import replace

    from hdrl.settings.batch.platform import read_platform
    from hdrl.settings.batch.policies import simulate
    from hdrl.settings.batch.workload import read_workload

    platform = read_platform("gaia")
    for n_jobs, asks_for_memory, n_rounds in CASES:
        log = ROOT / "workloads" / "lublin_gaia_10000.swf.gz"
        models = {} if asks_for_memory else {"memory": "none", "bandwidth": "none"}
        workload = read_workload(log, platform, n_jobs=n_jobs, **models)
        jobs = workload.jobs.copy()
        jobs["submit_s"] = 0.0
        jobs.flags.writeable = False
        workload = replace(workload, jobs=jobs)
        policies = ("fcfs+easy", "fcfs+conservative")
        seconds = time_in_turn(
            {
                name: lambda name=name, workload=workload: simulate(platform, workload, name, energy=False)
                for name in policies
            },
            n_rounds,
            time.process_time,
        )
        easy, conservative = (seconds[name] for name in policies)
        report.add(
            f"{n_jobs:,} jobs{' that ask for memory' if asks_for_memory else ''}, fcfs+conservative",
            conservative,
            at_most=AT_MOST_S.get((n_jobs, asks_for_memory)),
            ratio=f"{ratio_of_medians(conservative, easy):,.0f} x fcfs+easy's {min(easy):.3f} s",
        )


if __name__ == "__main__":
    report_options = arguments(__doc__)
    compile_first()
    made = Report("Thousands of jobs at once on gaia")
    measure(made)
    finish(made, report_options)
