"""Windows of a log with and without predictions, side by side, and how many windows judge weights in a minute.

Jobs are of the Lublin-Feitelson model with users and Tsafrir's estimates, on 256 processors at load 0.9; with
``python benchmarks/evolution.py LOG PROCESSORS`` they are those of a log.
"""

from __future__ import annotations

from common.inputs import log_or_generated
from common.measure import compile_first, ratio_of_medians, time_in_turn
from common.report import Report, arguments, finish

N_JOBS, N_ROUNDS, N_PROCS = 1024, 9, 256
POPULATION, N_WINDOWS = 14, 20


def measure(report: Report, log: str | None, n_procs: int) -> None:
    """Measure single windows, and a generation of candidates."""
    import numpy as np

    from hdrl.base.cores import usable_cores
    from hdrl.settings.batch.envs.job_index import JobIndexVectorEnv
    from hdrl.settings.batch.envs.window_judge import JudgedLog
    from hdrl.settings.batch.platform import read_platform
    from hdrl.settings.batch.policies.pairs import read_pair

    platform = read_platform(f"homogeneous:{n_procs}")
    workload = log_or_generated(log, platform)
    judged = JudgedLog(platform, workload, 0, workload.n_jobs, N_JOBS, "mean_bounded_slowdown", "sjf+easy")
    starts = np.linspace(0, workload.n_jobs - N_JOBS, 5).astype(int).tolist()

    def run(name: str) -> None:
        for start in starts:
            judged.outcomes(start, [read_pair(name)])

    seconds = time_in_turn({name: lambda name=name: run(name) for name in ("sjf+easy", "sjf+easy@geo")}, N_ROUNDS)
    report.add(f"sjf+easy, {len(starts)} windows of {N_JOBS:,} jobs", seconds["sjf+easy"])
    ratio = ratio_of_medians(seconds["sjf+easy@geo"], seconds["sjf+easy"])
    report.add("sjf+easy@geo, the same", seconds["sjf+easy@geo"], ratio=f"{ratio:.2f} x as long; wanted at most 3 x")

    envs = JobIndexVectorEnv(
        POPULATION, workload=workload, platform=platform, reference="sjf+easy", n_jobs=N_JOBS, n_windows=N_WINDOWS
    )
    envs.reset(seed=0)
    weights = np.random.default_rng(0).normal(0, 0.25, (POPULATION, 24))

    def judge() -> None:
        envs.step(weights)
        envs.step(weights)  # begins the next episode

    seconds = time_in_turn({"judge": judge}, 3)
    n = POPULATION * N_WINDOWS
    minute = [15_000 / n * one for one in seconds["judge"]]
    report.add(f"15,000 windows that judge weights, {usable_cores()} cores", minute, at_most=60.0)


if __name__ == "__main__":
    report_options = arguments(__doc__, rest="LOG [PROCESSORS]")
    words = report_options.rest
    compile_first()
    made = Report("Predictions and evolution")
    measure(made, words[0] if words else None, int(words[1]) if len(words) > 1 else N_PROCS)
    finish(made, report_options)
