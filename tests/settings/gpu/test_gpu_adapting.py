"""Jobs that adapt on a GPU cluster: deadlines, what was promised and granted, advisors, files of values, commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from hdrl.base.errors import HdrlError, OptionsError, ReadError, UnknownName, WorkloadError
from hdrl.launcher.launch import launch
from hdrl.launcher.main import cli
from hdrl.settings.gpu.cluster.machine import NODE_DTYPE, GpuCluster, GpuType
from hdrl.settings.gpu.envs.making import gpu_cluster_vector
from hdrl.settings.gpu.loads.load import GpuLoad, new_jobs
from hdrl.settings.gpu.loads.values import JobValues, read_values
from hdrl.settings.gpu.metrics import compute_metrics
from hdrl.settings.gpu.policies.advisors import INFORMED, NAMES
from hdrl.settings.gpu.policies.names import read_policy
from hdrl.settings.gpu.policies.rules import Rules
from hdrl.settings.gpu.simulation.events import simulate
from hdrl.settings.gpu.simulation.rounds import simulate_rounds
from hdrl.trace.model import OutcomeTrace, TaskState

ONE_GPU = GpuCluster("one", (GpuType("t"),), np.array([(0, 1, 0, 0)], dtype=NODE_DTYPE))

DEEPEN, NOTHING = 0, 1


def rows() -> list[dict[str, Any]]:
    """Two decisions, after 0.2 and 0.4 of the budget; deepening is worth it only if half of the budget is left.

    Nothing is done: 0.1 at first, and straight up to 0.5. Deepened once: 0.9 in the end, but 0.2 at 0.6. Twice: 1.0 in
    the end, but 0.1 at 0.6. Advisors know one training; the jobs are the other one, worth 0.05 more throughout.
    """
    by_actions = {
        (DEEPEN, DEEPEN): [0.1, 0.18, 0.22, 0.1, 1.0],
        (DEEPEN, NOTHING): [0.1, 0.18, 0.22, 0.2, 0.9],
        (NOTHING, DEEPEN): [0.1, 0.18, 0.26, 0.2, 0.9],
        (NOTHING, NOTHING): [0.1, 0.18, 0.26, 0.34, 0.5],
    }
    return [
        {
            "actions": list(actions),
            "decisions": [0.2, 0.4],
            "shares": [0.0, 0.2, 0.4, 0.6, 1.0],
            "draws": [points, [point + 0.05 for point in points]],
        }
        for actions, points in by_actions.items()
    ]


def write_values(path: Path, **changed: Any) -> Path:
    path.write_text(json.dumps({"jobs": [{"name": "small", "rows": rows(), **changed}]}))
    return path


@pytest.fixture
def load(tmp_path: Path) -> GpuLoad:
    """Two jobs of 10 s on one GPU: the first has time until 16 s, the second comes at 3 s and has until 10 s."""
    tables = read_values(write_values(tmp_path / "v.json"))
    jobs = new_jobs(2)
    jobs["arrival_s"], jobs["work"], jobs["deadline_s"] = [0, 3], [10, 10], [16, 10]
    jobs["priority"] = [1, 2]
    return GpuLoad("l", jobs, values=JobValues(tables, np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64)))


def outcomes(load: GpuLoad, policy: str, **rules: Any) -> OutcomeTrace:
    trace = simulate(ONE_GPU, load, read_policy(policy), rules=Rules(**rules))
    assert isinstance(trace, OutcomeTrace)
    return trace


def test_a_job_that_never_ran_by_its_deadline_is_worth_nothing(load: GpuLoad) -> None:
    trace = outcomes(load, "fifo+promise")
    assert trace.tasks["end_s"].tolist() == [10, -1]
    assert [TaskState(one).name for one in trace.tasks["state"]] == ["DONE", "WAITING"]
    assert trace.signals["queue"].value[-1] == 0, "it has left the queue"
    first, second = trace.outcomes
    # The first has 16 s for 10 s of training: all is promised, both decisions deepen, and all is granted.
    assert (first["granted"], first["sequence"], first["value"]) == (1.0, 0, 1.05)
    assert (second["granted"], second["value"], second["expected"], second["best"]) == (0.0, 0.0, 0.0, 0.0)
    numbers = compute_metrics(trace)
    assert numbers["mean_value"] == pytest.approx(1.05 / 2)
    assert numbers["mean_grant"] == pytest.approx(0.5)
    assert numbers["share_without_result"] == 0.5
    assert numbers["grant_regret"] == pytest.approx(1.05 / 2)
    assert numbers["advice_regret"] == pytest.approx(0.0)
    assert numbers["n_not_started"] == numbers["n_missed"] == 1
    assert np.isnan(numbers["jct_bound_s"])


def test_what_is_promised_at_a_decision_may_not_be_granted(load: GpuLoad) -> None:
    """The second job takes the GPU at 3 s and keeps it to its deadline, 10 s; the first goes on to 16 s, its own.

    At 2 s the first job has its whole budget before it. When it comes to its second decision it has had 3 s, waited
    until 10 s, and has had 4 s at 11 s: 5 s are left, so that 0.9 of its budget is promised, and granted. The second
    job has 0.7 of it from the beginning.
    """
    trace = outcomes(load, "priority+preempt+promise")
    assert trace.tasks["end_s"].tolist() == [16, 10]
    assert [TaskState(one).name for one in trace.tasks["state"]] == ["OVERRAN", "OVERRAN"]
    first, second = trace.outcomes
    assert (first["granted"], second["granted"]) == (pytest.approx(0.9), pytest.approx(0.7))
    # 0.9 of the budget: deepened twice 0.775, once 0.725, never 0.46, three quarters of the way from 0.6 to 1.
    assert (first["sequence"], first["n_decisions"]) == (0, 2)
    assert first["value"] == pytest.approx(0.775 + 0.05)
    # 0.7 of it: a quarter of the way; twice 0.325, once 0.375, never 0.38, which is right.
    assert second["sequence"] == 3
    assert second["value"] == pytest.approx(0.38 + 0.05)
    assert compute_metrics(trace)["advice_regret"] == pytest.approx(0.0)


def test_who_expects_the_whole_budget_is_wrong_where_it_is_not_granted(load: GpuLoad) -> None:
    numbers = {name: compute_metrics(outcomes(load, f"priority+preempt+{name}")) for name in (*NAMES, "fixed-01")}
    assert numbers["exact"]["advice_regret"] == pytest.approx((0.38 - 0.325) / 2)
    assert numbers["best-fixed"]["mean_value"] == numbers["exact"]["mean_value"], "there is one table"
    assert numbers["oracle"]["advice_regret"] == 0.0
    assert numbers["never"]["advice_regret"] == pytest.approx((0.775 - 0.46) / 2)
    assert numbers["fixed-01"]["advice_regret"] == pytest.approx((0.775 - 0.725 + 0.38 - 0.375) / 2)
    assert numbers["always-first"]["mean_value"] == numbers["always-last"]["mean_value"], "there is one block"
    assert numbers["always-first"]["mean_value"] == numbers["exact"]["mean_value"]
    for one in numbers.values():
        assert one["grant_regret"] == pytest.approx(((1.0 - 0.775) + (1.0 - 0.38)) / 2)
        assert one["mean_jct_s"] == numbers["never"]["mean_jct_s"], "advice changes no schedule"


def test_restarts_take_time_of_the_deadline_and_decisions_that_nobody_comes_to_are_not_made(load: GpuLoad) -> None:
    trace = outcomes(load, "priority+preempt+exact", restart_s=(3.5, 3.5))
    first = trace.outcomes[0]  # goes on from 13.5 s to 16 s
    assert first["granted"] == pytest.approx(0.3 + 0.25)
    late = outcomes(load, "priority+preempt+exact", restart_s=(5.5, 5.5)).outcomes[0]
    assert late["granted"] == pytest.approx(0.35)
    assert (late["sequence"], late["n_decisions"]) == (0, 1)
    assert late["value"] == pytest.approx(0.18 + 0.75 * 0.04 + 0.05)


def test_an_advisor_does_not_know_the_training_that_it_advises(tmp_path: Path) -> None:
    """What is best in the training that advisors know is not best in that of the jobs."""
    two = [
        {"actions": [action], "decisions": [0.5], "shares": [0.0, 0.5, 1.0], "draws": [[0, 0, known], [0, 0, own]]}
        for action, known, own in ((DEEPEN, 1.0, 0.2), (NOTHING, 0.1, 0.9))
    ]
    tables = read_values(write_values(tmp_path / "v.json", rows=two))
    jobs = new_jobs(1)
    jobs["deadline_s"] = [5]
    load = GpuLoad("l", jobs, values=JobValues(tables, np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)))
    for advisor in INFORMED:
        (found,) = outcomes(load, f"fifo+{advisor}").outcomes
        assert (found["sequence"], found["value"]) == ((NOTHING, 0.9) if advisor == "oracle" else (DEEPEN, 0.2))


def test_what_does_not_go_together_is_one_line(load: GpuLoad) -> None:
    plain = GpuLoad("plain", load.jobs)
    cases: list[tuple[type[HdrlError], str, Any]] = [
        (OptionsError, "plain do not adapt", lambda: simulate(ONE_GPU, plain, read_policy("fifo+exact"))),
        (OptionsError, "checkpoint_s", lambda: outcomes(load, "fifo", checkpoint_s=1.0)),
        (OptionsError, "2 decisions among 2 actions", lambda: outcomes(load, "fifo+fixed-012")),
        (OptionsError, "2 decisions among 2 actions", lambda: outcomes(load, "fifo+fixed-02")),
        (OptionsError, "names its advisor twice", lambda: read_policy("fifo+exact+never")),
        (UnknownName, "did you mean 'promise'", lambda: read_policy("fifo+promised")),
        (WorkloadError, "rounds do not support jobs that adapt", lambda: simulate_rounds(ONE_GPU, load, "gavel-las")),
        (WorkloadError, "no agent learns", lambda: gpu_cluster_vector(1, machine=ONE_GPU, load=load)),
        (OptionsError, "order alone", lambda: gpu_cluster_vector(1, order="srtf+exact")),
    ]
    for kind, message, attempt in cases:
        with pytest.raises(kind, match=message):
            attempt()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rows": []}, "expected an object with name and rows"),
        ({"rows": rows()[:3]}, "one row for each sequence"),
        ({"rows": [rows()[0], *rows()[:3]]}, "one row for each sequence"),
        ({"rows": [{**rows()[0], "actions": [10**9, 0]}]}, "one row for each sequence"),
        ({"rows": [{**row, "decisions": [0.4, 0.2]} for row in rows()]}, "decisions that do not ascend"),
        ({"rows": [{**row, "shares": [0.1, 0.2, 0.4, 0.6, 1.0]} for row in rows()]}, "begin at 0"),
        ({"rows": [{**row, "draws": [[0.1, 0.2]]} for row in rows()]}, "a value for each share"),
        ({"rows": [{**row, "draws": [["x"]]} for row in rows()]}, "equally many numbers"),
        ({"rows": [{**row, "draws": row["draws"][:1]} for row in rows()]}, "advisors use half of them"),
        ({"rows": [{**rows()[0], "shares": [0.0, 1.0]}, *rows()[1:]]}, "equally many numbers"),
    ],
)
def test_a_damaged_file_of_values_is_told_in_a_line(changed: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ReadError, match=message):
        read_values(write_values(tmp_path / "v.json", **changed))


def run(*words: object, command: Any = launch, code: int = 0) -> Result:
    done = CliRunner().invoke(command, [str(word) for word in words])
    assert done.exit_code == code, done.output
    return done


def test_a_run_tells_what_its_jobs_are_worth(tmp_path: Path) -> None:
    run("adaptation", "values", tmp_path / "v.json", "signals_*", command=cli)
    run("adaptation", "values", tmp_path / "v.json", "signals_*", command=cli, code=2)
    options = {
        "setting": "gpu", "platform": "drl-gpu", "workload": "poisson", "nb_jobs": 60,
        "agent": {"policy": "srsf+exact"},
        "load": {"offered": 1.2, "adapting": {"values": str(tmp_path / "v.json")}},
    }  # fmt: skip
    (tmp_path / "o.json").write_text(json.dumps(options))
    assert "mean_value" in run(tmp_path / "o.json", "--out", tmp_path / "r").output
    lines = (tmp_path / "r" / "values.csv").read_text().splitlines()
    assert len(lines) == 61
    assert lines[1].split(",")[1].startswith("signals_small_convnet_")
    resolved = json.loads((tmp_path / "r" / "options.resolved.json").read_text())
    assert resolved["load"]["adapting"] == {"values": "v.json", "deadline": 2.0}


def test_windows_count_the_jobs_that_count(load: GpuLoad) -> None:
    trace = outcomes(load, "priority+preempt+exact")
    part = trace.part(1, 1)
    assert part.outcomes["granted"].tolist() == [pytest.approx(0.7)]
    assert compute_metrics(part)["mean_grant"] == pytest.approx(0.7)
    assert len(part.load.values.draw) == 1
