"""Tables, what policies do with them, and what it costs."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hdrl.base.errors import HdrlError, OptionsError, ReadError, UnknownName, WorkloadError
from hdrl.settings.adaptation.files import FILES, JOBS_FILE, SEQUENCES_FILE
from hdrl.settings.adaptation.load import jobs_of
from hdrl.settings.adaptation.machine import read_device
from hdrl.settings.adaptation.metrics import compute_metrics
from hdrl.settings.adaptation.models import MODELS, describe, find_model, layer_ids, model_of
from hdrl.settings.adaptation.policies import NAMES, make_advisor, read_policy
from hdrl.settings.adaptation.simulation import AdaptingJob, simulate
from hdrl.settings.adaptation.table import Table, read_table
from hdrl.settings.adaptation.values import values_json
from hdrl.trace.model import OutcomeTrace

from .made_tables import BUDGET_S, seed_json, table_json, worth, write_table

BEST = (1, 0, 2)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return read_table(write_table(tmp_path_factory.mktemp("tables") / "made.json", table_json(BEST)))


def run(table: Table, policy: str, n_jobs: int = 4) -> OutcomeTrace:
    random = np.random.default_rng(1)
    return simulate(read_device("made"), jobs_of("made", [table], n_jobs), make_advisor(policy, random))


def test_a_published_table_is_read_as_it_is(tmp_path: Path) -> None:
    found = read_table(write_table(tmp_path / "seed.json", seed_json(BEST)))
    assert (found.device, found.budget_s, found.n_actions, found.n_steps) == ("gv100", 400.0, 4, 3)
    assert found.expected.tolist() == [worth(one, BEST) for one in itertools.product(range(4), repeat=3)]
    assert len(found.time_left_s) == 21
    # Each state has the mean of the rows that pass through it.
    assert found.time_left_s[found.state([])] == pytest.approx(330.0 - 1.5)
    assert found.time_left_s[found.state([2])] == pytest.approx(318.0 - 1.5)
    assert not found.has_validation


def test_sequences_states_and_networks_go_together(table: Table) -> None:
    for actions in itertools.product(range(4), repeat=3):
        assert table.actions(table.sequence(actions)) == actions
    states = [table.state(actions) for n in range(3) for actions in itertools.product(range(4), repeat=n)]
    assert sorted(states) == list(range(21))
    deep = table.models[table.state([1, 3])]
    assert describe(deep) == describe(find_model("convnet2").deepened(1))
    seen = {(table.time_left_s[state], *ids) for state, ids in enumerate(table.layers)}
    assert len(seen) == 1 + 4 + 10  # which of two blocks came first cannot be seen


def test_what_a_job_is_worth_when_it_is_stopped_early(table: Table, tmp_path: Path) -> None:
    (found,) = values_json([table])["jobs"]
    assert found["name"] == "made"
    row = found["rows"][table.sequence([3, 0, 2])]
    assert row["actions"] == [3, 0, 2]
    assert row["decisions"] == [0.4, 0.5, 0.6]
    assert row["shares"] == [0.0, 0.4, 0.5, 0.6, 0.8, 1.0]  # the rung is half of the way from the last decision on
    validation = table.validation[table.sequence([3, 0, 2])]
    assert row["draws"] == [pytest.approx([0.1, 0.2, 0.25, 0.25, 0.5 * one, one]) for one in validation]
    published = read_table(write_table(tmp_path / "seed.json", seed_json(BEST)))
    with pytest.raises(WorkloadError, match="has no accuracies during the training"):
        values_json([published])
    data = table_json(BEST)
    data["rows"][5]["before"] = [[0.2]]
    with pytest.raises(ReadError, match="before"):
        read_table(write_table(tmp_path / "damaged.json", data))


@pytest.mark.parametrize("name", MODELS)
def test_deepening_adds_an_identity_of_the_blocks_width(name: str) -> None:
    model = find_model(name)
    for target in range(len(model.targets)):
        deeper = model.deepened(target).deepened(target)
        added = len(deeper.layers) - len(model.layers)
        fresh = deeper.blocks[deeper.targets[target] + 1]
        heart = next(layer for layer in fresh if layer.sizes)
        assert added == 2 * len([layer for layer in fresh if layer.kind not in ("avgpool", "adaptive_avgpool")])
        assert heart.sizes[0] == heart.sizes[1]
        assert max(layer_ids(deeper.layers)) < 64


def test_no_two_kinds_of_layers_share_an_id() -> None:
    texts = ["conv 3 32 3", "conv1d 3 32 3", "linear 32 32", "batchnorm 32", "relu", "avgpool 2", "adaptive_avgpool"]
    assert len(set(layer_ids(model_of("all", texts).layers))) == len(texts)


@pytest.mark.parametrize(
    ("policy", "actions", "search_s"),
    [
        ("never", (3, 3, 3), 0.0),
        ("always-first", (0, 0, 0), 0.0),
        ("always-last", (2, 2, 2), 0.0),
        ("fixed-012", (0, 1, 2), 0.0),
        ("oracle", BEST, 0.0),
        # First decision: 4 runs of 60 s; second: 3 further ones from there on, third: 3 further ones.
        ("look-ahead", BEST, 3 * 60.0 + 3 * 50.0 + 3 * 40.0),
        # 84 parts that no two sequences share: 4 and 16 of 10 s, 64 of 40 s; but those of the best one.
        ("exhaustive", BEST, 4 * 10.0 + 16 * 10.0 + 64 * 40.0 - 60.0),
    ],
)
def test_policies_choose_and_pay(table: Table, policy: str, actions: tuple[int, ...], search_s: float) -> None:
    trace = run(table, policy)
    assert {table.actions(int(one)) for one in trace.outcomes["sequence"]} == {actions}
    assert trace.outcomes["search_s"] == pytest.approx(search_s)
    assert trace.outcomes["expected"] == pytest.approx(worth(actions, BEST))
    numbers = compute_metrics(trace)
    assert numbers["mean_regret"] == pytest.approx(worth(BEST, BEST) - worth(actions, BEST))
    assert numbers["relative_cost"] == pytest.approx(1 + search_s / BUDGET_S)
    assert trace.tasks["end_s"][-1] == pytest.approx(4 * (BUDGET_S + search_s))


def test_searches_find_the_best_where_it_can_be_seen(table: Table) -> None:
    for policy in ("hill-climbing", "successive-halving"):
        trace = run(table, policy)
        assert set(trace.outcomes["rank"].tolist()) == {1}
        assert 0 < trace.outcomes["search_s"][0] < run(table, "exhaustive").outcomes["search_s"][0]


@pytest.mark.parametrize("policy", ["epsilon-greedy", "ucb", "thompson"])
def test_bandits_learn_from_job_to_job(table: Table, policy: str) -> None:
    numbers = compute_metrics(run(table, policy, 1000))
    assert numbers["mean_search_s"] == 0.0
    assert numbers["last_regret"] < 0.5 * numbers["mean_regret"]


def test_linear_decay_is_ranked_though_it_is_no_sequence(table: Table) -> None:
    trace = run(table, "linear-decay")
    assert trace.outcomes["sequence"].tolist() == [-1] * 4
    better = sum(worth(one, BEST) > 0.7 for one in itertools.product(range(4), repeat=3))
    assert trace.outcomes["rank"][0] == 1 + better


def test_sequences_of_equal_sums_tie_whatever_the_order_of_their_trainings(tmp_path: Path) -> None:
    # The sums of the first two are 0.6 and 0.6000000000000001 if numbers are added as they come.
    tests = [[0.1, 0.2, 0.3], [0.3, 0.2, 0.1], [0.2, 0.3, 0.1], [0.5, 0.5, 0.5]]
    rows = [
        {"actions": [action], "timeleft_s": [50.0], "draws": [[0.5, one] for one in draws]}
        for action, draws in enumerate(tests)
    ]
    others = {"linear-decay": [[0.5, one] for one in (0.3, 0.1, 0.2)]}
    data = {"model": "convnet2", "device": "made", "budget_s": BUDGET_S, "rows": rows, "others": others}
    one = read_table(write_table(tmp_path / "one.json", data))
    for policy, rank, n_ties in (("fixed-0", 2, 2), ("fixed-1", 2, 2), ("fixed-2", 2, 2), ("linear-decay", 2, 3)):
        trace = simulate(read_device("made"), jobs_of("one", [one], 1), make_advisor(policy, np.random.default_rng(0)))
        assert (trace.outcomes["rank"][0], trace.outcomes["n_ties"][0]) == (rank, n_ties)


def test_actions_of_more_than_one_digit_are_kept_apart(tmp_path: Path) -> None:
    n_actions = 12
    rows = [
        {"actions": [*actions], "timeleft_s": [60.0, 50.0], "accuracy": number / n_actions**2}
        for number, actions in enumerate(itertools.product(range(n_actions), repeat=2))
    ]
    layers = [["linear 4 4", "relu"]] * (n_actions - 1)
    data = {"model": "deep", "layers": layers, "device": "made", "budget_s": BUDGET_S, "rows": rows}
    deep = read_table(write_table(tmp_path / "deep.json", data))
    trace = simulate(
        read_device("made"), jobs_of("deep", [deep], 1), make_advisor("fixed-1-10", np.random.default_rng(0))
    )
    assert trace.outcomes["test"][0] == 22 / n_actions**2
    for file in FILES:
        file.write(trace, tmp_path)
    with (tmp_path / JOBS_FILE).open() as jobs, (tmp_path / SEQUENCES_FILE).open() as sequences:
        assert [row["actions"] for row in csv.DictReader(jobs)] == ["1-10"]
        assert len({row["actions"] for row in csv.DictReader(sequences)}) == n_actions**2
    with pytest.raises(
        OptionsError, match="fixed-110: deep has 2 decisions among 12 actions, expected one like fixed-11"
    ):
        simulate(read_device("made"), jobs_of("deep", [deep], 1), make_advisor("fixed-110", np.random.default_rng(0)))


def test_values_that_no_scheduler_could_use_are_refused(tmp_path: Path) -> None:
    def made(name: str, left_s: list[float], n_draws: int = 2) -> Table:
        data = table_json(n_draws=n_draws)
        return read_table(
            write_table(tmp_path / name, {**data, "rows": [{**r, "timeleft_s": left_s} for r in data["rows"]]})
        )

    # A job that is decided about before it trains was measured then.
    row = values_json([made("at once.json", [BUDGET_S, 50.0, 40.0])])["jobs"][0]["rows"][0]
    assert row["shares"] == [0.0, 0.5, 0.6, 0.8, 1.0]
    assert row["draws"][0][0] == 0.2
    usual = made("usual.json", [60.0, 50.0, 40.0])
    for tables, message in (
        ([usual, usual], "two tables are called 'usual'"),
        ([made("close.json", [60.0, 59.99999, 40.0])], "close: has decisions or rungs within a millionth"),
        ([made("single.json", [60.0, 50.0, 40.0], 1)], "single: has one training of each sequence, expected two"),
    ):
        with pytest.raises(HdrlError, match=message):
            values_json(tables)
    with pytest.raises(OptionsError, match="both: two tables are called 'usual'"):
        jobs_of("both", [usual, usual], 4)


def test_values_of_a_network_that_ends_with_a_convolution(tmp_path: Path) -> None:
    layers = ["conv1d 1 8 3", "relu", "conv1d 8 5 3", "adaptive_avgpool", "flatten"]
    rows = [row for row in table_json()["rows"] if 3 not in row["actions"]]
    ends = read_table(write_table(tmp_path / "ends.json", table_json(layers=layers, rows=rows)))
    assert values_json([ends])["jobs"][0]["rows"][0]["draws"][0][0] == 1 / 5


def test_what_is_shared_is_paid_once(table: Table) -> None:
    job = AdaptingJob(table, 0, 0)
    job.train(table.sequence([0, 0, 0]), rung=0)
    assert job.spent_s == pytest.approx(10 + 10 + 20)
    job.train(table.sequence([0, 0, 1]))
    assert job.spent_s == pytest.approx(10 + 10 + 20 + 40)
    job.train(table.sequence([0, 0, 0]))
    assert job.spent_s == pytest.approx(10 + 10 + 40 + 40)


BROKEN: dict[str, dict[str, Any]] = {
    "time": {"timeleft_s": [40.0, 50.0, 60.0]},
    "draw": {"draws": [[0.5, 1.5]] * 2},
    "draws": {"draws": [[0.5, 0.5]]},
    "no draws": {"draws": []},
    "text": {"timeleft_s": ["60", 50.0, 40.0]},
    "branch": {"timeleft_s": [99.0, 98.0, 97.0]},
    "before": {"before": [[0.2, 0.3, -0.1]] * 2},
    "others": {"others": {"linear-decay": [[0.5, 7]] * 2}},
    "rungs": {"rungs": ["0.5"]},
    "no rungs": {"rungs": []},
    "twice": {"actions": [0, 0, 2]},
    "actions": {"actions": [0, 0, 4]},
    "accuracy": {"accuracy": 7, "draws": None},
    "curves": {"curves": None},
    "model": {"model": "convnet5"},
    "layer": {"layers": ["konv 3 32 3"]},
    "blocks": {"layers": [["linear 4 4"], "relu"]},
    "device": {"device": ""},
    "budget": {"budget_s": -1},
}
"""What is wrong: of the fourth row, or of the table; without ``None``."""


def broken(change: str) -> dict[str, Any]:
    data = table_json()
    if change == "row":
        data["rows"].pop(5)
        return data
    row, changes = data["rows"][3], BROKEN[change]
    where = row if set(changes) <= {*row, "accuracy"} else data
    where.update(changes)
    data["rows"][3] = {key: value for key, value in row.items() if value is not None}
    return data


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("row", "has no row of actions [0, 1, 1], expected each of 64 sequences once"),
        ("time", "has times left that do not fall"),
        ("draw", "rows[3].draws are not 2 x 2 accuracies from 0 to 1"),
        ("draws", "rows[3].draws are not 2 x 2 accuracies from 0 to 1"),
        ("no draws", "rows[3].draws are not pairs of accuracies from 0 to 1"),
        ("text", "rows[3].timeleft_s is not one number for each action"),
        ("branch", "has times left that do not fall"),
        ("before", "rows[3].before are not 2 x 3 accuracies from 0 to 1"),
        ("others", "others.linear-decay are not 2 x 2 accuracies from 0 to 1"),
        ("rungs", "rungs are not ascending shares between 0 and 1"),
        ("no rungs", "has curves, but no rungs"),
        ("twice", "rows[3].actions are [0, 0, 2], those of rows[2], too"),
        ("actions", "rows[3].actions are [0, 0, 4], expected 3 whole numbers from 0 to 3"),
        ("device", "device is '', expected the name of the device that ran the jobs"),
        ("accuracy", "rows[3].accuracy is 7, expected a number from 0 to 1"),
        ("curves", "has rungs, but rows without curves"),
        ("blocks", "layers is neither a list of texts nor a list of such lists, one for each block"),
        ("model", "no model 'convnet5' is known; did you mean"),
        ("layer", "no layer 'konv'; did you mean 'conv'?"),
        ("budget", "has no budget"),
    ],
)
def test_broken_tables_are_one_line(tmp_path: Path, change: str, message: str) -> None:
    with pytest.raises(HdrlError) as told:
        read_table(write_table(tmp_path / "broken.json", broken(change)))
    assert message in str(told.value)
    assert "\n" not in str(told.value)


def test_what_tables_do_not_say_is_refused(tmp_path: Path, table: Table) -> None:
    seed = read_table(write_table(tmp_path / "seed.json", seed_json()))
    load = jobs_of("seed", [seed], 2)
    random = np.random.default_rng(0)
    for policy, message in (("successive-halving", "no learning curves"), ("linear-decay", "no training by linear")):
        with pytest.raises(WorkloadError, match=message):
            simulate(read_device("gv100"), load, make_advisor(policy, random))
    with pytest.raises(WorkloadError, match="was measured on gv100, not on made, expected platform gv100"):
        simulate(read_device("made"), load, make_advisor("never", random))
    with pytest.raises(HdrlError, match="has device gv100, made has made, expected tables that agree"):
        jobs_of("both", [table, seed], 2)
    with pytest.raises(UnknownName, match="did you mean 'thompson'"):
        read_policy("tompson")
    with pytest.raises(ReadError, match="is not a table of adaptations"):
        read_table(write_table(tmp_path / "other.json", {}))
    assert [read_policy(name) for name in NAMES] == list(NAMES)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"budget_s": 10**400}, "has no budget"),
        ({"budget_s": [1]}, "has no budget"),
        ({"device": "a\nb"}, r"device is 'a\\nb', expected the name of the device"),
        ({"layers": ["linear ² 4"]}, "expected linear and 2 whole numbers above 0"),
        ({"layers": [f"linear {'9' * 5000} 4"]}, "expected linear and 2 whole numbers above 0"),
    ],
)
def test_numbers_that_no_table_has_are_told(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(HdrlError, match=message):
        read_table(write_table(tmp_path / "made.json", table_json(**changed)))
