"""The world of the DRL scheduler for GPU clusters: hand-solved seconds, its errors, its environment, its table."""

from __future__ import annotations

from pathlib import Path

import gymnasium
import numpy as np
import pytest

import hdrl.envs  # noqa: F401 (registers them)
from hdrl.base.errors import OptionsError, UnknownName, WorkloadError
from hdrl.compat.drl_gpu.env import GpuSecondsEnv
from hdrl.compat.drl_gpu.playing import ERRORS, play_baseline, read_cut_trace
from hdrl.settings.gpu.cluster.machine import NODE_DTYPE, GpuCluster, GpuType
from hdrl.settings.gpu.envs.making import gpu_cluster_vector
from hdrl.settings.gpu.loads.load import GpuLoad, new_jobs
from hdrl.settings.gpu.loads.synthetic import Poisson, poisson_load
from hdrl.settings.gpu.metrics import compute_metrics
from hdrl.trace.model import TaskState

# Two GPUs, four times as fast as the other two; mean speed is 2.5, so that speeds are 1.6 and 0.4.
SMALL = GpuCluster(
    "small", (GpuType("slow", 1.0), GpuType("fast", 4.0)), np.array([(0, 2, 0, 0), (1, 2, 0, 0)], dtype=NODE_DTYPE)
)


def load(*rows: tuple[float, float, int, float], **more: object) -> GpuLoad:
    """Return jobs given as arrival, run time, GPUs and priority."""
    jobs = new_jobs(len(rows))
    for job, (arrival_s, work, n_gpus, priority) in zip(jobs, rows, strict=True):
        job["arrival_s"], job["work"], job["n_gpus"], job["priority"] = arrival_s, work, n_gpus, priority
    return GpuLoad("small", jobs, origin={"file": "small.csv"}, **more)  # type: ignore[arg-type]


def without(*errors: str) -> list[str]:
    return [name for name in ERRORS if name not in errors]


def test_a_job_starts_a_second_after_it_arrives_and_one_in_each_second() -> None:
    two = load((0.0, 10.0, 1, 1.0), (0.0, 10.0, 1, 1.0))
    outcome = play_baseline(SMALL, two, "fcfs")
    assert (outcome.n_done, outcome.mean_jct_s, outcome.makespan_s) == (2, 11.5, 12.0)
    assert outcome.utilization == 20.0 / (4 * 12.0)
    prompt = play_baseline(SMALL, two, "fcfs", errors=without("one_start_per_second"))
    assert (prompt.mean_jct_s, prompt.makespan_s) == (10.0, 10.0)


def test_a_job_takes_as_long_as_the_slowest_of_its_gpus_without_that_error() -> None:
    errors = without("equal_speeds", "one_start_per_second", "one_type_fits")
    fast = play_baseline(SMALL, load((0.0, 16.0, 2, 1.0)), "fcfs", errors=errors)
    split = play_baseline(SMALL, load((0.0, 16.0, 3, 1.0)), "fcfs", errors=errors)
    assert (fast.makespan_s, split.makespan_s) == (pytest.approx(10.0), pytest.approx(40.0))


def test_baselines_leave_jobs_that_need_two_types_unless_that_error_is_off() -> None:
    wide = load((0.0, 10.0, 3, 1.0))
    assert play_baseline(SMALL, wide, "fcfs").n_done == 0
    assert play_baseline(SMALL, wide, "fcfs", errors=without("one_type_fits")).n_done == 1


def test_sjf_starves_behind_the_first_16_and_that_error_alone_is_why() -> None:
    starving = load(*((0.0, 100.0 + n, 1, 1.0) for n in range(17)), (0.0, 50.0, 1, 1.0))
    assert play_baseline(SMALL, starving, "sjf").n_done == 0
    assert play_baseline(SMALL, starving, "sjf", errors=without("first_16_alone")).n_done == 18
    assert play_baseline(SMALL, starving, "fcfs").n_done == 18


def test_fcfs_goes_by_priority_unless_that_error_is_off() -> None:
    jobs = load((0.0, 100.0, 2, 1.0), (0.0, 10.0, 2, 1.0), (1.0, 10.0, 2, 1.0), (2.0, 5.0, 2, 5.0))
    by_priority = play_baseline(SMALL, jobs, "fcfs").mean_jct_s
    by_arrival = play_baseline(SMALL, jobs, "fcfs", errors=without("priority_order")).mean_jct_s
    # Both pairs are busy from 1 s and 2 s on; the second is free again at 13 s, seen then. Ends: 101, 12, and
    # by priority 18 and 29, by arrival 23 and 29 (of the jobs that arrive at 1 s and 2 s).
    assert by_priority == np.mean([101.0, 12.0, 29.0 - 1.0, 18.0 - 2.0])
    assert by_arrival == np.mean([101.0, 12.0, 23.0 - 1.0, 29.0 - 2.0])


def test_unfinished_jobs_count_up_to_the_end_and_dates_from_the_first_on_without_those_errors() -> None:
    late = load((0.0, 10.0, 1, 1.0), (0.0, 1000.0, 1, 1.0))
    late.origin["first_date_s"] = 1000.0  # type: ignore[index]
    wrong = play_baseline(SMALL, late, "fcfs", until_s=1100.0)
    right = play_baseline(SMALL, late, "fcfs", until_s=1100.0, errors=without("finished_alone", "utilization_from_0"))
    assert (wrong.n_done, wrong.mean_jct_s, wrong.utilization) == (1, 11.0, 10.0 / (4 * 1011.0))
    assert (right.n_done, right.mean_jct_s, right.utilization) == (1, (11.0 + 100.0) / 2, 10.0 / (4 * 11.0))


def test_the_trace_holds_jobs_without_gpus_unless_that_error_is_off(tmp_path: Path) -> None:
    path = tmp_path / "cut.csv"
    path.write_text("arrival_time,runtime,gpus,priority\n100,5,0,1\n101,1,1,1\n102,7,2,1\n")
    assert read_cut_trace(path).jobs["n_gpus"].tolist() == [0, 2]
    assert read_cut_trace(path, errors=without("no_gpu_jobs")).jobs["n_gpus"].tolist() == [2]


def make(num_envs: int = 1, **arguments: object):
    jobs = load((0.0, 3.0, 2, 5.0), (0.0, 30000.0, 3, 2.5), (1.0, 2.0, 1, 0.5))
    given = {"machine": SMALL, "load": jobs, "n_jobs": "all", "compatibility": "drl-gpu", **arguments}
    return gymnasium.make_vec("hdrl/GpuCluster-v0", num_envs=num_envs, **given)


def test_an_agent_sees_does_and_gains_what_it_did_in_the_original() -> None:
    env = make()
    seen, info = env.reset(seed=0)
    assert (seen.shape, info["action_mask"].tolist()) == ((1, 66), [[1] * 17])
    assert seen[0].tolist() == [1.0] + [0.0] * 65  # what arrives at 0 is seen at 1
    seen, reward, *_ = env.step(np.array([3]))  # a place where there is no job
    assert seen[0, 1:5] == pytest.approx([1.0, 3.0 * 2 * 1e12 / 5e12, 0.5, 3.0 / 15000])
    assert seen[0, 5:9] == pytest.approx([0.5, 90000e12 / 5e12, 0.75, 1.0])
    assert seen[0, 65] == pytest.approx(2 / 200)
    assert reward[0] == pytest.approx(-0.1 - 0.05 * 2 / 1000 - 0.3 * 2)
    seen, reward, *_ = env.step(np.array([0]))
    assert seen[0, 0] == 0.5
    assert reward[0] == pytest.approx(1.5 * 0.5 - 0.05 * (2 + 1) / 1000 - 0.3 * 3)
    seen, reward, *_ = env.step(np.array([0]))  # three GPUs are not idle: nothing starts, without a penalty
    assert reward[0] == pytest.approx(1.5 * 0.5 - 0.05 * (3 + 2) / 1000 - 0.3 * 3)
    for _ in range(2):  # it started at 1 and ended at 4, which is in the second before 5
        seen, reward, *_ = env.step(np.array([16]))
    assert reward[0] == pytest.approx(50.0 * 5.0 - 0.05 * (5 + 4) / 1000 - 0.3 * 2)


def test_the_trace_of_an_episode_says_who_had_which_gpus() -> None:
    env = make(max_s=6).unwrapped
    env.reset(seed=0)
    for action in (16, 0, 1, 16, 16, 0):
        *_, truncated, _ = env.step(np.array([action]))
    assert truncated[0]
    trace = env.trace()
    assert [(one["task"], one["start_s"], one["end_s"]) for one in trace.stays] == [(0, 1, 4), (2, 2, 4), (1, 5, 6)]
    assert [TaskState(state).name for state in trace.tasks["state"]] == ["DONE", "RUNNING", "DONE"]
    # The fast GPUs, 2 and 3, are taken first; three GPUs are split.
    assert trace.stay_units.tolist() == [2, 3, 0, 2, 3, 0]
    numbers = compute_metrics(trace)
    assert numbers["n_finished"] == 2
    # Two GPUs for 3 s, one for 2 s, three for the last second of 6 s.
    assert numbers["utilization"] == pytest.approx((6 + 2 + 3) / (4 * 6))


def test_large_observations_are_a_switch_and_an_episode_is_cut_off() -> None:
    env = make(errors=without("large_observations"), max_s=4)
    env.reset(seed=0)
    ends = []
    for _ in range(4):
        seen, _, terminated, truncated, info = env.step(np.array([16]))
        assert env.single_observation_space.contains(seen[0])
        ends.append((bool(terminated[0]), bool(truncated[0])))
    assert ends == [(False, False)] * 3 + [(False, True)]
    assert info["results"]["n_finished"][0] == 0
    # No job ends within 4 s: their mean is that of all that arrived, at 0, 0 and 1 s.
    assert info["results"]["objective"][0] == pytest.approx((4 + 4 + 3) / 3)


def test_rows_do_what_single_environments_do_and_go_on_from_a_saved_state() -> None:
    batch = gpu_cluster_vector(3, compatibility="drl-gpu", n_jobs=40, max_s=500)
    one = gymnasium.make("hdrl/GpuCluster-v0", compatibility="drl-gpu", n_jobs=40, max_s=500)
    batch.reset(seed=4)
    one.reset(seed=6)
    draws = np.random.default_rng(0)
    for step in range(60):
        actions = draws.integers(0, 17, 3)
        if step == 30:
            saved = batch.state_dict()
        seen, rewards, *_ = batch.step(actions)
        alone, reward, *_ = one.step(int(actions[2]))
        np.testing.assert_array_equal([*seen[2], rewards[2]], [*alone, reward])
        if step == 30:
            played, first = actions, seen
    batch.load_state_dict(saved)
    np.testing.assert_array_equal(batch.step(played)[0], first)


def test_an_agent_that_is_asked_when_it_sees_something_else_does_the_same() -> None:
    pytest.importorskip("torch")
    from hdrl.agents.sac import SAC
    from hdrl.experiments.gpu_learned import DecideOnChange
    from hdrl.learn.evaluate import play

    env = GpuSecondsEnv(machine=SMALL, load=poisson_load(Poisson(jobs_per_s=0.05, max_gpus=3), 30, 0), max_s=1500)
    agent = SAC(env.observation_space, env.action_space)
    play(agent, env, seed=0)
    every_second = env.trace()
    asked = DecideOnChange(env)
    play(agent, asked, seed=0)
    assert every_second.stays.tobytes() == env.trace().stays.tobytes()
    assert every_second.end_s == env.trace().end_s
    asked.reset(seed=0)
    n_asked, has_ended = 0, False
    while not has_ended:
        _, _, terminated, truncated, _ = asked.step(16)
        n_asked, has_ended = n_asked + 1, terminated or truncated
    assert truncated
    assert n_asked <= 30 + 1, "only arrivals are seen"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"compatibility": "drl"}, "compatibility is 'drl'"),
        ({"compatibility": "drl-gpu", "errors": ["equal_speed"]}, "errors holds 'equal_speed'.*equal_speeds"),
        ({"compatibility": "drl-gpu", "max_running": 2}, "with compatibility 'drl-gpu' has no argument 'max_running'"),
        ({"errors": ["equal_speeds"]}, "without compatibility has no argument 'errors'"),
        ({"compatibility": "drl-gpu", "max_s": 0}, "max_s is 0"),
    ],
)
def test_nonsense_is_one_line(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(OptionsError, match=message):
        gpu_cluster_vector(1, **arguments)


def test_a_job_that_is_wider_than_the_cluster_is_refused() -> None:
    with pytest.raises(WorkloadError, match="job 0 asks for 5 GPUs, small has 4"):
        play_baseline(SMALL, load((0.0, 1.0, 5, 1.0)), "fcfs")


def test_an_unknown_baseline_is_told() -> None:
    with pytest.raises(UnknownName, match="first_fit"):
        play_baseline(SMALL, load((0.0, 1.0, 1, 1.0)), "best_fit")
