"""Whole experiments, from the options file to the finished folder, and the simulation within: time and memory."""

from __future__ import annotations

import sys
from pathlib import Path

from common.inputs import CONTENTION, MILLION, RICC, Inputs, prepared_inputs, write_repeated
from common.measure import LAUNCH, compile_first, ratio_of_medians, run_process, time_in_turn
from common.report import Report, arguments, finish

N_PROCESSES = 5
N_SIMULATIONS = 7
N_LARGE = 3
MIB_AT_MOST, MIB_AT_MOST_OF_A_MILLION = 400, 2048
IMPORTS = "import hdrl.experiment, hdrl.launcher.launch; from hdrl.batch import simulate"


def measure_processes(report: Report, inputs: Inputs) -> None:
    """Measure hdrl-launch from its start to its end."""
    empty_mib = run_process([sys.executable, "-c", IMPORTS]).peak_mib
    small = {
        "classic jobs, uncontended": inputs.classic,
        f"classic jobs, dates / {CONTENTION}": inputs.classic_contended,
        "shipped jobs, uncontended": inputs.shipped,
        f"shipped jobs, dates / {CONTENTION}": inputs.shipped_contended,
    }
    for index, (what, workload) in enumerate(small.items()):
        name = f"gaia, 10,000 {what}"
        measure_one(report, inputs, name, inputs.options(f"small_{index}", workload), N_PROCESSES, 0.4, empty_mib)
    if RICC.is_file():
        options = inputs.options("ricc", RICC, "ricc", nb_jobs=100_000)
        measure_one(report, inputs, "ricc, 100,000 jobs of the RICC log", options, N_LARGE, 6.0, empty_mib)
        million = inputs.folder / "million.swf"
        write_repeated(RICC, million, MILLION)
        options = inputs.options("million", million, "ricc")
        name = "ricc, a million jobs: the RICC log, repeated"
        measure_one(report, inputs, name, options, 1, 30.0, empty_mib, MIB_AT_MOST_OF_A_MILLION)
    else:
        report.notes.append("The RICC log is not there: neither 100,000 nor a million jobs were measured.")
    report.notes.append(f"Memory: the peak of the process less that of one that only imports ({empty_mib:.0f} MiB).")


def measure_one(
    report: Report,
    inputs: Inputs,
    name: str,
    options: Path,
    n: int,
    at_most_s: float,
    empty_mib: float,
    mib_at_most: float = MIB_AT_MOST,
) -> None:
    """Measure one experiment: wall-clock time, processor time, memory."""
    command = [*LAUNCH, str(options), "--quiet", "--out"]
    processes = [run_process([*command, str(inputs.folder / f"{options.stem}_{index}")]) for index in range(n)]
    report.add(f"{name}: whole process", [process.wall_s for process in processes], at_most=at_most_s)
    report.add(f"{name}: its processor time", [process.cpu_s for process in processes])
    memory = [process.peak_mib - empty_mib for process in processes]
    report.add(f"{name}: its memory", memory, "MiB", at_most=mib_at_most)


def measure_simulations(report: Report, inputs: Inputs) -> None:
    """Measure the simulation alone, in this process, and compare platforms."""
    from hdrl.batch import read_pair
    from hdrl.settings.batch.platform import read_platform
    from hdrl.settings.batch.simulation import EmbeddedSimulator
    from hdrl.settings.batch.workload import read_workload

    pair = read_pair("shortest-high_gflops")
    workloads = {
        "classic jobs, uncontended": inputs.classic,
        f"classic jobs, dates / {CONTENTION}": inputs.classic_contended,
        "shipped jobs, uncontended": inputs.shipped,
        f"shipped jobs, dates / {CONTENTION}": inputs.shipped_contended,
    }
    machines = {name: read_platform(name) for name in ("gaia", "mc2")}
    for what, file in workloads.items():
        simulators = {
            name: EmbeddedSimulator(machine, read_workload(file, machine, seed=2009))
            for name, machine in machines.items()
        }
        runs = {name: lambda s=one: s.run_pair(pair.job_key, pair.core_key) for name, one in simulators.items()}
        time_in_turn(runs, 1)  # loads what is compiled, and lets the logs grow to their size
        seconds = time_in_turn(runs, N_SIMULATIONS)
        n_steps = {name: one.trace.info["engine_steps"] for name, one in simulators.items()}
        for name, times in seconds.items():
            speed = f"{n_steps[name] / min(times) / 1e6:.2f} M engine steps/s"
            at_most = 0.2 if name == "gaia" else None
            report.add(f"{name}, 10,000 {what}: simulation alone", times, at_most=at_most, ratio=speed)
        slower = ratio_of_medians(seconds["mc2"], seconds["gaia"])
        report.add(f"mc2 : gaia, 10,000 {what}", [slower], "x", at_most=3)
    report.notes.append("gaia has 2,280 cores and mc2 10,002; the jobs are the same. Energy is always accounted for.")


def main() -> None:
    """Measure, print, and keep the numbers if asked to."""
    report_options = arguments(__doc__)
    report = Report("Experiments under shortest-high_gflops")
    compile_first()
    with prepared_inputs() as inputs:
        # Processes first: a child's peak of memory counts what its parent held when it was made.
        measure_processes(report, inputs)
        measure_simulations(report, inputs)
    finish(report, report_options)


if __name__ == "__main__":
    main()
