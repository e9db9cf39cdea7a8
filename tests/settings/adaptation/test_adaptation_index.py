"""The index over blocks: what it weighs, decisions by hand, the environment that judges weights, and the bound."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from click.testing import CliRunner
from gymnasium.utils import env_checker

from hdrl.base import elementary
from hdrl.base.errors import DecisionError, HdrlError, OptionsError
from hdrl.experiments import adaptation_index as bound
from hdrl.experiments.adaptation_unseen import family_tables
from hdrl.launcher.launch import launch
from hdrl.launcher.main import cli
from hdrl.settings.adaptation.index import (
    BY_HAND,
    NAMES,
    IndexedTables,
    best_actions,
    checked_weights,
    features,
    run_index,
    sequence_of,
    start_weights,
    weights_of,
)
from hdrl.settings.adaptation.index_env import AdaptationIndexEnv, AdaptationIndexVectorEnv
from hdrl.settings.adaptation.inputs import family_of
from hdrl.settings.adaptation.load import jobs_of
from hdrl.settings.adaptation.machine import read_device
from hdrl.settings.adaptation.models import model_of
from hdrl.settings.adaptation.policies import make_advisor
from hdrl.settings.adaptation.simulation import decide_step_by_step, simulate
from hdrl.settings.adaptation.table import Table, read_table

from .made_tables import DEVICE, table_json, write_table

TABLES = family_tables()
N = len(NAMES)


def weighed(**weights: float) -> Any:
    found = np.zeros(N)
    for name, value in weights.items():
        found[list(NAMES).index(name)] = value
    return found


def drawn(n: int, seed: int = 0) -> Any:
    return weights_of(np.random.default_rng(seed).normal(0, 2, (n, N)))


def test_what_is_weighed_is_what_the_network_and_the_clock_say() -> None:
    model = model_of("m", ["conv 1 8 3", "batchnorm 8", "relu", "adaptive_avgpool", "flatten", "linear 8 5"])
    assert (72 + 40, len(model.targets)) == (112, 2)
    deep = model.deepened(0)  # 576 more weights
    of_first, of_last = (dict(zip(NAMES, row.tolist(), strict=True)) for row in features(deep, 0.7, 1 / 3))
    log = [float(one) for one in elementary.log([8, (688 + 576) / 688, 688, 5, (688 + 25) / 688])]
    assert of_first == {
        **{"deepens": 1.0, "place": 0.0, "is_last": 0.0, "time_left": pytest.approx(0.2), "place_and_time": 0.0},
        **{"step": 1 / 3, "place_and_step": 0.0, "is_convolution": 1.0, "place_and_convolutions": 0.0},
        **{"width": log[0] - 3, "growth": log[1], "size": log[2] - 7, "classes": log[3] - 2},
        **{"again": 1.0, "deepened": 1.0},
    }
    changed = {
        **{"place": 1.0, "is_last": 1.0, "place_and_time": pytest.approx(0.2), "place_and_step": 1 / 3},
        **{"is_convolution": 0.0, "place_and_convolutions": 1.0, "width": log[3] - 3, "growth": log[4], "again": 0.0},
    }
    assert of_last == {**of_first, **changed}


def test_the_largest_index_decides_and_nothing_is_done_below_zero() -> None:
    seen = np.zeros((3, 2, N))
    seen[:, :, 0], seen[:, 1, 1] = 1.0, [1.0, 0.0, -1.0]
    weights = np.array([weighed(place=1.0), weighed(deepens=-0.5, place=1.0), weighed(deepens=-2.0)])
    assert best_actions(seen, weights).tolist() == [[1, 0, 0], [1, 2, 2], [2, 2, 2]]


def test_by_hand_the_last_block_is_deepened_while_half_is_left(tmp_path: Path) -> None:
    """The made table has 60, 50 and 40 of 100 s left before its decisions."""
    table = read_table(write_table(tmp_path / "made.json", table_json()))
    assert table.actions(sequence_of(table, start_weights())) == (2, 2, 3)
    outcomes = simulate(read_device(DEVICE), jobs_of("made", [table], 3), make_advisor(BY_HAND, None)).outcomes  # type: ignore[arg-type]
    assert outcomes["sequence"].tolist() == [table.sequence([2, 2, 3])] * 3
    for one in TABLES:
        shares = one.time_left_s / one.budget_s
        by_rule = decide_step_by_step(one, lambda state, _, of=shares: 2 if of[state] >= 0.5 else 3)
        assert sequence_of(one, start_weights()) == by_rule


def test_all_candidates_and_tables_at_once_do_what_each_does_step_by_step() -> None:
    weights = drawn(6)
    found = IndexedTables(TABLES).sequences(weights)
    assert len(np.unique(found)) > 10

    def decide(table: Table, one: Any, state: int, n_done: int) -> int:
        seen = features(table.models[state], float(table.time_left_s[state]) / table.budget_s, n_done / 3)
        values = [sum(w * x for w, x in zip(one, row, strict=True)) for row in seen.tolist()]
        return values.index(max(values)) if max(values) >= 0 else len(values)

    for candidate, one in enumerate(weights.tolist()):
        for position, table in enumerate(TABLES):
            alone = decide_step_by_step(table, lambda state, done, t=table, w=one: decide(t, w, state, len(done)))
            assert found[candidate, position] == alone == sequence_of(table, np.array(one))


@pytest.mark.parametrize("name", NAMES)
def test_each_weight_says_something(name: str) -> None:
    """No feature is dead: for some weights a change of it changes what is done."""
    base = drawn(20, seed=1)
    indexed = IndexedTables(TABLES)
    assert not np.array_equal(indexed.sequences(base), indexed.sequences(base + weighed(**{name: 3.0})))


@pytest.mark.parametrize("weights", [[1.0], np.full(N, np.nan), np.zeros((2, N - 1)), np.zeros((1, 1, N))])
def test_other_weights_are_refused(weights: Any) -> None:
    with pytest.raises(OptionsError, match=f"{N} finite numbers"):
        checked_weights(weights)


# ---------------------------------------------------------------------- the environment

SMALL: dict[str, Any] = {"load": "families/digits_*", "n_jobs": 20, "n_windows": 3}


@pytest.mark.filterwarnings("ignore:.*we recommend using a symmetric")
def test_gymnasium_accepts_it() -> None:
    env = gymnasium.make("hdrl/AdaptationIndex-v0", **SMALL)
    assert isinstance(env.unwrapped, AdaptationIndexEnv)
    env_checker.check_env(env.unwrapped, skip_render_check=True)


@pytest.mark.parametrize("outcome", ["drawn", "mean"])
def test_no_change_is_the_index_by_hand(outcome: str) -> None:
    """Its ratio to itself is 1; other weights have that of their wrong answers."""
    loads = ["families/digits_*", "families/signals_*"]
    envs = AdaptationIndexVectorEnv(3, **(SMALL | {"load": loads, "outcome": outcome, "part": (0.5, 1.0)}))
    offsets = np.vstack([np.zeros(N), np.random.default_rng(3).normal(0, 2, (2, N))])
    envs.reset(seed=5)
    _, rewards, ended, _, info = envs.step(offsets)
    assert ended.all()
    windows = envs.draw((5, 0))
    assert {one.workload for number in range(9) for one in envs.draw((5, number))} == {0, 1}
    assert all(one.start >= 128 for one in windows)
    accuracies = []
    for row in weights_of(offsets):
        jobs = []
        for one in windows:
            cut = envs.loads[one.workload].window(one.start, one.n_jobs)
            for table, draw in zip((cut.tables[number] for number in cut.table), cut.draw, strict=True):
                values = table.validation[sequence_of(table, row)]
                jobs.append(values[draw] if outcome == "drawn" else values.mean())
        accuracies.append(np.mean(jobs))
    assert info["results"]["objective"] == pytest.approx(accuracies)
    assert rewards[0] == -1.0
    assert rewards == pytest.approx([-(1 - one) / (1 - accuracies[0]) for one in accuracies])
    assert len(set(rewards.tolist())) > 1
    assert envs.draw((5, 1)) != windows


def test_whole_loads_can_judge() -> None:
    loads = [jobs_of("some", TABLES[4:8], 30), jobs_of("one", TABLES[:1], 7)]
    envs = AdaptationIndexVectorEnv(4, load=loads, n_jobs="all", n_windows=2)
    envs.reset(seed=1)
    *_, info = envs.step(drawn(4) - start_weights())
    objective = (run_index(loads, drawn(4)) * [30 / 37, 7 / 37]).sum(axis=1)
    assert info["results"]["objective"] == pytest.approx(objective)


def test_whole_loads_are_judged_as_they_are_simulated() -> None:
    loads = [jobs_of("some", TABLES[4:8], 30), jobs_of("one", TABLES[:1], 7)]
    weights = drawn(3, seed=2)
    found = run_index(loads, weights)
    assert found.shape == (3, 2)
    for position, load in enumerate(loads):
        for number, one in enumerate(weights):
            sequences = [sequence_of(table, one) for table in load.tables]
            jobs = zip(load.table.tolist(), load.draw.tolist(), strict=True)
            alone = np.mean([load.tables[table].validation[sequences[table], draw] for table, draw in jobs])
            assert found[number, position] == alone


@pytest.mark.parametrize(
    "arguments",
    [{"start": "consecutive"}, {"outcome": "best"}, {"n_windows": 0}, {"n_jobs": 500}, {"machine": "gv100"}],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(HdrlError, match=r"expected|known: drawn, mean|has 256 jobs"):
        AdaptationIndexVectorEnv(1, **(SMALL | arguments))


def test_actions_that_are_no_weights_are_refused() -> None:
    envs = AdaptationIndexVectorEnv(2, **SMALL)
    with pytest.raises(DecisionError, match="reset"):
        envs.step(np.zeros((2, N)))
    envs.reset(seed=0)
    with pytest.raises(DecisionError, match="finite"):
        envs.step(np.full((2, N), np.inf))


def test_what_is_evolved_is_compared_and_advises_live_jobs(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs torch (the extra adaptation)")
    write_table(tmp_path / "made.json", table_json((2, 3, 3), noise=0.01, n_draws=6))
    learning = {
        **{"environment": "adaptation_index", "algorithm": "cma_es", "n_envs": 8, "iterations": 6},
        **{"episodes": {"n_jobs": 12}, "arguments": {"n_windows": 1, "outcome": "mean"}, "tensorboard": False},
    }
    options = {"setting": "adaptation", "platform": DEVICE, "workload": "made.json", "nb_jobs": 40}
    (tmp_path / "learn.json").write_text(json.dumps({**options, "learning": learning}))
    words = [str(tmp_path / "learn.json"), "--out", str(tmp_path / "out"), "--quiet"]
    done = CliRunner().invoke(launch, words)
    assert done.exit_code == 0, done.output
    model = str(tmp_path / "out" / "model.pt")
    words = [
        "compare",
        f"mine={model}",
        BY_HAND,
        "--setting",
        "adaptation",
        "-p",
        DEVICE,
        "-w",
        str(tmp_path / "made.json"),
    ]
    words += ["--set", "nb_jobs=24", "--windows", "12:2", "--baseline", BY_HAND, "-j", "1"]
    done = CliRunner().invoke(cli, [*words, "--out", str(tmp_path / "judged")])
    assert done.exit_code == 0, done.output
    rows = json.loads((tmp_path / "judged" / "summary.json").read_text())["rows"]
    regrets = {row["candidate"]: row["mean"] for row in rows if row["metric"] == "mean_regret"}
    assert 0.0 <= regrets["mine"] < regrets[BY_HAND]
    live = ["--model", "feedforward1", "--data", "signals", "--budget", "0.02", "--gap", "0.0015"]
    for start, digits in (("0.004", "111"), ("0.015", "222")):  # the last block of two, or nothing
        done = CliRunner().invoke(cli, ["adaptation", "run", BY_HAND, *live, "--start", start])
        assert done.output.startswith(f"seed 0: {digits}, "), done.output
    done = CliRunner().invoke(cli, ["adaptation", "run", model, *live, "--start", "0.004"])
    assert done.exit_code == 0, done.output


# ---------------------------------------------------------------------- the experiment and its bound


def test_the_best_partition_is_found() -> None:
    """The first fact says which of three sequences is best: at 0 and 1 the first, at 2 the second, at 3 the third."""
    seen = np.array([[0.0, 5.0], [1.0, 1.0], [2.0, 5.0], [3.0, 1.0]])
    worth = np.array([[0.9, 0.2, 0.1], [0.8, 0.1, 0.3], [0.3, 0.9, 0.0], [0.0, 0.4, 0.9]])
    means = [
        np.mean([row[rule(facts)] for row, facts in zip(worth, seen, strict=True)])
        for rule in (bound.best_rule(seen, worth, n_splits) for n_splits in (0, 1, 2))
    ]
    assert means == pytest.approx([(0.9 + 0.8 + 0.3) / 4, (0.9 + 0.8 + 0.9 + 0.4) / 4, (0.9 + 0.8 + 0.9 + 0.9) / 4])
    rule = bound.best_rule(seen, worth, 2)
    assert [rule(np.array([value, 9.0])) for value in (-7.0, 1.4, 1.6, 2.6)] == [0, 0, 1, 2]
    # Where no partition helps, none is made.
    alike = bound.best_rule(seen, np.tile([0.1, 0.5], (4, 1)), 2)
    assert [alike(facts) for facts in seen] == [1] * 4


class Weights:
    """A model that holds weights, and plays them."""

    def __init__(self, row: str, offsets: Any) -> None:
        self.row, self.agent_state = row, {"weights": offsets}

    def play(self, machine: Any, load: Any) -> Any:
        policies = {table.name: sequence_of(table, weights_of(self.agent_state["weights"])) for table in load.tables}
        (sequence,) = policies.values()
        digits = "".join(map(str, load.tables[0].actions(sequence)))
        return simulate(machine, load, make_advisor(f"fixed-{digits}", np.random.default_rng(0)))


def test_indices_are_held_against_fixed_sequences_and_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    from hdrl.experiments import adaptation_unseen as unseen

    monkeypatch.setattr(unseen, "N_JOBS", (2, 4))
    families = sorted({family_of(table.name) for table in TABLES})
    always_last = -start_weights() + weighed(is_last=1.0)
    never = -start_weights() + weighed(deepens=-1.0)
    models: Any = [Weights(f"index-without-{name}", offsets) for name in families for offsets in (always_last, never)]
    results = bound.adaptation_index({}, models)
    found = {position: one.value for position, one in results.items()}
    assert found["index", "regret"] == pytest.approx((found["always-last", "regret"] + found["never", "regret"]) / 2)
    mean = weights_of((always_last + never) / 2)
    regret = np.mean([table.best - table.expected[sequence_of(table, mean)] for table in TABLES])
    assert found["mean weights", "regret"] == pytest.approx(regret)
    assert found["index", "regret on own tables"] == pytest.approx(found["index", "regret"])  # each is left out once
    difference = found["best-fixed", "regret"] - found["mean weights", "regret"]
    assert found["best-fixed less mean weights", "regret"] == pytest.approx(difference)
    hindsight = [found[f"{name}, in hindsight", "regret"] for name in bound.CELLS]
    assert hindsight == sorted(hindsight, reverse=True)
    best = max(np.mean([table.expected for table in TABLES], axis=0))
    assert hindsight[0] == pytest.approx(np.mean([table.best for table in TABLES]) - best)
    assert found["oracle", "regret"] == 0.0 < found["oracle, by other trainings", "regret"]
    assert results["best-fixed less oracle, by other trainings", "regret"].null == 0.0


def test_no_training_chooses_for_itself() -> None:
    """A sequence that is by far the best in one training is chosen for the others alone."""
    import dataclasses

    changed = []
    for table in TABLES:
        test = np.full_like(table.test, 0.5)
        test[7, 3] = 1.0
        changed.append(dataclasses.replace(table, test=test))
    choices = bound._bounds(changed)
    accuracies = [
        choices[name](changed[0], 0) for name in ("oracle, by other trainings", "four cells, by other trainings")
    ]
    assert accuracies == [pytest.approx(0.5)] * 2
    assert np.argmax(choices["oracle"](changed[0], 0)) == 7
