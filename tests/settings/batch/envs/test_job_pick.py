"""JobPick: RLScheduler's table, hdrl's own EASY, observations and rewards by hand, what users get wrong."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import hdrl
from hdrl.base.errors import HdrlError
from hdrl.envs.episodes import RLSCHEDULER_N_JOBS, RLSCHEDULER_STARTS, Window
from hdrl.settings.batch.envs.job_pick import JobPickEnv, JobPickVectorEnv
from hdrl.settings.batch.envs.job_pick_options import FEATURES, OBJECTIVES
from hdrl.settings.batch.identical_cores import entries
from hdrl.settings.batch.workload import lublin_log, read_swf, workload_from_swf
from hdrl.testing import JobSpec, Node, Processor, check_trace, small_platform, small_workload, trace_differences

LUBLIN = Path(__file__).parents[5] / "shared" / "traces" / "swf" / "lublin_256.swf.gz"
needs_lublin = pytest.mark.skipif(not LUBLIN.is_file(), reason="the Lublin-1 log is not beside the checkout")

CAP = 1 - 1e-5

SWF = """\
; MaxProcs: 4
1 100 -1 10 3 -1 -1 3 20 -1 1 7 -1 2 1 1 -1 -1
2 110 -1 40 4 -1 -1 4 40 -1 1 14 -1 4 1 1 -1 -1
3 4420 -1 5 1 -1 -1 1 5 -1 1 -1 -1 1 1 1 -1 -1
4 4420 -1 10 2 -1 -1 2 10 -1 1 -1 -1 1 1 1 -1 -1
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "small.swf"
    path.write_text(SWF)
    return path


def ten_sequences(**arguments: Any) -> JobPickVectorEnv:
    common = {"workload": LUBLIN, "n_jobs": RLSCHEDULER_N_JOBS, "start": RLSCHEDULER_STARTS}
    return JobPickVectorEnv.of(10, **(common | arguments))


# ------------------------------------------------------------------ known numbers


@needs_lublin
@pytest.mark.parametrize(
    ("backfilling", "expected"),
    [
        ("none", {"fcfs": 7273.77, "wfp3": 19753.53, "unicef": 22274.74, "sjf": 277.35, "f1": 258.37}),
        ("rlscheduler", {"fcfs": 235.82, "wfp3": 133.87, "unicef": 307.23, "sjf": 73.31, "f1": 75.07}),
    ],
)
def test_rlschedulers_table_is_reproduced_to_the_printed_digit(backfilling: str, expected: dict[str, float]) -> None:
    env = ten_sequences(compatibility="rlscheduler", backfilling=backfilling)
    found = env.run_priorities(list(expected))
    assert {name: round(float(values["mean_bounded_slowdown"].mean()), 2) for name, values in found.items()} == expected


@needs_lublin
def test_the_right_formulas_under_the_same_protocol() -> None:
    # Blocking without the mode: dates from 0 on (in the mode: as in the log) and simultaneous events at once.
    expected = {"none": {"wfp3": 337, "unicef": 382}, "rlscheduler": {"wfp3": 126.5, "unicef": 103.1}}
    for backfilling, means in expected.items():
        env = ten_sequences(commitment="block", backfilling=backfilling, shift=False)
        found = env.run_priorities(list(means))
        for name, mean in means.items():
            assert found[name]["mean_bounded_slowdown"].mean() == pytest.approx(mean, rel=0.005)


@needs_lublin
def test_proper_easy_on_the_ten_sequences() -> None:
    assert ten_sequences(shift=False).run_priorities("fcfs")["fcfs"]["mean_bounded_slowdown"].mean() == pytest.approx(
        271.4, abs=0.05
    )
    sjbf = ten_sequences(backfilling="easy_sjbf", shift=False).run_priorities("f4")
    assert sjbf["f4"]["mean_bounded_slowdown"].mean() == pytest.approx(28.9, abs=0.06)


@needs_lublin
def test_playing_the_first_row_is_first_come_first_served() -> None:
    env = ten_sequences(compatibility="rlscheduler", backfilling="rlscheduler", autoreset_mode="SameStep")
    env.reset(seed=0, options={"episode": np.arange(10)})
    found = np.full(10, np.nan)
    while np.isnan(found).any():
        info = env.step(np.zeros(10, dtype=int))[4].get("final_info", {})
        for row in np.flatnonzero(info.get("_results", [])):
            found[row] = info["results"]["objective"][row]
    assert found.mean() == pytest.approx(235.82, abs=0.005)
    assert np.array_equal(found, env.run_priorities("fcfs")["fcfs"]["mean_bounded_slowdown"])


# ------------------------------------------------------------------ hdrl's own simulator


@pytest.mark.parametrize("backfilling", ["none", "easy", "easy_sjbf", "easy_priority"])
def test_a_priority_gives_the_schedule_of_the_embedded_simulator(backfilling: str) -> None:
    # Dates without coincidences: Batsim tells simultaneous events one after the other, the pool looks at all of them.
    platform = hdrl.read_platform("homogeneous:64")
    log = lublin_log(600, 64, seed=3, load=1.1)
    rng, rows = np.random.default_rng(5), log.rows.copy()
    for name in ("submit_s", "run_s", "requested_s"):
        rows[name] += np.round(rng.uniform(0.0, 0.9, len(rows)), 4)
    rows["requested_s"] = np.maximum(rows["requested_s"], rows["run_s"])
    workload = workload_from_swf(replace(log, rows=rows), platform, bandwidth="none")
    env = JobPickVectorEnv.of(1, workload=workload, platform=platform, n_jobs=300, backfilling=backfilling)
    for start in (0, 250):
        window = workload.window(start, 300, shift=False)
        for name in ("fcfs", "sjf", "f4", "wfp3"):
            trace = hdrl.simulate(
                platform, window, name + {"none": ""}.get(backfilling, f"+{backfilling}"), energy=False
            )
            found = env.run_priorities(name, [Window(0, start, 300)])[name]
            metrics = hdrl.compute_metrics(trace)
            for objective in OBJECTIVES:
                assert found[objective][0] == pytest.approx(metrics[objective], rel=1e-6), (name, objective)


@needs_lublin
@pytest.mark.parametrize("policy", ["f4+easy_sjbf", "sjf+easy", "wfp3+easy_priority", "f4"])
def test_start_dates_on_lublin_1_are_those_of_the_embedded_simulator(policy: str) -> None:
    priority, _, backfilling = policy.partition("+")
    platform = hdrl.read_platform("homogeneous:256")
    log, rng = read_swf(LUBLIN), np.random.default_rng(1)
    rows = log.rows.copy()
    for name in ("submit_s", "run_s"):
        rows[name] += np.round(rng.uniform(0.0, 0.9, len(rows)), 4)
    workload = workload_from_swf(replace(log, rows=rows), platform, bandwidth="none", shift=False)
    env = JobPickVectorEnv.of(
        2,
        workload=workload,
        platform=platform,
        n_jobs=RLSCHEDULER_N_JOBS,
        start=RLSCHEDULER_STARTS[:2],
        backfilling=backfilling or "none",
        order=priority,
        max_jobs=1024,
        autoreset_mode="Disabled",
    )
    # The waiting jobs are shown in the order of the priority: the first row is its choice, the first legal one too.
    _, info = env.reset(seed=0, options={"episode": np.arange(2)})
    over = np.zeros(2, dtype=bool)
    traces: list[Any] = [None, None]
    while not over.all():
        row = int(np.argmin(over))
        _, _, over, _, info = env.step(info["action_mask"].argmax(axis=1)) if not over.any() else _one(env, info, over)
        for row in np.flatnonzero(over):
            traces[row] = traces[row] or env.trace(int(row))
    for row, start in enumerate(RLSCHEDULER_STARTS[:2]):
        reference = hdrl.simulate(platform, workload.window(start, 1024, shift=False), policy, energy=False)
        assert np.abs(traces[row].records["start_s"] - reference.records["start_s"]).max() < 1e-6


def _one(env: JobPickVectorEnv, info: dict[str, Any], over: np.ndarray) -> Any:
    """Go on with the rows that are not over: the others begin anew, and do not matter."""
    env.reset(options={"reset_mask": over})
    observations, rewards, ended, truncated, info = env.step(env.action_masks().argmax(axis=1))
    return observations, rewards, ended | over, truncated, info


# ------------------------------------------------------------------ what is seen


def test_the_observation_by_hand(log: Path) -> None:
    as_rlscheduler = {"commitment": "block", "backfilling": "none", "scales": "largest"}
    env = JobPickEnv(workload=log, n_jobs="all", max_jobs=3, shift=False, **as_rlscheduler)
    observation, info = env.reset(seed=0)
    empty = [0, 1, 1, 1, 1, 1, 1, 0]
    first = [0, 20 / 40, 3 / 4, 1, 7 / 14, 1, 2 / 4, CAP]
    np.testing.assert_allclose(observation, [first, empty, empty], rtol=1e-6)
    assert info["action_mask"].tolist() == [1, 0, 0]
    observation = env.step(0)[0]  # at 110, when job 0 has just ended
    np.testing.assert_allclose(observation[0], [0, CAP, CAP, 1, CAP, 1, CAP, CAP], rtol=1e-6)
    observation, _, _, _, info = env.step(0)  # job 1 starts at 110, jobs 2 and 3 come at 4420
    third, fourth = [0, 5 / 40, 1 / 4, 1, 1, 1, 1 / 4, CAP], [0, 10 / 40, 2 / 4, 1, 1, 1, 1 / 4, CAP]
    np.testing.assert_allclose(observation, [third, fourth, empty], rtol=1e-6)
    assert info["action_mask"].tolist() == [1, 1, 0]
    observation, _, _, _, info = env.step(1)
    assert info["action_mask"].tolist() == [1, 0, 0]
    observation, reward, terminated, _, info = env.step(0)
    assert terminated
    assert observation.tolist() == [empty, empty, empty]
    assert reward == pytest.approx(-(1 + (0 + 40) / 40 + 1 + 1) / 4)
    assert info["action_mask"].tolist() == [1, 0, 0]


def test_fixed_scales_by_hand(log: Path) -> None:
    env = JobPickEnv(workload=log, n_jobs="all", max_jobs=1, features=["log_requested_time"])
    observation, _ = env.reset(seed=0)
    log_s = np.log10(1 + 20) / 7
    np.testing.assert_allclose(observation, [[0, 20 / 3620, 3 / 4, 1, 7 / 107, 1, 2 / 102, CAP, log_s]], rtol=1e-6)


def test_waiting_shows_in_twelve_hours(log: Path) -> None:
    env = JobPickEnv(workload=log, n_jobs="all", max_jobs=2, commitment="block", backfilling="none", skip=True)
    env.reset(seed=0)
    observation, _, _, _, info = env.step(2)  # nothing is started until job 1 comes at 10
    assert info["action_mask"].tolist() == [1, 1, 1]
    assert observation[:, 0].tolist() == pytest.approx([10 / 43200, 0])
    observation = env.step(2)[0]  # until jobs 2 and 3 come at 4320: of four waiting jobs, two are seen
    assert observation[:, 0].tolist() == pytest.approx([4320 / 43200, 4310 / 43200], rel=1e-6)
    with pytest.raises(HdrlError, match="action 2 is illegal here, legal: 0, 1"):
        env.step(2)  # nothing will ever happen


def test_episodes_of_drawn_lengths_end_with_their_jobs() -> None:
    env = JobPickVectorEnv.of(3, n_procs=48, n_jobs=(6, 15), max_jobs=4)
    _, info = env.reset(seed=3)
    lengths = []
    for _ in range(60):
        _, _, ended, _, info = env.step(np.argmax(info["action_mask"], axis=1))
        for row in np.flatnonzero(ended).tolist():
            trace = env.trace(row)
            assert (trace.records["run_s"] >= 0).all()
            lengths.append(trace.workload.n_jobs)
    assert len(set(lengths)) > 3
    assert set(lengths) <= set(range(6, 16))


@pytest.mark.parametrize("max_jobs", [4, 40])
@pytest.mark.parametrize("order", ["fcfs", "sjf", "wfp3"])
@pytest.mark.parametrize("backfilling", ["none", "easy", "easy_priority"])
def test_what_is_not_written_anew_is_still_right(max_jobs: int, order: str, backfilling: str) -> None:
    env = JobPickVectorEnv.of(
        3, n_procs=48, n_jobs=50, max_jobs=max_jobs, order=order, backfilling=backfilling, features=["free_processors"]
    )
    env.reset(seed=4)
    pool, rng = env._pool, np.random.default_rng(0)
    for _ in range(150):
        env.step(np.where(env.action_masks(), rng.random((3, max_jobs)), -1).argmax(axis=1))
        for row in range(3):
            s = pool.scalars[row, 0]
            jobs = pool.waiting[row, : min(s["n_waiting"], max_jobs)]
            expected = np.zeros((max_jobs, 9), dtype=np.float32)
            expected[:, 1:7] = 1
            expected[: len(jobs), :8] = pool.templates[jobs]
            expected[: len(jobs), 0] = np.minimum((s["message_s"] - pool.jobs["submit_s"][jobs]) / 43200, CAP)
            expected[: len(jobs), 7] = np.where(pool.jobs["n_requested"][jobs] <= s["n_free"], CAP, 1e-5)
            expected[: len(jobs), 8] = s["n_free"] / 48
            np.testing.assert_allclose(env._observations[row], expected, rtol=1e-6)


def test_further_features_by_hand(log: Path) -> None:
    env = JobPickEnv(
        workload=log, n_jobs="all", max_jobs=2, commitment="block", backfilling="easy_priority", features=list(FEATURES)
    )
    columns = np.cumsum([8] + [len(codes) for codes in FEATURES.values()])
    at = dict(zip(FEATURES, columns.tolist(), strict=False))
    assert env.observation_space.shape == (2, columns[-1])
    env.reset(seed=0)
    observation, _, terminated, _, _ = env.step(0)
    assert not terminated
    # Job 0 holds 3 of 4 processors at 10; its user expects 20 s: 10 s more (it ends now, and job 1 comes now).
    assert observation[0, at["free_processors"]] == pytest.approx(1.0)
    assert observation[0, at["queue_length"]] == pytest.approx(1 / 3)
    assert observation[0, at["log_requested_time"]] == pytest.approx(np.log10(1 + 40) / 7)
    assert observation[0, at["log_processors"]] == pytest.approx(1.0)
    assert observation[0, at["earliest_start"]] == 0
    assert observation[0, at["profile"] : at["profile"] + 8].tolist() == [1.0] * 8
    assert observation[1, 8:].tolist() == [0.0] * (columns[-1] - 8)


def test_the_profile_tells_when_processors_become_free(tmp_path: Path) -> None:
    path = tmp_path / "profile.swf"
    path.write_text(
        "; MaxProcs: 4\n1 0 -1 900 3 -1 -1 3 900 -1 1 1 1 1 1 1 -1 -1\n2 5 -1 9 2 -1 -1 2 9 -1 1 1 1 1 1 1 -1 -1\n"
    )
    env = JobPickEnv(
        workload=path,
        n_jobs="all",
        max_jobs=2,
        commitment="block",
        features=["profile", "earliest_start", "running", "free_processors"],
    )
    env.reset(seed=0)
    observation = env.step(0)[0][0]
    dates_s = 60.0 * 4.0 ** np.arange(8)
    assert observation[8:16].tolist() == [0.25 if date_s < 895 else 1.0 for date_s in dates_s]
    assert observation[16] == pytest.approx(895 / (895 + 3600))
    assert observation[17] == pytest.approx(1 / 4)
    assert observation[18] == pytest.approx(895 / (895 + 3600))
    assert observation[19] == pytest.approx(1 / 4)


def test_the_queue_is_shown_in_its_order() -> None:
    for order, column in (("sjf", 1), ("smallest", 2)):
        env = JobPickVectorEnv.of(
            4, n_procs=32, n_jobs=60, order=order, max_jobs=30, commitment="block", backfilling="none"
        )
        _, info = env.reset(seed=1)
        rng = np.random.default_rng(0)
        for _ in range(100):
            counts = info["action_mask"].sum(axis=1)
            observations, _, _, _, info = env.step(rng.integers(0, np.maximum(counts, 1)))
            for row, n in enumerate(info["action_mask"].sum(axis=1)):
                values = observations[row, :n, column]
                assert np.all(np.diff(values) >= 0)


# ------------------------------------------------------------------ rewards, results, traces


@pytest.mark.parametrize("objective", sorted(OBJECTIVES))
@pytest.mark.parametrize("backfilling", ["none", "easy_priority"])
def test_rewards_sum_to_the_objective_that_the_trace_has(objective: str, backfilling: str) -> None:
    common: dict[str, Any] = {"n_procs": 64, "n_jobs": 40, "objective": objective, "backfilling": backfilling}
    results = []
    for reward in ("end", "shaped"):
        env = JobPickEnv(reward=reward, **common)
        _, info = env.reset(seed=2)
        rng, rewards, terminated = np.random.default_rng(0), [], False
        while not terminated:
            legal = np.flatnonzero(info["action_mask"])
            _, value, terminated, _, info = env.step(rng.choice(legal))
            rewards.append(value)
        trace = env.trace()
        check_trace(trace)
        sign = OBJECTIVES[objective].sign
        metrics = hdrl.compute_metrics(trace)
        assert sum(rewards) == pytest.approx(sign * metrics[objective], rel=1e-9)
        assert info["results"]["objective"] == pytest.approx(metrics[objective], rel=1e-12)
        assert info["results"]["r"] == pytest.approx(sum(rewards))
        assert info["results"]["l"] == len(rewards) == trace.n_decisions
        if reward == "end":
            assert set(rewards[:-1]) <= {0.0}
        results.append(trace)
    assert trace_differences(*results) == []


@pytest.mark.parametrize("objective", ["mean_bounded_slowdown", "mean_wait_s", "utilization"])
@pytest.mark.parametrize("reference", ["fcfs", "sjf"])
def test_relative_rewards_compare_with_a_priority(objective: str, reference: str) -> None:
    """Always the first row in the order of a priority is what the priority does: its reward against itself is 0."""
    arguments: dict[str, Any] = {"n_procs": 16, "n_jobs": 200, "order": "sjf", "max_jobs": 200, "objective": objective}
    env = JobPickEnv(reward="relative", reference=reference, **arguments)
    _, info = env.reset(seed=4)
    rewards, terminated = [], False
    while not terminated:
        _, reward, terminated, _, info = env.step(0)
        rewards.append(reward)
    by_name = env.batch.run_priorities([reference, "sjf"], [env.batch.window(0)])
    ratio = by_name["sjf"][objective][0] / by_name[reference][objective][0]
    assert not any(rewards[:-1])
    assert rewards[-1] == pytest.approx(math.log(ratio) * (1 if objective == "utilization" else -1), abs=1e-12)
    assert (rewards[-1] == 0) == (reference == "sjf")
    assert info["results"]["objective"] == pytest.approx(by_name["sjf"][objective][0])


def test_jobs_are_killed_at_the_walltimes_that_they_have() -> None:
    arguments: dict[str, Any] = {"n_procs": 64, "n_jobs": 60}
    for kill, walltimes in ((False, {}), (True, {"walltime": "requested", "walltime_factor": 0.5})):
        env = JobPickEnv(**arguments, **walltimes)
        _, info = env.reset(seed=0)
        terminated = False
        while not terminated:
            _, _, terminated, _, info = env.step(int(np.argmax(info["action_mask"])))
        killed = env.trace().records["state"] == 5
        assert killed.any() == kill
        jobs = env.trace().workload.jobs
        assert np.allclose(env.trace().records["run_s"][killed], jobs["walltime_s"][killed])


def test_traces_survive_the_next_episode() -> None:
    env = JobPickVectorEnv.of(2, n_procs=64, n_jobs=10, autoreset_mode="SameStep")
    env.reset(seed=0)
    windows: dict[int, Window] = {}
    while len(windows) < 2:
        before = [env.window(row) for row in range(2)]
        _, _, terminations, _, _ = env.step(np.zeros(2, dtype=int))
        for row in np.flatnonzero(terminations):
            windows.setdefault(int(row), before[row])
            assert len(env.trace(int(row)).records) == 10
            check_trace(env.trace(int(row)))
            assert env.trace(int(row)).workload.jobs["submit_s"][0] == pytest.approx(
                env.inputs.columns.submit_s[before[row].start]
            )


def test_windows_differ_from_row_to_row_and_from_episode_to_episode() -> None:
    env = JobPickVectorEnv.of(20, n_procs=64, n_jobs=16, part="train")
    env.reset(seed=0)
    first = [env.window(row).start for row in range(20)]
    env.reset()
    second = [env.window(row).start for row in range(20)]
    assert len(set(first + second)) > 35
    assert max(first + second) + 16 <= round(0.6 * 4096)
    env.reset(seed=0)
    assert [env.window(row).start for row in range(20)] == first


def test_a_start_can_be_asked_for() -> None:
    env = JobPickVectorEnv.of(2, n_procs=64, n_jobs=16)
    env.reset(seed=0, options={"start": np.array([5, 77])})
    assert [env.window(row) for row in range(2)] == [Window(0, 5, 16), Window(0, 77, 16)]
    with pytest.raises(HdrlError, match="start is 4090: no window of 16 jobs there"):
        env.reset(options={"start": 4090})


@pytest.mark.parametrize("seed", [None, 99])
def test_a_refused_reset_changes_nothing(seed: int | None) -> None:
    env = JobPickVectorEnv.of(2, n_procs=64, n_jobs=16)
    env.reset(seed=0)
    env.step(np.zeros(2, dtype=int))
    before = env.state_dict()
    with pytest.raises(HdrlError, match="start is 4090: no window of 16 jobs there"):
        env.reset(seed=seed, options={"start": [20, 4090]})
    with pytest.raises(HdrlError, match=r"episode is .*, expected a number from 0 to 2\^62 - 1"):
        env.reset(seed=seed, options={"episode": 2**63 - 1})
    for name, array in env.state_dict().items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)


def test_a_job_that_takes_no_time_is_traced_before_those_that_start_after_it() -> None:
    platform = small_platform(Node((Processor(4),)))
    flops = (10, 0, 5)
    jobs = [JobSpec(0, 4, gflop=gflop, requested_time_s=10) for gflop in flops]
    env = JobPickEnv(platform=platform, workload=small_workload(*jobs), n_jobs="all")
    env.reset(seed=0)
    is_over = env.step(1)[2]  # the second job runs first, which takes no time
    while not is_over:
        is_over = env.step(0)[2]
    assert env.trace().records["start_s"].tolist() == [0.0, 0.0, 10.0]
    check_trace(env.trace())


def test_how_logs_are_read_is_no_matter_of_a_workload_that_has_been_read() -> None:
    platform = small_platform(Node((Processor(4),)))
    with pytest.raises(HdrlError, match="estimates: it applies to logs, but a Workload has been read already"):
        JobPickEnv(platform=platform, workload=small_workload(JobSpec()), n_jobs="all", estimates="exact")


def test_several_workloads_take_turns(log: Path) -> None:
    env = JobPickVectorEnv.of(1, workload=[log, log], n_jobs="all")
    env.reset(seed=0)
    assert env.window(0) == Window(0, 0, 4)
    env.reset()
    assert env.window(0) == Window(1, 0, 4)
    assert np.isclose(
        env.run_priorities("fcfs")["fcfs"]["mean_wait_s"][0], env.run_priorities("fcfs")["fcfs"]["mean_wait_s"][1]
    )


def test_every_thread_count_gives_the_same_results() -> None:
    results = []
    for n_threads in (1, 3):
        env = JobPickVectorEnv.of(7, n_procs=64, n_jobs=20, n_threads=n_threads)
        env.reset(seed=0)
        rewards = [env.step(np.zeros(7, dtype=int))[1] for _ in range(50)]
        results.append(np.array(rewards).tobytes())
        env.close()
    assert results[0] == results[1]


# ------------------------------------------------------------------ mistakes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"backfilling": "esy"}, "backfilling is 'esy'; did you mean 'easy'?"),
        ({"commitment": "blok"}, "commitment is 'blok'; did you mean 'block'?"),
        ({"objective": "mean_wait"}, "no objective 'mean_wait'; did you mean 'mean_wait_s'?"),
        ({"reward": "final"}, "reward is 'final'"),
        ({"order": "sjff"}, "order is 'sjff'; did you mean 'sjf'?"),
        ({"features": ["profil"]}, "features is 'profil'; did you mean 'profile'?"),
        ({"features": ["profile", "profile"]}, "features holds 'profile' more than once"),
        ({"compatibility": "rlsched"}, "compatibility is 'rlsched'; did you mean 'rlscheduler'?"),
        ({"compatibility": "rlscheduler", "backfilling": "easy"}, "which means commitment 'block'"),
        ({"backfilling": "rlscheduler", "commitment": "repick"}, "needs commitment 'block'"),
        ({"max_jobs": 0}, "max_jobs is 0, expected a whole number of at least 1"),
        ({"n_procs": 0}, "n_procs is 0, expected a whole number of at least 1"),
        ({"n_jobs": 5000}, "n_jobs is 5000, but that part of .* has 4096 jobs"),
        ({"n_jobs": "every"}, "n_jobs is 'every', expected a whole number of at least 1, two numbers, or 'all'"),
        ({"part": "trian"}, "part is 'trian'; did you mean 'train'?"),
        ({"platform": "gaia"}, "gaia: its cores differ in speed, expected identical ones"),
        ({"platform": "learning", "n_procs": 8}, "n_procs is 8, but platform learning has 4 cores|its cores differ"),
        ({"workload": "lublin_gaia_100"}, "did you mean 'lublin_gaia_1000'?"),
        ({"workload": []}, "workload is empty, expected at least one"),
        ({"render_mode": "human"}, "render_mode is 'human', expected None"),
        ({"skip": "no"}, "skip is 'no', expected True or False"),
        ({"kill": 1}, "kill is 1, expected True or False"),
        ({"copy": "no"}, "copy is 'no', expected True or False"),
        ({"memorie": "none"}, "no argument or workload option 'memorie'; did you mean 'memory'?"),
        ({"backfiling": "none"}, "did you mean 'backfilling'?"),
    ],
)
def test_mistakes_are_told_in_one_line(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((HdrlError, TypeError), match=message) as caught:
        JobPickEnv(**arguments)
    assert "\n" not in str(caught.value)


def test_jobs_that_never_fit_are_refused(log: Path) -> None:
    with pytest.raises(HdrlError, match="asks for 4 cores, platform homogeneous:3 has 3"):
        JobPickEnv(workload=log, n_procs=3, n_jobs="all")


def test_a_workload_without_its_platform_is_refused(log: Path) -> None:
    workload = workload_from_swf(read_swf(log), hdrl.read_platform("homogeneous:4"))
    with pytest.raises(HdrlError, match="platform is missing"):
        JobPickEnv(workload=workload)


def test_a_log_that_names_no_processors_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bare.swf"
    path.write_text(SWF.partition("\n")[2])
    with pytest.raises(HdrlError, match=r"n_procs is missing, and .*bare\.swf does not name it"):
        JobPickEnv(workload=path)


def test_priorities_need_windows_where_they_are_drawn() -> None:
    env = JobPickVectorEnv.of(1, n_procs=64, n_jobs=16)
    with pytest.raises(HdrlError, match="windows is missing"):
        env.run_priorities("fcfs")
    with pytest.raises(HdrlError, match=r"priority is 'fcsf'; did you mean 'fcfs'\?"):
        env.run_priorities("fcsf", [Window(0, 0, 16)])
    with pytest.raises(HdrlError, match="row 0: no episode has ended"):
        env.trace(0)


def test_a_batch_is_made_by_name() -> None:
    env = gymnasium.make_vec("hdrl/JobPick-v0", num_envs=3, n_procs=64, n_jobs=16)
    assert isinstance(env, JobPickVectorEnv)
    assert env.reset(seed=0)[0].shape == (3, 128, 8)
    assert not entries.objectives(env._borrowed, np.ones(3, dtype=bool)).any()
