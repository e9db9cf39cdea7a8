"""Steps of the environments per second, without a policy: random legal actions, chosen outside of what is measured."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from common.inputs import prepared_inputs
from common.measure import compile_first
from common.report import Report, arguments, finish

N_ENVS = 64
N_ROUNDS = 5
SECONDS_EACH = 0.5
N_WARM_UP = 300
"""Steps before measuring: so many that episodes are at different places, and queues as long as they get."""

MANY_ENVS = 512
JOB_PICK_AT_LEAST = 1.5e6
POLICY_PAIR_AT_LEAST = 0.3e6
N_PAIR_JOBS = 1000
"""Jobs in an episode of PolicyPair."""


def random_legal(masks: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw a legal action for each row."""
    return np.where(masks, rng.random(masks.shape), -1.0).argmax(axis=1)


def steps_per_second(env: Any, rng: np.random.Generator) -> float:
    """Return how many steps of single environments a batch makes per second of `step`."""
    spent_s, n_steps = 0.0, 0
    while spent_s < SECONDS_EACH:
        actions = random_legal(env.action_masks(), rng)
        start_s = time.perf_counter()
        env.step(actions)
        spent_s += time.perf_counter() - start_s
        n_steps += env.num_envs
    return n_steps / spent_s


def measure_in_turn(envs: Mapping[str, Any]) -> dict[str, list[float]]:
    """Return the steps per second of each environment, measured in turn."""
    rng = np.random.default_rng(0)
    for env in envs.values():
        env.reset(seed=0)
        for _ in range(N_WARM_UP):
            env.step(random_legal(env.action_masks(), rng))
    rates: dict[str, list[float]] = {name: [] for name in envs}
    for _ in range(N_ROUNDS):
        for name, env in envs.items():
            rates[name].append(steps_per_second(env, rng))
    return rates


def add_rates(report: Report, rates: Mapping[str, list[float]], at_least: Mapping[str, float]) -> None:
    """Add a row for each environment, compared with the first one."""
    reference = next(iter(rates.values()))
    for index, (name, values) in enumerate(rates.items()):
        ratio = f"{np.median(values) / np.median(reference):.2f} x the first" if index else ""
        report.add(name, values, "/s", at_least=at_least.get(name), ratio=ratio)


def measure_job_pick(report: Report) -> None:
    """Measure JobPick: windows of 256 jobs of the Lublin-Feitelson model, 128 rows of 8 columns, masks included."""
    from hdrl.batch import JobPickVectorEnv

    common: dict[str, Any] = {"n_procs": 256, "copy": False}
    blocking = common | {"commitment": "block", "backfilling": "none"}
    main = f"JobPick, {N_ENVS} environments, blocking"
    envs = {
        main: JobPickVectorEnv.of(N_ENVS, **blocking),
        f"{main}, 2 threads": JobPickVectorEnv.of(N_ENVS, n_threads=2, **blocking),
        f"{main}, RLScheduler's backfilling": JobPickVectorEnv.of(
            N_ENVS, **common, commitment="block", backfilling="rlscheduler"
        ),
        f"JobPick, {N_ENVS} environments, proper EASY": JobPickVectorEnv.of(N_ENVS, **common),
        f"JobPick, {N_ENVS} environments, proper EASY, all further features": JobPickVectorEnv.of(
            N_ENVS, **common, features=("profile", "running", "queue_length", "earliest_start", "log_requested_time")
        ),
        f"JobPick, {MANY_ENVS} environments, blocking, 2 threads": JobPickVectorEnv.of(
            MANY_ENVS, n_threads=2, **blocking
        ),
        f"{main}, copies": JobPickVectorEnv.of(N_ENVS, **(blocking | {"copy": True})),
        "JobPick, 1 environment, blocking": JobPickVectorEnv.of(1, **blocking),
    }
    add_rates(report, measure_in_turn(envs), {main: JOB_PICK_AT_LEAST})
    report.notes.append(
        "JobPick: 4,096 jobs of the Lublin-Feitelson model on 256 processors, episodes of 256; 128 rows of 8 columns"
        " and the mask are written in every step."
    )
    for env in envs.values():
        env.close()


def measure_policy_pair(report: Report) -> None:
    """Measure PolicyPair on gaia: small observation, random pairs out of all 36, windows of classic jobs."""
    from hdrl import read_platform, read_workload
    from hdrl.batch import PolicyPairVectorEnv
    from hdrl.settings.batch.envs.policy_pair import warm_up

    warm_up(print)
    platform = read_platform("gaia")
    with prepared_inputs() as inputs:
        jobs = read_workload(inputs.classic, platform)
    common: dict[str, Any] = {
        "platform": platform,
        "workload": jobs,
        "n_jobs": N_PAIR_JOBS,
        "observation": "small",
        "void": False,
        "copy": False,
    }
    one = ["shortest-high_gflops"]
    main = f"PolicyPair on gaia, {N_ENVS} environments, 2 threads"
    envs = {
        main: PolicyPairVectorEnv(N_ENVS, n_threads=2, **common),
        f"PolicyPair on gaia, {N_ENVS} environments, 1 thread": PolicyPairVectorEnv(N_ENVS, **common),
        f"{main}, always {one[0]}": PolicyPairVectorEnv(N_ENVS, n_threads=2, actions=one, **common),
        f"{main}, normal observation": PolicyPairVectorEnv(N_ENVS, n_threads=2, **(common | {"observation": "normal"})),
        f"{main}, without energy": PolicyPairVectorEnv(N_ENVS, n_threads=2, energy=False, **common),
        "PolicyPair on gaia, 1 environment": PolicyPairVectorEnv(1, **common),
    }
    add_rates(report, measure_in_turn(envs), {main: POLICY_PAIR_AT_LEAST})
    report.notes.append(
        f"PolicyPair: windows of {N_PAIR_JOBS:,} of the classic jobs on gaia (2,280 cores, energy and contention as in"
        " any simulation); a step simulates until jobs come or end."
    )
    for env in envs.values():
        env.close()


def main() -> None:
    """Measure, print, and keep the numbers if asked to."""
    report_options = arguments(__doc__)
    report = Report("Environments: steps per second without a policy")
    compile_first()
    measure_job_pick(report)
    measure_policy_pair(report)
    finish(report, report_options)


if __name__ == "__main__":
    main()
