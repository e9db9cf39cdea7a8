"""Environments of simulations that are generators, and the plain machine and load that small settings have."""

from __future__ import annotations

import numpy as np
import pytest

from hdrl.base.errors import DecisionError, WorkloadError
from hdrl.envs import PickEnv, follow
from hdrl.metrics import task_metrics
from hdrl.trace import PlainLoad, PlainMachine, TaskTrace, trace_of_runs

ONE = PlainMachine("one", {"server": 1})
JOB = np.dtype([("release_s", np.float64), ("requested_s", np.float64)])
THREE = PlainLoad("three", np.array([(5.0, 4.0), (6.0, 3.0), (7.0, 1.0)], JOB))


def in_turn(machine: PlainMachine, load: PlainLoad):
    """Serve one job at a time; the first one at once, then whichever of all others is chosen."""
    now_s, start_s = load.items["release_s"][0], np.zeros(load.n_items)
    waiting = list(range(1, load.n_items))
    job = 0
    n_decisions = 0
    while True:
        start_s[job] = now_s
        now_s += load.items["requested_s"][job]
        if not waiting:
            break
        n_decisions += len(waiting) > 1
        job = waiting.pop((yield waiting) if len(waiting) > 1 else 0)
    end_s = start_s + load.items["requested_s"]
    return trace_of_runs(machine, load, start_s, end_s, np.zeros(load.n_items, np.int32), n_decisions)


class InTurn(PickEnv[PlainMachine, PlainLoad, TaskTrace]):
    n_rows, n_features, objective = 4, 1, "mean_wait_s"
    decisions = staticmethod(in_turn)

    def features(self, load, items):
        return load.items["requested_s"][list(items)][:, np.newaxis]


def test_a_trace_is_that_of_the_order_chosen() -> None:
    trace = follow(in_turn(ONE, THREE), lambda waiting: len(waiting) - 1)
    assert trace.tasks["start_s"].tolist() == [5, 10, 9]
    assert trace.stays["task"].tolist() == [0, 2, 1]
    assert trace.stay_units.tolist() == [0, 0, 0]
    assert trace.n_decisions == 1
    assert task_metrics(trace)["mean_wait_s"] == (0 + 4 + 2) / 3
    assert trace.part(1, 2).tasks["start_s"].tolist() == [10, 9]


@pytest.mark.parametrize(("row", "wait_s"), [(0, (0 + 3 + 5) / 3), (1, (0 + 4 + 2) / 3)])
def test_an_agent_lives_in_the_same_world(row: int, wait_s: float) -> None:
    env = InTurn(ONE, THREE)
    seen, info = env.reset(seed=1)
    assert seen.tolist() == [[3.0], [1.0], [0.0], [0.0]]
    assert info["action_mask"].tolist() == [1, 1, 0, 0]
    with pytest.raises(DecisionError, match="row 2 was picked, but 2 items wait"):
        env.step(2)
    with pytest.raises(DecisionError, match="has not ended"):
        env.trace()
    seen, reward, is_over, is_cut, info = env.step(row)
    assert (reward, is_over, is_cut) == (pytest.approx(-wait_s), True, False)
    assert info["results"] == pytest.approx({"r": -wait_s, "l": 1, "objective": wait_s, "mean_wait_s": wait_s})
    assert seen.tolist() == [[0.0]] * 4


def test_an_episode_without_a_choice_ends_in_its_first_step() -> None:
    env = InTurn(ONE, THREE.window(0, 1))
    _, info = env.reset(seed=1)
    assert info["action_mask"].tolist() == [1, 0, 0, 0]
    assert env.step(0)[2]


def test_windows_follow_each_other() -> None:
    env = InTurn(ONE, THREE, n_jobs=1, start="consecutive")
    found = []
    for seed in (1, None, None, None):
        env.reset(seed=seed)
        env.step(0)
        found.append(env.trace().tasks["requested_s"].tolist())
    assert found == [[4], [3], [1], [4]]


def test_a_plain_load_has_windows() -> None:
    part = THREE.window(1, 2)
    assert part.items["release_s"].tolist() == [0, 1]
    assert THREE.items["release_s"].tolist() == [5, 6, 7]
    assert part.sha256() == THREE.window(1, 2).sha256() != THREE.window(0, 2).sha256()
    with pytest.raises(WorkloadError, match="three: no window of 3 items after the first 1: it has 3 items"):
        THREE.window(1, 3)


def test_a_plain_machine_tells_its_kinds() -> None:
    machine = PlainMachine("car", {"cpu": 4, "gpu": 1})
    assert (machine.n_units, machine.facts()) == (5, {"name": "car", "n_units": 5, "n_cpu": 4, "n_gpu": 1})
    assert machine.sha256() != PlainMachine("car", {"cpu": 5}).sha256()
