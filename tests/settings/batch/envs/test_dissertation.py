"""The world of the dissertation: an oracle in plain Python, worlds solved by hand, its errors, its table."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from click.testing import CliRunner

import hdrl
from hdrl.base.errors import HdrlError
from hdrl.compat.dissertation.env import DissertationVectorEnv
from hdrl.compat.dissertation.jobs import NodeJobs, node_jobs, whole_nodes
from hdrl.compat.dissertation.playing import BASELINES, ERRORS, play_baseline
from hdrl.envs.episodes import Window
from hdrl.experiments import batch_dissertation as dissertation_protocols
from hdrl.experiments.batch_dissertation import judged_windows
from hdrl.experiments.findings import Finding
from hdrl.launcher.launch import launch
from hdrl.learn.agent import Acted
from hdrl.settings.batch.environments import JobPickSpec
from hdrl.settings.batch.platform import read_platform
from hdrl.settings.batch.workload import read_workload
from hdrl.testing import check_trace

SDSC_BLUE = Path(__file__).parents[5] / "shared" / "traces" / "swf" / "SDSC-BLUE-2000-4.2-cln.swf.gz"
needs_sdsc_blue = pytest.mark.skipif(not SDSC_BLUE.is_file(), reason="the SDSC-BLUE log is not beside the checkout")

CAP = 1 - 1e-6


def write_log(path: Path, jobs: list[tuple[float, ...]], n_nodes: int = 4, n_procs: int = 8) -> Path:
    """Write a log of jobs given as submission, run time, processors, requested time and, if need be, memory."""
    lines = [f"; MaxNodes: {n_nodes}", f"; MaxProcs: {n_procs}"]
    for number, (submit_s, run_s, procs, requested_s, *memory) in enumerate(jobs, start=1):
        kb = memory[0] if memory else -1
        lines.append(
            f"{number} {submit_s} -1 {run_s} {procs} -1 -1 {procs} {requested_s} {kb} 1 {number} -1 1 1 1 -1 -1"
        )
    path.write_text("\n".join(lines) + "\n")
    return path


def random_jobs(seed: int, n: int, gap_s: int) -> list[tuple[float, ...]]:
    rng = np.random.default_rng(seed)
    dates = np.cumsum(rng.integers(0, gap_s, n))
    return [
        (int(at), int(rng.integers(1, 400)), int(rng.integers(1, 9)), int(rng.choice([60, 100, 300, 500])))
        for at in dates
    ]


# ------------------------------------------------------------------ the oracle


class Oracle:
    """The same world in plain Python, from its description: lists, sorted anew whenever they are looked at."""

    def __init__(self, jobs: NodeJobs, window: Window, seed: int, *, backfills: bool = False) -> None:
        self.jobs, self.first, self.n, self.backfills = jobs, window.start, window.n_jobs, backfills
        self.queue: list[int] = [0]
        self.coming = list(range(1, window.n_jobs))
        self.running: list[int] = []
        self.start_s: dict[int, float] = {}
        self.nodes: list[int | None] = [None] * jobs.n_nodes
        self.now_s = self.submit_s(0)
        self.random = 1 + seed % 2147483645
        self.is_over = False
        self.look()

    def submit_s(self, j: int) -> float:
        return float(self.jobs.submit_s[self.first + j])

    def run_s(self, j: int) -> float:
        return float(self.jobs.run_s[self.first + j])

    def requested_s(self, j: int) -> float:
        return float(self.jobs.requested_s[self.first + j])

    def procs(self, j: int) -> float:
        return float(self.jobs.procs[self.first + j])

    def size(self, j: int) -> int:
        return math.ceil(self.procs(j) / (self.jobs.n_procs / self.jobs.n_nodes))

    def fits(self, j: int) -> bool:
        return self.size(j) <= self.nodes.count(None)

    def end_s(self, j: int) -> float:
        return self.start_s[j] + self.run_s(j)

    def event(self) -> None:
        self.running.sort(key=self.end_s)
        end_s = self.end_s(self.running[0]) if self.running else math.inf
        if self.coming and self.submit_s(self.coming[0]) <= end_s:
            self.now_s = max(self.now_s, self.submit_s(self.coming[0]))
            self.queue.append(self.coming.pop(0))
        elif self.running:
            self.now_s = max(self.now_s, end_s)
            ended = self.running.pop(0)
            self.nodes = [None if holder == ended else holder for holder in self.nodes]

    def start(self, j: int) -> None:
        for _ in range(self.size(j)):
            self.nodes[self.nodes.index(None)] = j
        self.start_s[j] = self.now_s
        self.running.append(j)
        self.queue.remove(j)

    def shadow_s(self, j: int) -> float:
        self.running.sort(key=lambda other: self.start_s[other] + self.requested_s(other))
        free, at_s = self.nodes.count(None), self.now_s
        for other in self.running:
            free, at_s = free + self.size(other), self.start_s[other] + self.requested_s(other)
            if free >= self.size(j):
                break
        return at_s

    def choose(self, j: int) -> None:
        shadow_s = self.shadow_s(j) if self.backfills and not self.fits(j) else -math.inf
        while not self.fits(j):
            self.queue.sort(key=self.submit_s)
            for other in list(self.queue):
                if self.fits(other) and self.now_s + self.requested_s(other) < shadow_s:
                    self.start(other)
            self.event()
        self.start(j)
        while not self.queue and self.coming:
            self.event()
        self.is_over = not self.queue

    def skip(self) -> None:
        end_s = min((self.end_s(j) for j in self.running), default=math.inf)
        if not self.coming and not self.running:
            self.is_over = True
        elif self.coming and self.now_s + 60 < min(end_s, self.submit_s(self.coming[0])):
            self.now_s += 60
        else:
            self.event()

    def look(self) -> None:
        self.queue.sort(key=self.submit_s)
        if len(self.queue) <= 128:
            self.seen = list(self.queue)
            return
        lists = []
        for key in (self.f1, self.f2, self.shortest, self.smallest):
            self.queue.sort(key=key)
            lists.append(self.queue[:128])
        drawn, rest = [], list(self.queue)
        for i in range(128):
            self.random = self.random * 48271 % 2147483647
            other = i + self.random % (len(rest) - i)
            drawn.append(rest[other])
            rest[other] = rest[i]
        self.seen = list(dict.fromkeys(j for turn in zip(*lists, drawn, strict=True) for j in turn))[:128]

    def f1(self, j: int) -> float:
        date_s = self.submit_s(j)
        return math.log10(self.requested_s(j)) * self.procs(j) + 870 * math.log10(date_s if date_s > 0 else 0.1)

    def f2(self, j: int) -> float:
        date_s = self.submit_s(j)
        return math.sqrt(self.requested_s(j)) * self.procs(j) + (25600 * math.log10(date_s) if date_s else -math.inf)

    def shortest(self, j: int) -> tuple[float, float]:
        return self.requested_s(j), self.submit_s(j)

    def smallest(self, j: int) -> tuple[float, float]:
        return self.procs(j), self.submit_s(j)

    def mean_bounded_slowdown(self) -> float:
        found = [
            max(1.0, (at_s - self.submit_s(j) + self.run_s(j)) / max(10.0, self.run_s(j)))
            for j, at_s in self.start_s.items()
        ]
        return sum(found) / len(found) if found else 0.0

    def observation(self) -> np.ndarray:
        rows = np.full((128, 10), -1.0)
        rows[:, 8:] = 0.0
        for row, j in enumerate(self.seen):
            g = self.first + j
            shares = [
                self.submit_s(j) / self.jobs.largest["date"],
                (self.now_s - self.submit_s(j)) / 43200,
                self.requested_s(j) / self.jobs.longest_s,
            ]
            memory, user = (
                self.jobs.memory[g] / self.jobs.largest["memory"],
                self.jobs.user[g] / self.jobs.largest["user"],
            )
            memory = 1.0 if self.jobs.memory[g] == -1 else min(memory, CAP)
            now = CAP if self.fits(j) else 1e-6
            rows[row] = [
                *np.minimum(shares, CAP),
                -1.0,
                min(self.procs(j) / self.jobs.n_procs, CAP),
                memory,
                min(user, CAP),
                1,
                now,
                1,
            ]
        if len(self.seen) < 128:
            rows[len(self.seen), 8:] = 1.0
        largest = self.jobs.largest["number"]
        held = [-1.0 if j is None else self.jobs.numbers[self.first + j] / largest for j in self.nodes]
        return np.concatenate([rows.reshape(-1), held]).astype(np.float32)


@pytest.mark.parametrize(
    ("seed", "gap_s", "backfilling"), [(0, 600, "none"), (1, 3, "none"), (2, 3, "expected"), (3, 600, "expected")]
)
def test_an_oracle_in_plain_python_sees_does_and_gains_the_same(
    tmp_path: Path, seed: int, gap_s: int, backfilling: str
) -> None:
    path = write_log(tmp_path / "log.swf", random_jobs(seed, 400, gap_s))
    env = DissertationVectorEnv(workload=path, n_jobs=300, start=20, backfilling=backfilling)
    observations, info = env.reset(seed=seed)
    oracle = Oracle(env.jobs, env.window(0), int(env._world.random[0, 0]) - 1, backfills=backfilling != "none")
    draws, ended, n_long = np.random.default_rng(seed), False, 0
    while not ended:
        np.testing.assert_array_equal(observations[0], oracle.observation())
        n_long += len(oracle.queue) > 128
        legal = np.flatnonzero(info["action_mask"][0])
        assert legal.tolist() == list(range(min(128, len(oracle.seen) + 1)))
        action = int(draws.choice(legal))
        oracle.choose(oracle.seen[action]) if action < len(oracle.seen) else oracle.skip()
        observations, rewards, terminations, _, info = env.step(np.array([action]))
        ended = bool(terminations[0])
        assert ended == oracle.is_over
        if not ended:
            assert rewards[0] == pytest.approx(1 / (1 + math.exp(oracle.mean_bounded_slowdown() / 100)), rel=1e-9)
            oracle.look()
    assert rewards[0] == -1e-6
    assert info["results"]["mean_bounded_slowdown"][0] == pytest.approx(oracle.mean_bounded_slowdown(), rel=1e-9)
    assert info["results"]["n_run"][0] == len(oracle.start_s)
    assert (n_long > 50) == (gap_s == 3)


@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("errors", [None, []])
def test_baselines_of_the_oracle_start_the_same_jobs(tmp_path: Path, baseline: str, errors: list[str] | None) -> None:
    jobs = node_jobs(write_log(tmp_path / "log.swf", random_jobs(7, 300, 20)))
    window = Window(0, 60, 230)
    oracle = Oracle(jobs, window, 5)
    scores = {"fcfs": 0, "sjf": 2, "smallest": 4}
    keys = {"fcfs": oracle.submit_s, "sjf": oracle.shortest, "smallest": oracle.smallest, "f1": oracle.f1}

    def score(row: np.ndarray) -> Any:
        """Score a row as the original's baselines do."""
        if row[9] == 0:
            return -1
        if baseline != "f1":
            return row[scores[baseline]]
        longest, latest = (x if x > 0 else np.float32(0.1) for x in (row[2], row[0]))
        return np.log10(longest) * row[4] + 870 * np.log10(latest)

    while not oracle.is_over:
        rows = oracle.observation()[:1280].reshape(128, 10)
        row = min(range(128), key=lambda i: score(rows[i]))
        if errors is None and row >= len(oracle.seen):
            oracle.skip()
        else:
            oracle.choose(oracle.seen[row] if errors is None else min(sorted(oracle.queue), key=keys[baseline]))
        if not oracle.is_over:
            oracle.look()
    (outcome,) = play_baseline(jobs, [window], baseline, errors=errors, seed=5)
    assert outcome.start_s.tolist() == [oracle.start_s.get(j, -1.0) for j in range(window.n_jobs)]
    assert outcome.n_run == (window.n_jobs - 127 if errors is None else window.n_jobs)


def follow(env: DissertationVectorEnv) -> list[float]:
    """Return the scores of the first episodes of all rows under the orders whose choices are told."""
    _, info = env.reset(seed=0)
    scores = np.full(env.num_envs, np.nan)
    while np.isnan(scores).any():
        rows = env.guide_actions()
        assert info["action_mask"][np.arange(env.num_envs), rows].all()
        _, _, ended, _, info = env.step(rows)
        is_first = ended & np.isnan(scores)
        scores[is_first] = info["results"]["objective"][is_first] if is_first.any() else []
    return scores.tolist()


def test_choices_that_are_told_are_those_of_baselines_without_errors_and_of_several_the_best(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log.swf", random_jobs(3, 400, 200))
    arguments: dict[str, Any] = {"workload": path, "n_jobs": 100}
    alone = {name: follow(DissertationVectorEnv(6, guide=name, **arguments)) for name in ("f2", *BASELINES)}
    env = DissertationVectorEnv(6, guide=list(alone), **arguments)
    assert follow(env) == np.min(list(alone.values()), axis=0).tolist()
    env.reset(seed=0)
    windows = [env.window(row) for row in range(6)]
    for name in BASELINES:
        outcomes = play_baseline(env.jobs, windows, name, errors=[])
        assert alone[name] == pytest.approx([outcome.scores["mean_bounded_slowdown"] for outcome in outcomes])
    with pytest.raises(HdrlError, match="did you mean 'sjf'"):
        DissertationVectorEnv(1, guide="sjff", **arguments)
    with pytest.raises(HdrlError, match="guide is missing"):
        DissertationVectorEnv(1, **arguments).guide_actions()


# ------------------------------------------------------------------ worlds solved by hand


# Two nodes of two processors. The second job takes both nodes (three processors), the others one each.
HAND = [(0, 100, 2, 100), (10, 50, 3, 60), (20, 10, 1, 10), (30, 75, 1, 200)]


@pytest.fixture
def hand(tmp_path: Path) -> Path:
    return write_log(tmp_path / "hand.swf", HAND, n_nodes=2, n_procs=4)


def play(env: Any, actions: list[int]) -> tuple[list[float], dict[str, Any]]:
    env.reset(seed=0)
    rewards = []
    for action in actions:
        _, reward, *_, info = env.step(action)
        rewards.append(reward)
    return rewards, info


def make(hand: Path, **arguments: Any) -> Any:
    return gymnasium.make("hdrl/JobPick-v0", compatibility="dissertation", workload=hand, n_jobs="all", **arguments)


def test_choosing_a_job_that_does_not_fit_lets_time_pass(hand: Path) -> None:
    # Job 0 at 0; job 1 needs both nodes and starts at 100, ends at 150; then jobs 2 and 3 at 150.
    _, info = play(make(hand), [0, 0, 0, 0])
    waits_s = [0, 90, 130, 120]
    slowdowns = [1, 140 / 50, 140 / 10, 195 / 75]
    assert info["results"]["mean_wait_s"] == np.mean(waits_s)
    assert info["results"]["mean_bounded_slowdown"] == pytest.approx(np.mean(slowdowns))
    # Its last decision is at 150: so long all jobs count for the utilisation, as in the original.
    assert info["results"]["utilization"] == pytest.approx((100 * 2 + 50 * 3 + 10 + 75) / (150 * 4))


def test_backfilling_starts_what_is_expected_to_end_before_the_chosen_job(hand: Path) -> None:
    # At 20 job 2 is expected to end at 30 and starts; job 3 would end at 230, after 100, and waits until job 1 ends.
    _, info = play(make(hand, backfilling="expected"), [0, 0, 0])
    assert info["results"]["mean_wait_s"] == np.mean([0, 90, 0, 120])


def test_doing_nothing_takes_a_minute_or_until_the_next_event(hand: Path) -> None:
    env = make(hand, reward="running")
    dates_s = []
    env.reset(seed=0)
    for action in (0, 1, 2, 3):  # job 0; then nothing, with ever more jobs waiting
        env.step(action)
        dates_s.append(float(env.unwrapped.batch._world.now_s[0, 0]))
    assert dates_s == [10.0, 20.0, 30.0, 100.0]


def test_nothing_happens_for_a_minute_while_nothing_is_near(tmp_path: Path) -> None:
    env = make(write_log(tmp_path / "far.swf", [(5, 300, 1, 300), (15, 300, 8, 300), (1000, 1, 1, 1)]))
    env.reset(seed=0)
    dates_s = []
    for action in (0, 1, 1, 1, 1, 1):
        env.step(action)
        dates_s.append(float(env.unwrapped.batch._world.now_s[0, 0]))
    assert dates_s == [15.0, 75.0, 135.0, 195.0, 255.0, 305.0]


def test_who_does_nothing_at_the_end_leaves_jobs_unrun_unless_that_error_is_off(hand: Path) -> None:
    env = make(hand)
    env.reset(seed=0)
    actions = [0, 1, 2, 3, 3]  # job 0 ends at 100
    for action in actions:
        _, reward, terminated, _, info = env.step(action)
    assert (terminated, reward, info["results"]["n_run"]) == (True, -1e-6, 1)
    assert info["results"]["mean_wait_s"] == 0.0  # of the one job that was run
    right = make(hand, errors=[])
    right.reset(seed=0)
    for action in actions[:-1]:
        *_, terminated, _, info = right.step(action)
    assert info["action_mask"].tolist() == [1] * 3 + [0] * 125
    env = make(hand, errors=["may_give_up"])
    *_, info = play(env, actions)
    assert info["results"]["mean_wait_s"] == np.mean([0, 90, 80, 70])  # counted up to the end


def test_the_trace_of_an_episode_holds_jobs_that_were_never_run(hand: Path) -> None:
    env = make(hand)
    play(env, [0, 0, 0, 0])
    trace = env.unwrapped.trace()
    check_trace(trace)
    metrics = hdrl.compute_metrics(trace)
    assert metrics["mean_wait_s"] == np.mean([0, 90, 130, 120])
    play(env, [0, 1, 2, 3, 3])
    trace = env.unwrapped.trace()
    assert trace.records["start_s"].tolist() == [0, -1, -1, -1]
    assert hdrl.compute_metrics(trace)["n_not_started"] == 3
    fresh = make(hand).unwrapped
    with pytest.raises(HdrlError, match="no episode has ended"):
        fresh.trace()
    play(fresh, [1, 2, 3, 4])
    with pytest.raises(HdrlError, match="no job was run"):
        fresh.trace()


def test_doing_nothing_is_paid_unless_that_error_is_off(hand: Path) -> None:
    paid, _ = play(make(hand), [1])
    assert paid == [0.5]
    paid, _ = play(make(hand, errors=[]), [1, 0])
    assert paid == [-1e-6, pytest.approx(1 / (1 + math.exp(1.1 / 100)))]  # job 0 starts at 10: slowdown 110 / 100


@pytest.mark.parametrize("scale", [50.0, 100.0])
def test_rewards_by_hand(hand: Path, scale: float) -> None:
    means = np.cumsum([1, 2.8, 14, 2.6]) / np.arange(1, 5)
    sigmoids = 1 / (1 + np.exp(means / scale))
    expected = {
        "episodic": [0, 0, 0, -means[3]],
        "running": [*-means[:3], 0],
        "sigmoid": [*sigmoids[:3], -1e-6],
        "corrected": np.diff([1, *2 * sigmoids]),
    }
    for reward, values in expected.items():
        found, _ = play(make(hand, reward=reward, sigmoid_scale=scale), [0, 0, 0, 0])
        assert found == pytest.approx(values), reward


def test_true_run_times_are_seen_on_request_alone(hand: Path) -> None:
    for errors, expected in ((None, -1.0), ([], -1.0), (["true_run_times"], CAP)):
        env = make(hand, errors=errors)
        seen, _ = env.reset(seed=0)
        assert seen[3] == np.float32(expected)
    spec = JobPickSpec()
    assert spec.uses_hidden_information({"compatibility": "dissertation", "errors": ["true_run_times"]})
    assert not spec.uses_hidden_information({"compatibility": "dissertation"})
    assert "dissertation" in str(spec.unplayable_reason({"compatibility": "dissertation"}))


def test_f1_of_rows_is_nearly_fcfs(tmp_path: Path) -> None:
    # By F1 the last job comes before the third; of shares the number of processors hardly counts.
    rows = [(1000, 5, 8, 5), (1001, 10, 8, 10), (1002, 10, 8, 9000), (1004, 10, 1, 10)]
    jobs = node_jobs(write_log(tmp_path / "f1.swf", rows))
    by_rows = play_baseline(jobs, [Window(0, 0, 4)], "f1", errors=["scores_of_rows"])[0].start_s
    by_jobs = play_baseline(jobs, [Window(0, 0, 4)], "f1", errors=[])[0].start_s
    assert by_rows.tolist() == [1000, 1005, 1015, 1025]
    assert by_jobs.tolist() == [1000, 1005, 1025, 1015]


# ------------------------------------------------------------------ logs


def test_logs_are_read_as_in_the_original(tmp_path: Path) -> None:
    lines = [
        "; MaxNodes: 4",
        "; MaxProcs: 8",
        "1 0 -1 -1 3 -1 -1 5 -1 -1 1 1 1 1 1 1 -1 -1",
        "2 0 -1 0 3 -1 -1 5 7 -1 1 1 1 1 1 1 -1 -1",
        "3 4 -1 9 3 -1 -1 -1 -1 64 1 -1 1 1 1 1 -1 -1",
    ]
    (tmp_path / "log.swf").write_text("\n".join(lines))
    jobs = node_jobs(tmp_path / "log.swf")
    assert (jobs.n_nodes, jobs.n_procs, jobs.numbers.tolist()) == (4, 8, [1, 3])
    assert jobs.run_s.tolist() == [10, 9]  # unknown: 10 s
    assert jobs.requested_s.tolist() == [-1, 9]  # unknown: the run time of the line
    assert (jobs.procs.tolist(), jobs.nodes.tolist()) == ([5, 3], [3, 2])


def test_a_workload_on_a_platform_has_the_nodes_of_the_platform(hand: Path) -> None:
    platform = read_platform("homogeneous:4")
    workload = read_workload(hand, platform, memory="none", bandwidth="none", shift=False)
    own, read = node_jobs(hand), node_jobs(workload, platform, n_nodes=2)
    for name in ("submit_s", "run_s", "requested_s", "procs", "nodes"):
        np.testing.assert_array_equal(getattr(own, name), getattr(read, name))
    assert node_jobs(workload, platform).n_nodes == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"errors": ["true_runtimes"]}, "errors holds 'true_runtimes'; did you mean 'true_run_times'?"),
        ({"reward": "sigmoids"}, "reward is 'sigmoids'; did you mean 'sigmoid'?"),
        ({"objective": "mean_wait"}, "objective is 'mean_wait'; did you mean 'mean_wait_s'?"),
        ({"backfilling": "easy"}, "backfilling is 'easy'"),
        ({"sigmoid_scale": 0}, "sigmoid_scale is 0, expected a positive number"),
        ({"skip": True}, "JobPick with compatibility 'dissertation' has no argument 'skip'"),
        ({"n_nodes": 8}, "n_procs is 4, fewer than the 8 nodes"),
        ({"n_nodes": 1, "n_procs": 2}, "job 2 asks for 3 processors, 1 nodes have 2"),
        ({"n_jobs": 9}, "n_jobs is 9"),
    ],
)
def test_mistakes_are_told_in_one_line(hand: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(HdrlError) as caught:
        gymnasium.make(
            "hdrl/JobPick-v0", compatibility="dissertation", workload=hand, **({"n_jobs": "all"} | arguments)
        )
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_logs_without_nodes_and_unsorted_ones_are_refused(tmp_path: Path) -> None:
    plain = write_log(tmp_path / "plain.swf", HAND)
    plain.write_text("\n".join(plain.read_text().splitlines()[1:]))
    with pytest.raises(HdrlError, match="n_nodes is missing, and plain does not name it"):
        node_jobs(plain)
    with pytest.raises(HdrlError, match="not in the order of their submission"):
        node_jobs(write_log(tmp_path / "mixed.swf", [(10, 1, 1, 1), (5, 1, 1, 1)]))
    with pytest.raises(HdrlError, match="did you mean 'dissertation'"):
        gymnasium.make("hdrl/JobPick-v0", compatibility="disertation")
    with pytest.raises(HdrlError, match="baseline of the dissertation"):
        play_baseline(node_jobs(write_log(tmp_path / "log.swf", HAND)), [Window(0, 0, 4)], "lpt")


def test_the_page_tells_what_every_error_is() -> None:
    page = (Path(__file__).parents[4] / "docs" / "environments.md").read_text()
    for name, meaning in ERRORS.items():
        assert f"| `{name}` | {meaning} |" in page


def test_the_example_trains_its_agent_there(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs torch (the extra learn)")
    options = json.loads((Path(__file__).parents[4] / "examples" / "dissertation.json").read_text())
    write_log(tmp_path / "log.swf", random_jobs(3, 400, 60), n_nodes=4, n_procs=8)
    options |= {"platform_file_path": "homogeneous:8", "workload_file_path": "log.swf"}
    learning = options["learning"]
    learning["arguments"]["n_nodes"] = 4
    learning["settings"] |= {"n_steps": 50, "minibatch_size": 50}
    learning |= {"iterations": 3, "patience": 1}
    learning["episodes"]["n_jobs"] = [10, 20]
    (tmp_path / "options.json").write_text(json.dumps(options))
    result = CliRunner().invoke(launch, [str(tmp_path / "options.json"), "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out" / "model.pt").is_file()


# ------------------------------------------------------------------ known numbers


@needs_sdsc_blue
def test_published_slowdowns_are_found_job_by_job() -> None:
    jobs = node_jobs(SDSC_BLUE)
    window = Window(0, int(0.6 * jobs.n_jobs), 10_000)
    (outcome,) = play_baseline(jobs, [window], "smallest")
    positions = slice(window.start, window.start + window.n_jobs)
    slowdowns = np.maximum(
        1, (outcome.start_s - jobs.submit_s[positions] + jobs.run_s[positions]) / np.maximum(10, jobs.run_s[positions])
    )
    # The first rows of its smallest.csv, which has 49,365 for five windows.
    in_order = np.flatnonzero(outcome.start_s >= 0)
    in_order = in_order[np.argsort(outcome.start_s[in_order], kind="stable")]
    published = [1121.3333333333333, 872.1960784313726, 843.4528301886793, 1007.3409090909091, 1040.5454545454545]
    assert sorted(slowdowns[in_order[:5]]) == sorted(published)
    assert outcome.n_run == 49_365 / 5


@needs_sdsc_blue
@pytest.mark.parametrize(("baseline", "published"), [("smallest", 289.5), ("sjf", 498.0)])
def test_published_means_are_found_in_windows_that_are_not_drawn(baseline: str, published: float) -> None:
    jobs = node_jobs(SDSC_BLUE)
    outcomes = play_baseline(jobs, judged_windows(jobs.n_jobs), baseline)
    assert [outcome.n_run for outcome in outcomes] == [10_000 - 127] * 5
    mean = np.mean([outcome.scores["mean_bounded_slowdown"] for outcome in outcomes])
    assert mean == pytest.approx(published, abs=0.5)


def test_windows_of_the_table_need_a_long_log() -> None:
    assert [window.start for window in judged_windows(243_280)] == [145_968 + 15_000 * number for number in range(5)]
    with pytest.raises(HdrlError, match="short: 4 jobs, but the windows of this table end with job 70002"):
        judged_windows(4, "short")


def test_the_table_of_another_log_has_the_backfilling_of_its_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, number in {"N_WINDOWS": 2, "WINDOW_JOBS": 150, "STRIDE": 160}.items():
        monkeypatch.setattr(dissertation_protocols, name, number)
    log = write_log(tmp_path / "log.swf", random_jobs(1, 900, 60))
    found = dissertation_protocols.dissertation_hpc2n({dissertation_protocols.HPC2N: log}, [])
    jobs = node_jobs(log)
    windows = [Window(0, 540, 150), Window(0, 700, 150)]
    outcomes = play_baseline(jobs, windows, "f1", backfills=True)
    n_run = [outcome.n_run for outcome in outcomes]
    mean = np.average([outcome.scores["mean_bounded_slowdown"] for outcome in outcomes], weights=n_run)
    assert found["F1", "with its errors, its backfilling"] == pytest.approx(mean)
    assert found["F1", "jobs never run, with its errors, its backfilling"] == 300 - sum(n_run)


class FirstLegal:
    """A model that takes the first row: the job that came first."""

    environment = {"arguments": {"compatibility": "dissertation", "errors": [], "reward": "running", "n_nodes": 4}}  # noqa: RUF012

    def __init__(self, row: str) -> None:
        self.row = row

    def agent(self, envs: Any) -> Any:
        del envs
        return self

    def act(self, observations: Any, mask: Any, *, explore: bool) -> Acted:
        del observations, explore
        return Acted(mask.to(torch.int64).argmax(-1), {})


def test_models_are_judged_by_the_same_windows_and_rules_as_priorities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, number in {"SDSC_BLUE_PROCS": 8, "SDSC_BLUE_NODES": 4, "HELD_OUT_JOBS": 60, "N_HELD_OUT": 5}.items():
        monkeypatch.setattr(dissertation_protocols, name, number)
    log = write_log(tmp_path / "log.swf", random_jobs(2, 900, 250))
    traces = {dissertation_protocols.SDSC_BLUE: log}
    models = [FirstLegal("mine"), FirstLegal("mine"), FirstLegal("other")]
    found = dissertation_protocols.dissertation_held_out(traces, models)  # type: ignore[arg-type]
    own = found["mine", "mean_bounded_slowdown"]
    assert isinstance(own, Finding)
    assert own.value == pytest.approx(found["fcfs", "mean_bounded_slowdown"])
    assert own.trainings == (own.value, own.value)
    assert own.value > 1.2 * min(found[name, "mean_bounded_slowdown"] for name in ("sjf", "f1", "f2", "smallest"))
    to_chosen, to_best = (one for (row, column), one in found.items() if row == "mine" and column.startswith("ratio"))
    for ratio in (to_chosen, to_best):
        assert isinstance(ratio, Finding)
        assert ratio.low < ratio.value < ratio.high
        assert ratio.trainings == (pytest.approx(ratio.value), pytest.approx(ratio.value))
        assert ratio.null == 1.0
    assert to_best.value > to_chosen.value
    same = found["other", "ratio to mine"]
    assert (same.value, same.low, same.high) == (1.0, pytest.approx(1.0), pytest.approx(1.0))


def test_whole_nodes_are_processors_of_other_simulators(hand: Path) -> None:
    platform, workload = whole_nodes(node_jobs(hand))
    assert (platform.n_cores, workload.jobs["cores"].tolist()) == (2, [1, 2, 1, 1])
    assert workload.jobs["submit_s"].tolist() == [0, 10, 20, 30]
    trace = hdrl.simulate(platform, workload, "fcfs+easy", energy=False)
    # Job 2 overtakes; job 3 would delay job 1, which starts at 100.
    assert trace.records["start_s"] == pytest.approx([0, 100, 20, 150], abs=1e-6)
