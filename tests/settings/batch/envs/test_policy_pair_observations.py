"""What an agent that chooses policy pairs sees, beside the same values worked out from the simulator's view."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import hdrl
from hdrl.settings.batch.envs.policy_pair import PolicyPairEnv
from hdrl.settings.batch.envs.policy_pair_arguments import ATTRIBUTES, observation_names
from hdrl.settings.batch.kernel import entries
from hdrl.settings.batch.platform import Platform
from hdrl.settings.batch.policies import read_pair
from hdrl.settings.batch.simulation import EmbeddedSimulator, News, View
from hdrl.settings.batch.workload import Workload, read_batsim_json
from hdrl.testing import JobSpec, Node, Processor, check_worlds, small_platform, small_workload

HDEEPRM = "hdeeprm-0.3.1"
RUNS = Path(__file__).parents[5] / "shared" / "batsim-runs"


def platform_values(platform: Platform, view: View, detail: str, *, compatible: bool) -> list[float]:
    """Return what is seen of the platform, walking its tree as HDeepRM does."""
    owners = np.full(platform.n_cores, -1)
    for job in view.running.tolist():
        owners[view._state.cores["owner"] == job] = job
    speed = {0: 1.0, 1: 0.75, 2: 0.0, 3: 0.0}
    power = {0: 1.0, 1: 1.0, 2: 0.15, 3: 0.05}
    pstate, memory, bandwidth = view.pstate, view.free_memory_mib, view.free_bandwidth_gbps
    values: list[float] = []
    for node in range(platform.n_nodes):
        values.append(memory[node] / platform.memory_mib[node])
        for processor in np.flatnonzero(platform.node_of_processor == node):
            values.append(max(0.0, bandwidth[processor]) / platform.bandwidth_gbps[processor])
            if detail == "normal":
                for core in np.flatnonzero(platform.processor_of_core == processor):
                    job = int(owners[core])
                    left = 0.0 if job < 0 else 1.0 if compatible else view.remaining(job)
                    values += [speed[int(pstate[core])], power[int(pstate[core])], left]
    return values


def queue_values(workload: Workload, waiting: NDArray[np.int64], limits: list[float], *, clip: bool) -> list[float]:
    values = []
    for name, limit in zip(ATTRIBUTES, limits, strict=True):
        column = workload.jobs[name][waiting].astype(float)
        five = [np.min(column), np.percentile(column, 25), np.median(column), np.percentile(column, 75), np.max(column)]
        values += [0.0 if limit == 0 else float(value) / limit for value in five]
    return np.clip(values, 0, 1).tolist() if clip else values


def variation(before: int, now: int, sensitivity: float) -> float:
    if before == 0:
        return 1.0
    return float(np.clip(((now - before) / min(now, before) + sensitivity) / (2 * sensitivity), 0, 1))


def watch(
    platform: Platform, workload: Workload, policy: str, detail: str, sensitivity: float, compatibility: str | None
) -> list[NDArray[np.float32]]:
    """Return the observations at all decision points under a policy, made in Python."""
    pair = read_pair(policy)
    compatible = compatibility is not None
    columns = [workload.jobs[name].astype(float) for name in ATTRIBUTES]
    limits = [float(np.percentile(column, 99) if compatible else column.max()) for column in columns]
    simulator = EmbeddedSimulator(platform, workload, compatibility=compatibility)
    seen, before, news = [], 0, False
    view = simulator.reset()
    while not view.is_over:
        news |= any(kind in (News.JOB_SUBMITTED, News.JOB_COMPLETED) for kind, _ in view.news)
        waiting = view.waiting
        if news and len(waiting):
            values = [] if detail == "minimal" else platform_values(platform, view, detail, compatible=compatible)
            values += queue_values(workload, waiting, limits, clip=not compatible)
            seen.append(np.array([*values, variation(before, len(waiting), sensitivity)], dtype=np.float32))
            before, news = len(waiting), False
            entries.schedule_pair(simulator._borrowed, pair.job_key, pair.core_key)
        view = simulator.step()
    return seen


def observed(env: PolicyPairEnv, action: int) -> list[NDArray[np.float32]]:
    observation, _ = env.reset(seed=0)
    seen, ended = [], False
    while not ended:
        seen.append(observation)
        observation, _, ended, _, _ = env.step(action)
    return seen


def compare(
    platform: Platform, workload: Workload, policy: str, detail: str, compatibility: str | None = None
) -> list[NDArray[np.float32]]:
    env = PolicyPairEnv(
        platform=platform,
        workload=workload,
        actions=[policy],
        observation=detail,
        objective="makespan",
        queue_sensitivity=0.3,
        compatibility=compatibility,
    )
    found = observed(env, 0)
    expected = watch(platform, workload, policy, detail, 0.3, compatibility)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=3e-7, atol=1e-7)
    return found


@pytest.mark.parametrize("detail", ["normal", "small", "minimal"])
@pytest.mark.parametrize("name", ["memory and bandwidth", "same dates", "kinds of jobs"])
def test_worlds(name: str, detail: str) -> None:
    world = check_worlds()[name]
    compare(world.platform, world.workload, "shortest-high_cores", detail)


def test_gaia() -> None:
    platform = hdrl.read_platform("gaia")
    seen = compare(platform, hdrl.read_workload("lublin_gaia_1000", platform, n_jobs=25), "smallest-low_power", "small")
    assert max(one.max() for one in seen) <= 1.0
    assert len({one.tobytes() for one in seen}) > 10


@pytest.mark.skipif(not RUNS.is_dir(), reason="the recorded runs are not beside the checkout")
@pytest.mark.parametrize("run", ["hdeeprm_learning4_50jobs", "hdeeprm_learning4_2jobs"])
def test_hdeeprms_values_on_a_recorded_run(run: str) -> None:
    platform = hdrl.read_platform("learning", rules=hdrl.settings.batch.platform.pstate_rules(compatibility=HDEEPRM))
    workload = read_batsim_json(RUNS / run / "workload.json")
    seen = compare(platform, workload, "shortest-high_mem_bw", "normal", HDEEPRM)
    assert all(one[-21:].min() >= 0 for one in seen)


def test_hdeeprms_fractions_exceed_one() -> None:
    rules = hdrl.settings.batch.platform.pstate_rules(compatibility=HDEEPRM)
    platform = small_platform(Node((Processor(2),)), rules=rules)
    workload = small_workload(*(JobSpec(float(k), requested_time_s=1000.0 if k == 3 else 1.0) for k in range(4)))
    env = PolicyPairEnv(
        platform=platform,
        workload=workload,
        actions=["first-high_gflops"],
        observation="minimal",
        compatibility=HDEEPRM,
    )
    seen = observed(env, 0)
    assert max(one[4] for one in seen) == pytest.approx(1000 / np.percentile([1, 1, 1, 1000], 99), rel=1e-6)
    assert all(env.observation_space.contains(one) for one in seen)


# ------------------------------------------------------------------ by hand


def test_learning_by_hand() -> None:
    # Asked for: 5 s at 4.2 Gflop/s. Both jobs on the second processor (4.4 Gflop/s, 32 GB/s) take 48 GB/s: 75 %.
    platform = hdrl.read_platform("learning")
    workload = hdrl.read_workload("learning", platform, custom=True)
    jobs = workload.jobs.copy()
    jobs["submit_s"] = [0.0, 2.0]
    later = hdrl.Workload(**{name: getattr(workload, name) for name in workload.__dataclass_fields__} | {"jobs": jobs})
    env = PolicyPairEnv(platform=platform, workload=later, actions=["first-high_gflops"])
    first, _ = env.reset(seed=0)
    names = observation_names(platform, "normal")
    assert first.shape == (36,) == (len(names),)
    by_name = dict(zip(names, first.tolist(), strict=True))
    assert by_name["node 0: free memory"] == 1.0
    assert by_name["core 0: power"] == pytest.approx(0.05)
    assert by_name["waiting jobs: median of cores"] == 1.0
    assert by_name["queue: change of its length"] == 1.0
    second, *_ = env.step(0)
    by_name = dict(zip(names, second.tolist(), strict=True))
    assert by_name["processor 1: free memory bandwidth"] == pytest.approx(8 / 32)
    assert by_name["core 2: speed"] == 1.0
    assert by_name["core 2: work left"] == pytest.approx(1 - 2 * 4.4 / 21, rel=1e-5)
    assert by_name["core 3: power"] == pytest.approx(0.15)
    assert by_name["core 3: work left"] == 0.0
    assert by_name["queue: change of its length"] == 0.5


def test_after_the_end_the_queue_is_empty() -> None:
    world = check_worlds()["one job"]
    env = PolicyPairEnv(platform=world.platform, workload=world.workload, observation="minimal")
    env.reset(seed=0)
    last, _, ended, _, _ = env.step(0)
    assert ended
    assert last.tolist() == [0.0] * 21


@pytest.mark.parametrize(
    ("platform", "sizes"), [("learning", (36, 24, 21)), ("gaia", (7356, 516, 21)), ("mc2", (32216, 2210, 21))]
)
def test_sizes(platform: str, sizes: tuple[int, ...]) -> None:
    machine = hdrl.read_platform(platform)
    details = ("normal", "small", "minimal")
    assert tuple(len(observation_names(machine, detail)) for detail in details) == sizes


def test_contended_cores_of_other_contention_models() -> None:
    world = check_worlds()["proportional contention"]
    env = PolicyPairEnv(platform=world.platform, workload=world.workload, actions=["first-high_gflops"])
    names = observation_names(world.platform, "normal")
    speeds: set[float] = set()
    for one in observed(env, 0):
        speeds |= {round(float(value), 4) for value, name in zip(one, names, strict=True) if name.endswith("speed")}
    assert speeds <= {round(level / 20, 4) for level in range(21)}
    assert len(speeds) > 3


def test_a_workload_without_memory_is_seen_as_nothing() -> None:
    values: Any = small_workload(JobSpec(), JobSpec())
    env = PolicyPairEnv(platform=small_platform(Node()), workload=values, observation="minimal")
    first, _ = env.reset(seed=0)
    assert first[10:20].tolist() == [0.0] * 10
