"""Predictions from jobs that have ended: the formulas written anew, nothing known of the future, what readers keep."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray

from hdrl.base.errors import OptionsError
from hdrl.compiled.borrowed import Borrowed
from hdrl.setting import SETTINGS
from hdrl.settings.gpu.cluster.machine import NODE_DTYPE, GpuCluster, GpuType, read_cluster
from hdrl.settings.gpu.kernel import entries, state
from hdrl.settings.gpu.loads.groups import LEVELS
from hdrl.settings.gpu.loads.history import history_of
from hdrl.settings.gpu.loads.load import GpuLoad, new_jobs
from hdrl.settings.gpu.loads.readers import read_trace
from hdrl.settings.gpu.loads.source import name_prefix
from hdrl.settings.gpu.loads.synthetic import Poisson, at_offered_load
from hdrl.settings.gpu.metrics import compute_metrics
from hdrl.settings.gpu.policies.names import policy_names, read_policy
from hdrl.settings.gpu.policies.rules import Rules
from hdrl.settings.gpu.simulation.events import new_world, simulate

CLUSTER = read_cluster("drl-gpu")
REPEATED = Poisson(n_users=6, n_names=4, runtime_std_s=6000.0)
"""Synthetic jobs of users who repeat them."""

LEARNING = [name for name in policy_names() if read_policy(name).learns and name.count("+") < 2]


def load_of(n_jobs: int, seed: int = 0, offered: float = 1.1) -> GpuLoad:
    return at_offered_load(REPEATED, n_jobs, CLUSTER, offered, seed)


def stays_before(load: GpuLoad, policy: str, until_s: float) -> list[tuple[float, ...]]:
    trace = simulate(CLUSTER, load, read_policy(policy), rules=Rules(restart_s=(10, 60)))
    chosen = trace.stays[trace.stays["start_s"] <= until_s]
    return sorted((float(one["start_s"]), int(one["task"]), int(one["n_units"])) for one in chosen)


def with_other_future(load: GpuLoad, until_s: float, policy: str) -> GpuLoad:
    """Return a load in which all jobs take longer that have not ended by a date."""
    trace = simulate(CLUSTER, load, read_policy(policy), rules=Rules(restart_s=(10, 60)))
    jobs = load.jobs.copy()
    jobs["work"][trace.tasks["end_s"] > until_s] *= 3.0
    return replace(load, jobs=jobs)


@pytest.mark.parametrize("policy", LEARNING)
def test_the_future_changes_nothing(policy: str) -> None:
    load = load_of(300).window(100, 200)
    until_s = float(load.jobs["arrival_s"][120])
    changed = with_other_future(load, until_s, policy)
    assert not np.array_equal(changed.jobs["work"], load.jobs["work"])
    assert stays_before(changed, policy, until_s) == stays_before(load, policy, until_s)


def test_who_knows_durations_is_found_out_by_the_same_test() -> None:
    load = load_of(300).window(100, 200)
    until_s = float(load.jobs["arrival_s"][120])
    changed = with_other_future(load, until_s, "srsf")
    assert stays_before(changed, "srsf", until_s) != stays_before(load, "srsf", until_s)


def test_jobs_that_had_not_ended_before_a_window_are_unknown_there() -> None:
    whole = load_of(300)
    window = whole.window(200, 100)
    first_s = window.jobs["arrival_s"][0]
    ended_s = whole.jobs["arrival_s"] + whole.mean_s(CLUSTER)
    had_ended = (ended_s <= first_s) & (np.arange(300) < 200)
    assert 0 < had_ended.sum() < 200
    history = history_of(window, CLUSTER)
    seen = history.before[history.groups[0, 0]]
    kept = state.MEMORY[0, 0]
    assert seen[state.SEEN] == pytest.approx(sum(kept**k for k in range(had_ended.sum())))
    jobs = whole.jobs.copy()
    jobs["work"][~had_ended] *= 5.0
    other = history_of(replace(whole, jobs=jobs).window(200, 100), CLUSTER)
    assert np.array_equal(other.before, history.before)
    jobs["work"][had_ended] *= 5.0
    assert not np.array_equal(history_of(replace(whole, jobs=jobs).window(200, 100), CLUSTER).before, history.before)


def test_a_job_that_waited_in_the_trace_had_ended_later() -> None:
    jobs = new_jobs(3)
    jobs["arrival_s"], jobs["work"], jobs["wait_s"] = [0, 0, 100], [50, 50, 50], [0, 60, 0]
    load = GpuLoad("l", jobs, speeds="equal").window(2, 1)
    assert history_of(load, CLUSTER).before[0, state.SEEN] == 1.0


def plain_prediction(times_s: list[float], done_s: float) -> dict[str, float]:
    """What is said of a job of the same user after jobs of one GPU: the formulas of the page, in plain Python."""
    ends_s = [8.0 * 2 ** ((k + 1) / 2) for k in range(28)]
    shares, whole = np.full(28, 1 / 28), 6.5
    for keeps, weight in ((0.999, 1), (0.995, 10), (0.98, 5), (0.95, 5)):  # all, size, user, user and size
        counts, seen, logs = np.zeros(28), 0.0, 0.0
        for time_s in times_s:
            counts, seen, logs = counts * keeps, seen * keeps + 1, logs * keeps + math.log(time_s)
            counts[next(k for k in range(28) if time_s < ends_s[k] or k == 27)] += 1
        shares = (counts + weight * shares) / (seen + weight)
        whole = (logs + weight * whole) / (seen + weight)
    begins_s = [0.0, *ends_s[:-1]]
    rest = []
    for share, begin_s, end_s in zip(shares, begins_s, ends_s, strict=True):
        part = 1.0 if done_s <= begin_s else max(0.02, (end_s - done_s) / (end_s - begin_s)) if done_s < end_s else 0.0
        rest.append(share * part)
    rest = [share / sum(rest) for share in rest]
    left_s = [max(math.sqrt(e / math.sqrt(2) * e) - done_s, 1.0) for e in ends_s]
    gittins = 0.0
    for k in range(28):
        if rest[k] > 0:
            passed = sum(rest[: k + 1])
            spent_s = sum(share * time_s for share, time_s in zip(rest[: k + 1], left_s, strict=False))
            spent_s += (1 - passed) * max(ends_s[k] - done_s, left_s[k])
            gittins = max(gittins, passed / spent_s)
    mean_s = sum(share * time_s for share, time_s in zip(rest, left_s, strict=True))
    mean_log = sum(share * math.log(time_s) for share, time_s in zip(rest, left_s, strict=True))
    return {"gittins": math.log(gittins), "mean": math.log(mean_s), "mean_log": mean_log, "whole": whole}


@pytest.mark.parametrize("done_s", [0.0, 5.0, 300.0, 2000.0])
def test_predictions_are_the_formulas(done_s: float) -> None:
    """Six jobs of a user have ended; then one runs that has done so much when another one of that user arrives."""
    times_s = [100.0, 150.0, 120.0, 3000.0, 9.0, 40_000.0]
    jobs = new_jobs(8)
    jobs["work"] = [*times_s, 60_000.0, 50.0]
    jobs["arrival_s"][6:] = 200_000.0, 200_000.0 + done_s
    jobs["arrival_s"][:6] = np.arange(6) * 10_000.0  # they end one after the other
    jobs["user"] = 0
    whole = GpuLoad("l", jobs, users=("a",), speeds="equal")
    cluster = GpuCluster("c", (GpuType("t"),), np.array([(0, 1, 0, 0)], dtype=NODE_DTYPE))
    load = whole.window(6, 2)
    world = new_world(cluster, load, read_policy("gittins+history"), seed=0, rules=Rules(), records=True)
    borrowed = Borrowed(world)
    entries.begin(borrowed.addresses)
    entries.run(borrowed.addresses, 1 if done_s == 0.0 else 2)
    said, expected = world.past.predicted[0, 0], plain_prediction(times_s, done_s)
    found = {"gittins": state.LOG_GITTINS, "mean": state.LOG_MEAN, "mean_log": state.MEAN_LOG, "whole": state.LOG_WHOLE}
    assert {name: said[position] for name, position in found.items()} == pytest.approx(expected, rel=1e-5)
    assert said[state.LAST_TWO] == pytest.approx((math.log(9.0) + math.log(40_000.0)) / 2, rel=1e-5)


def mean_jct_s(load: GpuLoad, policy: str) -> float:
    return compute_metrics(simulate(CLUSTER, load, read_policy(policy)))["mean_jct_s"]


def test_repeated_jobs_are_known_after_a_while() -> None:
    """With users who repeat themselves history is worth half of what knowing durations is worth; without, little."""
    repeated = load_of(1500).window(700, 500)
    blind, history, known = (mean_jct_s(repeated, name) for name in ("las-2d", "srsf+history", "srsf"))
    assert known < history < blind
    assert history - known < 0.5 * (blind - known)
    jobs = repeated.jobs.copy()
    for column in ("user", "name"):
        jobs[column] = np.random.default_rng(0).permutation(jobs[column])
    shuffled = GpuLoad("shuffled", jobs, repeated.kinds, repeated.users)
    assert mean_jct_s(shuffled, "srsf+history") > 1.02 * history


def test_running_jobs_give_way_when_they_last_longer_than_was_predicted() -> None:
    """Two users: a's jobs take 10 s, b's 1000 s. The third one of a lasts, and b's next job comes before it then."""
    jobs = new_jobs(42)
    jobs["user"][:20], jobs["work"][:20] = 0, 10.0
    jobs["user"][20:40], jobs["work"][20:40] = 1, 1000.0
    jobs["arrival_s"][:40] = np.arange(40) * 2000.0
    jobs["user"][40:], jobs["work"][40:], jobs["arrival_s"][40:] = (0, 1), (100_000.0, 1000.0), (100_000.0, 100_001.0)
    cluster = GpuCluster("c", (GpuType("t"),), np.array([(0, 1, 0, 0)], dtype=NODE_DTYPE))
    load = GpuLoad("l", jobs, users=("a", "b"), speeds="equal").window(40, 2)
    trace = simulate(cluster, load, read_policy("srsf+history"))
    # Nothing happens after the arrivals: every 900 s the scheduler looks again, the second time it changes its mind.
    assert trace.tasks["start_s"].tolist() == [100_000.0, 101_801.0]
    assert trace.tasks["end_s"].tolist() == [201_000.0, 102_801.0]


@pytest.mark.parametrize("policy", ["srsf+history", "qssf"])
def test_decisions_in_rounds_are_made_at_their_multiples(policy: str) -> None:
    load = load_of(80)
    trace = simulate(CLUSTER, load, read_policy(policy), rules=Rules(round_s=360.0))
    assert (np.mod(trace.stays["start_s"], 360.0) == 0.0).all()


@pytest.mark.parametrize(
    ("candidate", "form", "said"),
    [
        ("srsf+history", "philly-sia", "virtual clusters alone"),
        ("heuristics", "philly-sia", "virtual clusters alone"),
        ("srsf", "philly-sia", None),
        ("gavel-las", "philly-sia", None),
        ("agent.py", "philly-sia", None),
        ("qssf", "drl-gpu", "no users"),
        ("qssf", "helios", None),
    ],
)
def test_a_comparison_says_which_users_are_unknown(candidate: str, form: str, said: str | None) -> None:
    load = load_of(50)
    jobs = load.jobs.copy()
    if form == "drl-gpu":
        jobs["user"] = -1
    sweep = SimpleNamespace(candidates=[candidate])
    load = replace(load, jobs=jobs, origin={"format": form})
    found = [text for kind, text in SETTINGS["gpu"].inputs.cautions(sweep, CLUSTER, [load]) if kind == "history"]
    assert [said in text for text in found] == [True] * (said is not None)


def test_names_of_policies() -> None:
    assert read_policy("srsf+history").name == "srsf+history"
    assert read_policy("sjf+fgd+history").name == "sjf+history+fgd"
    assert not read_policy("srsf+history").needs_durations
    assert read_policy("srsf").needs_durations
    with pytest.raises(OptionsError, match="fifo does not use predictions from history, expected sjf, srtf"):
        read_policy("fifo+history")


# ---------------------------------------------------------------------- what readers keep


@pytest.mark.parametrize(
    ("name", "prefix"),
    [("train-resnet-17", "train-resnet"), ("BERT_v2_seed3", "bert_v"), ("job", "job"), ("42nd", "42nd"), (" a 1", "a")],
)
def test_names_are_cut_at_their_first_number(name: str, prefix: str) -> None:
    assert name_prefix(name) == prefix


def columns(path: Path, text: str, *names: str) -> list[list[float]]:
    path.write_text(text)
    return [read_trace(path).jobs[name].tolist() for name in names]


def test_helios_keeps_user_virtual_cluster_name_and_wait(tmp_path: Path) -> None:
    head = "job_id,user,vc,jobname,gpu_num,state,submit_time,start_time,duration\n"
    rows = (
        "1,u1,vcA,bert-1,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:01:00,10\n"
        "2,u2,vcA,bert-2,1,COMPLETED,2020-04-01 00:00:10,,10\n"
        "3,u1,vcB,,1,COMPLETED,2020-04-01 00:00:20,2020-04-01 00:00:20,10\n"
    )
    found = columns(tmp_path / "cluster_log.csv", head + rows, "user", "group", "name", "wait_s")
    assert found == [[0, 1, 0], [0, 0, 1], [0, 0, -1], [60, 0, 0]]


def test_philly_keeps_user_and_virtual_cluster(tmp_path: Path) -> None:
    attempt = '{"start_time": "2017-10-01 00:10:00", "end_time": "2017-10-01 00:20:00", "detail": [{"gpus": ["g"]}]}'
    line = '{{"jobid": "{0}", "vc": "v", {1} "submitted_time": "2017-10-01 00:00:00", "attempts": [{2}]}}\n'
    text = line.format("a", '"user": "x",', attempt) + line.format("b", "", attempt)
    assert columns(tmp_path / "p.json", text, "user", "group", "wait_s") == [[0, 1], [0, -1], [600, 600]]


def test_alibabas_lists_may_say_who(tmp_path: Path) -> None:
    head = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,"
        "scheduled_time,user,group,job_name\n"
    )
    row = "p1,1000,1,1,1000,,LS,Succeeded,0,30,10,ann,lab,train1\n"
    found = columns(tmp_path / "jobs.csv", head + row, "user", "group", "name", "wait_s")
    assert found == [[0], [0], [0], [10]]
    tasks = "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type,user,group\n"
    tasks += "j,worker,1,Terminated,10,20,600,29,100,T4,ann,\n"
    assert columns(tmp_path / "pai.csv", tasks, "user", "group", "name") == [[0], [-1], [0]]


def test_hashes_of_loads_without_groups_are_as_they_were() -> None:
    jobs = new_jobs(2)
    load = GpuLoad("l", jobs)
    for name, changes in (("wait_s", False), ("group", True), ("name", True)):
        other = jobs.copy()
        other[name] = 3
        assert (GpuLoad("l", other).sha256() != load.sha256()) is changes


def test_each_level_of_groups_is_within_a_coarser_one() -> None:
    load = load_of(200)
    groups = load.groups
    assert groups.shape == (200, len(LEVELS))
    assert (groups[:, 0] == 0).all()
    assert (groups[:, 2:4] == -1).all()  # generated jobs have no virtual clusters
    for level in (4, 5, 6):
        for number in np.unique(groups[:, level]):
            users = load.jobs["user"][groups[:, level] == number]
            assert len(np.unique(users)) == 1


def as_bytes(array: NDArray[np.void]) -> bytes:
    return array.tobytes()


def test_windows_play_as_they_do_in_a_comparison(tmp_path: Path) -> None:
    """A window that is cut from a window has the same history."""
    whole = load_of(400)
    once, twice = whole.window(250, 50), whole.window(200, 150).window(50, 50)
    traces = [simulate(CLUSTER, one, read_policy("srsf+history")) for one in (once, twice)]
    assert as_bytes(traces[0].tasks) == as_bytes(traces[1].tasks)
    alone = simulate(CLUSTER, GpuLoad("alone", once.jobs, once.kinds, once.users), read_policy("srsf+history"))
    assert as_bytes(alone.tasks) != as_bytes(traces[0].tasks)
