"""Speed of the simulator of pipelines: instances per second under EDF, and decisions per second of an environment."""

from __future__ import annotations

import time

import numpy as np
from common.report import Report, arguments, finish

from hdrl.compiled.borrowed import Borrowed
from hdrl.settings.pipelines.envs.env import PipelinesVectorEnv
from hdrl.settings.pipelines.inputs import load_of
from hdrl.settings.pipelines.kernel import entries
from hdrl.settings.pipelines.loads.pipeline import NEVER, Kernel, Pipeline
from hdrl.settings.pipelines.loads.readers import PipelineSet
from hdrl.settings.pipelines.loads.releases import Context
from hdrl.settings.pipelines.machine import read_machine
from hdrl.settings.pipelines.simulation.policies import RULES, one_state

N_TASKS, N_UNITS, LENGTH_US = 20, 4, 100_000_000
SIMSO_PER_S = 5_800
"""Instances of 12 such tasks that SimSo simulates in a second, at most."""


def instances_per_s() -> float:
    """Return how many instances of independent tasks are simulated in a second under EDF on four units."""
    random = np.random.default_rng(1)
    periods = tuple(int(one) for one in random.choice([5_000, 10_000, 20_000, 50_000], N_TASKS))
    pipelines = tuple(Pipeline(f"t{k}", (Kernel("k", int(0.15 * period), NEVER),)) for k, period in enumerate(periods))
    found = PipelineSet("independent", pipelines, tuple((period,) for period in periods))
    load = load_of(found, [Context(periods, LENGTH_US)])
    borrowed = Borrowed(one_state(read_machine(f"{N_UNITS}cpu"), load))
    entries.run_policy(borrowed, RULES["edf"].codes)
    best = min(_seconds(lambda: entries.run_policy(borrowed, RULES["edf"].codes)) for _ in range(5))
    return load.n_items / best


def decisions_per_s(n_envs: int = 64, n_steps: int = 2000, **given: object) -> float:
    """Return how many decisions a batch on one core takes in a second, observations and masks included."""
    env = PipelinesVectorEnv(n_envs, copy=False, **given)
    _, info = env.reset(seed=0)

    def play() -> None:
        nonlocal info
        for _ in range(n_steps):
            info = env.step(info["action_mask"].argmax(axis=1))[4]

    play()
    return n_envs * n_steps / min(_seconds(play) for _ in range(3))


def _seconds(call: object) -> float:
    begin = time.perf_counter()
    call()  # type: ignore[operator]
    return time.perf_counter() - begin


def main() -> None:
    """Measure, print, and keep the numbers if asked to."""
    report_options = arguments(__doc__)
    report = Report("Periodic pipelines")
    what = f"EDF, {N_TASKS} independent tasks on {N_UNITS} units, one simulation: instances"
    report.add(what, [instances_per_s()], "/s", at_least=200 * SIMSO_PER_S)
    what = "64 environments, rows of 8 kernels x 2 units: decisions, observations included"
    report.add(what, [decisions_per_s()], "/s", at_least=300_000)
    report.add("the same in rlschedsim's form", [decisions_per_s(compatibility="rlschedsim")], "/s")
    report.notes.append("On one core. SimSo simulates 4,600 to 5,800 instances a second of 12 such tasks.")
    finish(report, report_options)


if __name__ == "__main__":
    main()
