"""Experiments that are claimed: read, run again, and compared with their references."""

import csv
import json
import math
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import hdrl.experiment.reproduce.recipe as recipe_module
import hdrl.experiment.reproduce.reproduce as module
from hdrl.base.errors import HdrlError, OptionsError, OutputError, ReadError, UnknownName
from hdrl.experiment.reproduce.claims import Claim, as_findings, claim_of, differences, null_test
from hdrl.experiment.reproduce.recipe import (
    TRACES_VARIABLE,
    find_traces,
    missing_traces,
    read_experiment,
    shipped_experiments,
    trace_folders,
)
from hdrl.experiment.reproduce.reproduce import reproduce
from hdrl.experiment.reproduce.resulttable import read_reference, read_results, write_reference, write_results
from hdrl.experiment.run.inputs import read_options, read_sweep
from hdrl.experiments import HOMES, PROTOCOLS, find_protocol
from hdrl.experiments.findings import Finding
from hdrl.launcher.main import cli
from hdrl.settings.batch.metrics import METRICS

SHARED = Path(__file__).parents[3] / "shared" / "traces" / "swf"
EXPERIMENTS = sorted(shipped_experiments())


def write_experiment(folder: Path, reference: str | None = None, **recipe: object) -> Path:
    folder.mkdir(exist_ok=True)
    base = {"title": "A title", "question": "Why?", "source": "nowhere"}
    (folder / "experiment.json").write_text(json.dumps(base | recipe))
    if reference is not None:
        (folder / "reference.csv").write_text(reference)
    return folder


@pytest.fixture
def of_options(small_world: Path, stand_in: object) -> Path:
    """Return an experiment of one options file, with a stand-in for the simulator, and a reference that is right."""
    return write_experiment(
        small_world.parent,
        "row,column,value\nsmall,n_finished,3\nsmall,makespan_s,36\n",
        kind="options",
        options={"small": "options.json"},
        metrics=["n_finished", "makespan_s"],
    )


FINDINGS = {
    ("a, b", "x"): Finding(0.1),
    ("a, b", "y"): Finding(math.nan),
    ("c", "ratio"): Finding(0.8, 0.7, 0.9, trainings=(0.7, 0.8, 0.9), null=1.0),
}


def test_results_come_back(tmp_path: Path):
    files = tmp_path / "results.csv", tmp_path / "trainings.csv"
    write_results(*files, FINDINGS)
    read = read_results(*files)
    assert list(read) == list(FINDINGS)
    assert read["c", "ratio"] == FINDINGS["c", "ratio"]
    assert math.isnan(read["a, b", "y"].value)
    assert read["a, b", "x"].trainings == ()


def test_references_come_back(tmp_path: Path):
    claims = [claim_of(position, one) for position, one in FINDINGS.items()]
    write_reference(tmp_path / "reference.csv", claims, 0.0)
    read = read_reference(tmp_path / "reference.csv", 0.0)
    assert [repr(one) for one in read] == [repr(one) for one in claims]
    assert [one.kinds for one in read] == [["value"], ["value"], ["spread", "sign"]]
    assert differences(read, FINDINGS) == []
    assert (tmp_path / "reference.csv").read_text().startswith("row,column,kind,value,low,high,rule,n,deviation,null,")


def test_differences_are_told_by_their_tolerances():
    claims = [
        Claim("r", "near", "value", 100.0, tolerance=0.5),
        Claim("r", "far", "value", 100.0, tolerance=0.5),
        Claim("r", "gone", "value", 1.0),
        Claim("r", "nan", "value", math.nan),
        Claim("r", "no longer nan", "value", math.nan),
        Claim("r", "end", "value", 1.0, 0.9, 1.1, tolerance=0.01),
    ]
    found = {
        ("r", "near"): Finding(100.5),
        ("r", "far"): Finding(99.4),
        ("r", "nan"): Finding(math.nan),
        ("r", "no longer nan"): Finding(1.0),
        ("r", "end"): Finding(1.0, 0.9, 1.2),
        ("r", "not claimed"): Finding(2.0),
    }
    told = {one.column: (one.claimed, one.found) for one in differences(claims, found)}
    assert told.keys() == {"far", "gone", "no longer nan", "end"}
    assert told["far"] == ("100", "99.4")
    assert told["gone"] == ("1", "nothing")
    assert told["end"] == ("1.1", "1.2")


def test_a_spread_holds_for_99_of_100_other_groups_of_trainings():
    random = np.random.default_rng(1)
    n, holds = 10, 0
    for _ in range(2000):
        before, after = random.normal(3.0, 0.5, (2, n))
        claim = claim_of(("r", "c"), Finding(before.mean(), trainings=tuple(before)))
        holds += not differences([claim], {("r", "c"): Finding(after.mean(), trainings=tuple(after))})
    assert 0.98 <= holds / 2000 <= 0.997


def test_the_side_of_an_effect_is_that_of_its_interval():
    def sign(*args: Any, **more: Any) -> str | None:
        return claim_of(("r", "c"), Finding(*args, **more), null=1.0).sign

    assert sign(0.9, 0.8, 0.99) == "below"
    assert sign(0.9, 0.8, 1.01) == "no difference shown"
    assert sign(1.2, 1.1, 1.3, trainings=(0.1, 2.3)) == "above"  # an own interval comes first
    assert sign(0.9, trainings=(0.89, 0.9, 0.91)) == "below"
    assert sign(0.9, trainings=(0.5, 0.9, 1.3)) == "no difference shown"
    assert sign(0.999) == "below"  # a simulation is exact
    assert claim_of(("r", "c"), Finding(0.9)).sign is None
    assert claim_of(("r", "c"), Finding(math.nan, null=1.0)) is None


def test_another_side_is_a_difference():
    claim = Claim("r", "c", "sign", 0.8, 0.7, 0.9, null=1.0, sign="below")
    assert differences([claim], {("r", "c"): Finding(0.5, 0.4, 0.6)}) == []
    (one,) = differences([claim], {("r", "c"): Finding(0.95, 0.8, 1.1)})
    assert (one.kind, one.claimed, one.found) == ("sign", "below 1", "0.95 [0.8, 1.1]")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("row,value\n", "must have the columns row, column, value"),
        ("row,column,value,colour\n", "has a column colour; known: row, column, kind"),
        ("row,column,value\na,b,1\na,b,2\n", ":3: 'a', 'b' is claimed twice"),
        ("row,column,value\na,b,x\n", ":2: value is 'x', expected a number"),
        ("row,column,value\na,b,inf\n", ":2: value is 'inf', expected a finite number"),
        ("row,column,value,tolerance\na,b,1,-1\n", "tolerance is '-1', expected at least 0"),
        ("row,column,value,kind\na,b,1,guess\n", "kind is 'guess'; known: sign, spread, value"),
        ("row,column,value,source\na,b,1,heard\n", "source is 'heard'; known: hdrl, published"),
        ("row,column,value,kind,n\na,b,1,spread,3\n", "rule is '', expected '99 % prediction'"),
        ("row,column,value,kind,rule,n\na,b,1,spread,99 % prediction,3\n", "a spread needs the value, n trainings"),
        ("row,column,value,kind,rule,n,deviation\na,b,1,spread,99 % prediction,1,0\n", "n is '1', expected at least 2"),
        ("row,column,value,null\na,b,1,1\n", "a null without a sign"),
        ("row,column,value,kind\na,b,1,sign\n", "claims a sign, but has none"),
        ("row,column,value,low,high,null,sign\na,b,0.9,0.8,1.1,1,below\n", r"claims below 1, but .* \[0.8, 1.1\]"),
    ],
)
def test_damaged_references(tmp_path: Path, text: str, problem: str):
    (tmp_path / "reference.csv").write_text(text)
    with pytest.raises(ReadError, match=problem):
        read_reference(tmp_path / "reference.csv", 0.0)


def test_own_tolerances_come_before_the_common_one(tmp_path: Path):
    (tmp_path / "reference.csv").write_text("row,column,value,tolerance\na,b,100,\na,c,100,0.25\n")
    common, own = read_reference(tmp_path / "reference.csv", 0.01)
    assert (common.allowed, own.allowed) == (1.0, 0.25)


def test_a_number_may_be_published_and_recorded(tmp_path: Path):
    path = tmp_path / "reference.csv"
    path.write_text("row,column,value,tolerance,source\na,b,1.2,0.05,published\na,b,1.21,,hdrl\n")
    published, own = read_reference(path, 0.0)
    assert differences([published, own], {("a", "b"): Finding(1.21)}) == []
    assert [one.source for one in (published, own)] == ["published", "hdrl"]


def test_without_an_effect_all_effects_fail():
    claims = [
        Claim("r", "ratio", "spread", 0.8, 0.7, 0.9, n=10, deviation=0.3, null=1.0, sign="below"),
        Claim("r", "exact", "value", 0.8, tolerance=1e-9, null=1.0, sign="below"),
        Claim("r", "same", "value", 1.0, 0.9, 1.1, tolerance=1e-9, null=1.0, sign="no difference shown"),
        Claim("r", "mean", "value", 7.0),
    ]
    found = null_test(claims)
    assert (found.n_effects, found.passing, found.n_same, found.n_numbers) == (2, (), 1, 1)
    assert found.by_sign_alone == 1  # the number of the first would stand: 1 is within its spread


def test_a_ratio_whose_tolerance_holds_1_is_found_without_an_effect(of_options: Path):
    reference = "row,column,value,tolerance\nmine,ratio of mean_wait_s,0.8,0.3\nmine,ratio of energy_j,0.8,0.1\n"
    (of_options / "reference.csv").write_text(reference)
    name = of_options.name
    assert run(str(of_options), "--null") == (
        1,
        f"{name}: mine, ratio of mean_wait_s would be found without any effect\n"
        f"{name}: 1 of 2 claimed effects would be found without any\n",
    )


def test_an_experiment_of_options(of_options: Path, tmp_path: Path):
    result = reproduce(read_experiment(of_options), out=tmp_path / "out")
    assert result.is_same
    assert result.results == as_findings({("small", "n_finished"): 3.0, ("small", "makespan_s"): 36.0})
    assert (tmp_path / "out/small/metrics.json").is_file()
    assert (
        tmp_path / "out/results.csv"
    ).read_text() == "row,column,value,low,high,null\nsmall,n_finished,3.0,,,\nsmall,makespan_s,36.0,,,\n"
    assert not (tmp_path / "out/trainings.csv").exists()
    assert (tmp_path / "out/differences.csv").read_text() == "row,column,kind,claimed,found,allowed\n"


def test_what_was_finished_is_not_run_again(of_options: Path, tmp_path: Path, stand_in: object):
    experiment = read_experiment(of_options)
    reproduce(experiment, out=tmp_path / "out")
    assert reproduce(experiment, out=tmp_path / "out").is_same
    assert len(stand_in.calls) == 1
    write_experiment(of_options, kind="options", options={"other": "options.json"}, metrics=["n_finished"])
    with pytest.raises(OutputError, match="holds another experiment"):
        reproduce(read_experiment(of_options), out=tmp_path / "out")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("mine")
    with pytest.raises(OutputError, match="is not empty"):
        reproduce(experiment, out=tmp_path / "mine")


def test_a_protocol_is_given_the_traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def protocol(traces: Mapping[str, Path], models: Sequence[Any]) -> dict[tuple[str, str], float]:
        return {("size", "bytes"): float(traces["log.swf"].stat().st_size), ("models", "n"): float(len(models))}

    monkeypatch.setitem(PROTOCOLS._items, "size", protocol)
    folder = write_experiment(
        tmp_path / "mine", kind="protocol", protocol="size", traces={"log.swf": {"how": "Write to its author."}}
    )
    experiment = read_experiment(folder)
    (tmp_path / "traces").mkdir()
    with pytest.raises(ReadError, match=r"mine: needs the trace log.swf.*Write to its author\. .*--traces DIR"):
        reproduce(experiment, out=tmp_path / "out", traces=[tmp_path / "traces"])
    assert not (tmp_path / "out").exists()
    (tmp_path / "traces/log.swf").write_text("12345")
    result = reproduce(experiment, out=tmp_path / "out", traces=[tmp_path / "traces"])
    assert result.results == as_findings({("size", "bytes"): 5.0, ("models", "n"): 0.0})
    assert result.claims == ()
    assert not result.is_same


def test_traces_are_looked_for_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = write_experiment(
        tmp_path / "mine", kind="protocol", protocol="x", traces={"log.swf": {"how": "Ask.", "sha256": "0" * 64}}
    )
    experiment = read_experiment(folder)
    monkeypatch.setenv(TRACES_VARIABLE, f"{tmp_path / 'a'}:{tmp_path / 'b'}")
    assert missing_traces(experiment, trace_folders()) == ["log.swf"]
    (tmp_path / "b").mkdir()
    (tmp_path / "b/log.swf").write_text("another")
    assert missing_traces(experiment, trace_folders()) == []
    with pytest.raises(ReadError, match="is another version"):
        find_traces(experiment, trace_folders())


def test_a_trace_may_come_with_the_experiment(tmp_path: Path):
    folder = write_experiment(tmp_path / "mine", kind="protocol", protocol="x", traces={"runs.csv": {"how": "Ask."}})
    experiment = read_experiment(folder)
    (folder / "runs.csv").write_text("ours")
    assert missing_traces(experiment, []) == []
    assert find_traces(experiment, []) == {"runs.csv": folder / "runs.csv"}
    (tmp_path / "runs.csv").write_text("yours")
    assert find_traces(experiment, [tmp_path]) == {"runs.csv": tmp_path / "runs.csv"}


def test_a_trace_may_be_a_folder(tmp_path: Path):
    need = {"how": "Record it.", "is_folder": True}
    folder = write_experiment(tmp_path / "mine", kind="protocol", protocol="x", traces={"run": need})
    experiment = read_experiment(folder)
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces/run").write_text("a file")
    with pytest.raises(ReadError, match="needs the folder run, which cannot be shipped"):
        find_traces(experiment, [tmp_path / "traces"])
    (tmp_path / "others/run").mkdir(parents=True)
    folders = [tmp_path / "traces", tmp_path / "others"]
    assert find_traces(experiment, folders) == {"run": tmp_path / "others/run"}
    write_experiment(folder, kind="protocol", protocol="x", traces={"run": need | {"sha256": "0" * 64}})
    with pytest.raises(OptionsError, match="sha256 is for a file"):
        read_experiment(folder)


def test_models_of_all_seeds_are_judged_as_one(tmp_path: Path, small_world: Path, monkeypatch: pytest.MonkeyPatch):
    seeds = []

    def train(options: object, *, out: Path, progress: object, resumes: bool) -> None:
        seeds.append((options.seed, resumes))
        out.mkdir(parents=True, exist_ok=True)
        (out / "metrics.json").write_text("{}")
        (out / "training.csv").write_text(f"iteration,n_steps,loss\n1,7,0.5\n2,{10 * options.seed},\n")

    monkeypatch.setattr(module, "run_experiment", train)
    judged = {}

    def judge(traces: Mapping[str, Path], models: Sequence[Any]) -> dict[tuple[str, str], float]:
        judged["models"] = [model.path.relative_to(tmp_path / "out").as_posix() for model in models]
        return {("mine", "bsld"): 1.0}

    monkeypatch.setitem(PROTOCOLS._items, "judge", judge)
    folder = write_experiment(
        small_world.parent,
        kind="training",
        options={"ppo": "options.json"},
        seeds=[4, 5],
        protocol="judge",
        logged=["n_steps"],
        is_long=True,
    )
    (tmp_path / "out").mkdir()
    result = reproduce(read_experiment(folder), out=tmp_path / "out", n_workers=1)
    assert seeds == [(4, False), (5, False)]
    assert judged["models"] == ["ppo_seed_4/model.pt", "ppo_seed_5/model.pt"]
    assert {position: one.value for position, one in result.results.items()} == {
        ("ppo, mine", "bsld"): 1.0,
        ("ppo", "n_steps"): 45.0,
    }
    assert result.results["ppo", "n_steps"].trainings == (40.0, 50.0)
    reproduce(read_experiment(folder), out=tmp_path / "out", n_workers=1)
    assert len(seeds) == 2, "what is trained is not trained again"


def test_trainings_are_the_same_however_many_run_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("torch", reason="agents that learn need torch")
    monkeypatch.setitem(PROTOCOLS._items, "judge", lambda traces, models: {("mine", "models"): float(len(models))})
    folder = write_experiment(
        tmp_path / "mine",
        kind="training",
        options={"reinforce": "options.json"},
        seeds=[1, 2, 3],
        protocol="judge",
    )
    options = {
        "platform_file_path": "learning",
        "workload": {"custom": str(Path(__file__).parents[2] / "workloads" / "learning.json")},
        "pybatsim": {"env": {"objective": "makespan", "observation": "minimal"}},
        "learning": {"algorithm": "reinforce", "iterations": 2, "tensorboard": False},
    }
    (folder / "options.json").write_text(json.dumps(options))
    told: list[str] = []
    for n_workers in (1, 2):
        out = tmp_path / f"by_{n_workers}"
        result = reproduce(read_experiment(folder), out=out, n_workers=n_workers, message=told.append)
        assert result.results == as_findings({("reinforce, mine", "models"): 3.0})
    for seed in (1, 2, 3):
        model = Path(f"reinforce_seed_{seed}") / "model.pt"
        assert (tmp_path / "by_1" / model).read_bytes() == (tmp_path / "by_2" / model).read_bytes()
    assert told[:4] == ["training 3 models", *(f"reinforce_seed_{seed} is trained" for seed in (1, 2, 3))]
    assert sorted(told[4:]) == sorted(told[:4])


def test_trainings_start_from_those_of_other_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    started: list[tuple[str, str | None]] = []

    def train(options: Any, *, out: Path, **rest: object) -> None:
        parent = options.agent_options.input_model
        assert parent is None or Path(parent).read_text() == "a model"
        started.append((out.name, parent and str(Path(parent).relative_to(tmp_path / "out"))))
        out.mkdir()
        (out / "model.pt").write_text("a model")
        (out / "metrics.json").write_text("{}")

    def judge(traces: object, models: Sequence[Any]) -> dict[tuple[str, str], float]:
        return {(model.row, "models"): float(len(models)) for model in models}

    monkeypatch.setattr(module, "run_experiment", train)
    monkeypatch.setitem(PROTOCOLS._items, "judge", judge)
    rows = ("third", "first", "second")  # in the order of the file, not in that of training
    more = {"starts_from": {"third": "second", "second": "first"}, "judges": "all"}
    options = dict.fromkeys(rows, "options.json")
    folder = write_experiment(tmp_path / "mine", kind="training", options=options, seeds=[1], protocol="judge", **more)
    (folder / "options.json").write_text(json.dumps({"platform_file_path": "learning", "workload_file_path": "x.swf"}))
    result = reproduce(read_experiment(folder), out=tmp_path / "out", n_workers=1)
    assert result.results == as_findings({(row, "models"): 3.0 for row in rows})
    assert started == [
        ("first_seed_1", None),
        ("second_seed_1", "first_seed_1/model.pt"),
        ("third_seed_1", "second_seed_1/model.pt"),
    ]


_TRAINED = {"kind": "training", "options": {"a": "a.json", "b": "b.json"}, "seeds": [1], "protocol": "x"}


@pytest.mark.parametrize(
    ("recipe", "problem"),
    [
        ({"kind": "options"}, "kind 'options' needs options and metrics"),
        ({"kind": "training", "options": {"a": "a.json"}, "seeds": [1]}, "needs options, seeds and either sweep or"),
        (_TRAINED | {"starts_from": {"b": "c"}}, "starts_from names 'c', which is not a row of options"),
        (_TRAINED | {"starts_from": {"a": "b", "b": "a"}}, "starts_from has a cycle: a, b"),
        ({"kind": "sweep", "sweep": "../x.json"}, "sweep is '../x.json', expected the name of a file"),
        ({"kind": "sweep", "sweep": "x.json"}, "names 'x.json', which is not in its folder"),
        ({"kind": "dance"}, "kind is 'dance'; known: "),
        ({"kind": "protocol", "protocol": "x", "colour": 1}, "the file has no key 'colour'; known: "),
    ],
)
def test_mistakes_in_a_recipe(tmp_path: Path, recipe: dict[str, object], problem: str):
    folder = write_experiment(tmp_path / "mine", **recipe)
    with pytest.raises(HdrlError, match=r"mine/experiment\.json") as error:
        read_experiment(folder)
    assert problem in str(error.value)
    assert "\n" not in str(error.value)


def test_unknown_names():
    with pytest.raises(UnknownName, match="did you mean 'pairs36-gaia'"):
        read_experiment("pairs36-gaja")
    with pytest.raises(UnknownName, match="no protocol 'x'"):
        find_protocol("x")


def test_every_protocol_is_where_the_table_says():
    homes = {name: module for module, names in HOMES.items() for name in names}
    for name, home in homes.items():
        find_protocol(name)
        text = Path(str(sys.modules[home].__file__)).read_text(encoding="utf-8")
        assert f'@PROTOCOLS.register("{name}")' in text
    assert set(PROTOCOLS) == set(homes)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_shipped_experiment_makes_sense(name: str):
    experiment = read_experiment(name)
    recipe = experiment.recipe
    for file in recipe.options.values():
        options = read_options(experiment.folder / file)
        assert getattr(options, "platform", None) or options.platform_file_path
    if recipe.sweep is not None:
        assert read_sweep(experiment.folder / recipe.sweep).candidates
    if recipe.protocol is not None:
        assert callable(find_protocol(recipe.protocol))
    assert set(recipe.metrics) <= set(METRICS)
    named = {*recipe.options.values(), *recipe.traces, recipe.sweep, "experiment.json", "reference.csv", "README.md"}
    others = {path.name for path in experiment.folder.iterdir()} - named
    assert all(name.endswith((".swf.gz", "_jobs.json", "_nodes.json", "pipelines.json")) for name in others)
    assert experiment.claims()


def test_hpc2n_claims_what_was_published_and_a_run_elsewhere_holds_it():
    claims = read_experiment("dissertation-hpc2n").claims()
    assert {one.source for one in claims} == {"published"}
    assert {round(one.tolerance / one.value, 9) for one in claims} == {0.01, 0.02}
    run_elsewhere = {
        "with its errors": {"smallest": 436.79, "SJF": 841.24, "FCFS": 1186.4, "F1": 1180.9},
        "with its errors, its backfilling": {"smallest": 434.94, "SJF": 835.08, "FCFS": 1019.0, "F1": 1063.0},
    }
    found = {(row, column): Finding(value) for column, rows in run_elsewhere.items() for row, value in rows.items()}
    assert differences(claims, found) == []
    # Without its errors F1 has 102.5: that is no number of its table.
    missed = differences(claims, found | {("F1", "with its errors"): Finding(102.5)})
    assert [(one.row, one.column) for one in missed] == [("F1", "with its errors")]


EFFECT = re.compile(r"^ratio (of|to) |, to [a-z]|^times the ")
"""Columns of ratios, by what they are called; rows of differences hold the word less."""


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_effect_has_a_side_and_fails_without_an_effect(name: str):
    experiment = read_experiment(name)
    claims = experiment.claims()
    for claim in claims:
        null = 1.0 if EFFECT.search(claim.column) else 0.0 if " less " in claim.row else None
        if null is not None:
            assert claim.sign is not None, f"{claim.row}, {claim.column} is an effect without a side"
            assert claim.null == null
    # What is held against another number says so in the recipe.
    found = {one.place: Finding(one.value) for one in claims}
    for position, null in experiment.recipe.nulls(found).items():
        held = [one.null for one in claims if one.place == position and one.sign is not None]
        assert held
        assert held == pytest.approx([null] * len(held), rel=1e-9)
    assert null_test(claims).passing == ()


def test_as_shipped_both_policies_of_the_thesis_are_one():
    for name in ("thesis-primer-as-shipped", "thesis-consequences-as-shipped"):
        by_platform: dict[tuple[str, str], set[float]] = {}
        for one in read_experiment(name).claims():
            by_platform.setdefault((one.row.split("_")[0], one.column), set()).add(one.value)
        assert all(len(values) == 1 for values in by_platform.values())


@pytest.mark.parametrize("name", ["thesis-consequences", "thesis-consequences-as-shipped"])
def test_the_quick_ones_are_as_claimed(name: str, tmp_path: Path):
    assert reproduce(read_experiment(name), out=tmp_path / "out").differences == ()


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the trace lublin_256.swf.gz, which cannot be shipped")
def test_rlscheduler_to_the_printed_digit(tmp_path: Path):
    result = reproduce(read_experiment("rlscheduler-lublin1"), out=tmp_path / "out", traces=[SHARED])
    assert result.is_same


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["reproduce", *arguments])
    return result.exit_code, result.output


def test_the_command_says_that_all_is_as_claimed(of_options: Path, tmp_path: Path):
    code, output = run(str(of_options), "--out", str(tmp_path / "out"))
    assert code == 0
    assert "A title" in output
    assert output.endswith(
        f"results in {tmp_path / 'out'}\n{of_options.name}: all 2 claims hold: 2 values (2 recorded by hdrl)\n"
    )


@pytest.mark.parametrize(
    ("reference", "told"),
    [
        (
            "row,column,value\nsmall,makespan_s,36\n",
            "all 1 claims hold: 1 value (1 recorded by hdrl); 1 more numbers are",
        ),
        ("row,column,value\n", "nothing is claimed; 2 numbers are in"),
    ],
)
def test_the_command_says_how_much_is_claimed(of_options: Path, tmp_path: Path, reference: str, told: str):
    (of_options / "reference.csv").write_text(reference)
    code, output = run(str(of_options), "--out", str(tmp_path / "out"), "--quiet")
    assert code == 0
    assert told in output


def test_the_command_says_what_differs(of_options: Path, tmp_path: Path):
    (of_options / "reference.csv").write_text("row,column,value\nsmall,n_finished,3\nsmall,makespan_s,35\n")
    code, output = run(str(of_options), "--out", str(tmp_path / "out"), "--quiet")
    assert code == 1
    assert output.endswith(f"{of_options.name}: 1 of 2 claims do not hold\n")
    assert "makespan_s" in output
    assert "+1" in output
    with (tmp_path / "out/differences.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["column"], row["kind"], row["claimed"], row["found"]) == ("makespan_s", "value", "35", "36")


def test_a_reference_is_recorded_by_one_command(of_options: Path, tmp_path: Path, stand_in: object):
    experiment = json.loads((of_options / "experiment.json").read_text())
    effect = {"row": "small", "column": "makespan_s", "against": 50}
    (of_options / "experiment.json").write_text(json.dumps(experiment | {"effects": [effect]}))
    (of_options / "reference.csv").write_text(
        "row,column,value,tolerance,source\nsmall,makespan_s,35.8,0.5,published\nsmall,n_finished,4,,hdrl\n"
    )
    code, output = run(str(of_options), "--out", str(tmp_path / "out"), "--quiet", "--record")
    assert code == 0
    assert output.endswith("reference.csv claims 3 values, 1 sign (1 published, 3 recorded by hdrl)\n")
    lines = (of_options / "reference.csv").read_text().splitlines()
    assert lines == [
        "row,column,kind,value,tolerance,null,sign,source",
        "small,n_finished,value,3.0,,,,hdrl",
        "small,makespan_s,value,35.8,0.5,,,published",
        "small,makespan_s,value,36.0,,50.0,below,hdrl",
    ]
    # A finished reproduction is judged by the new reference without another run.
    assert run(str(of_options), "--out", str(tmp_path / "out"), "--quiet")[0] == 0
    assert len(stand_in.calls) == 1
    # Against a shorter makespan it is another side, which recording says.
    (of_options / "experiment.json").write_text(json.dumps(experiment | {"effects": [effect | {"against": 20}]}))
    code, output = run(str(of_options), "--out", str(tmp_path / "again"), "--quiet", "--record")
    assert (code, "small, makespan_s: was below 50, is above 20\n" in output) == (0, True)


def test_what_is_no_number_of_the_experiment_is_no_effect(of_options: Path, tmp_path: Path):
    experiment = json.loads((of_options / "experiment.json").read_text())
    effect = {"row": "small", "column": "makespan_s", "against": "large"}
    (of_options / "experiment.json").write_text(json.dumps(experiment | {"effects": [effect]}))
    before = (of_options / "reference.csv").read_text()
    code, output = run(str(of_options), "--out", str(tmp_path / "out"), "--quiet", "--record")
    assert (code, "effects names 'large', 'makespan_s', which is not a number" in output) == (2, True)
    assert (of_options / "reference.csv").read_text() == before


def test_references_of_an_installed_hdrl_are_not_written(
    of_options: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "INSTALLED_FOLDER", of_options.parent)
    code, output = run(str(of_options), "--out", str(tmp_path / "out"), "--record")
    assert (code, "comes with the installed hdrl; copy its folder" in output) == (2, True)
    assert not (tmp_path / "out").exists()


SWEEP = {
    "platform": "homogeneous:2280",
    "workloads": ["lublin_gaia_1000"],
    "workload": {"memory": "none", "bandwidth": "none"},
    "energy": False,
    "candidates": ["mine=sjf+easy", "fcfs+easy"],
    "baseline": "fcfs+easy",
    "windows": {"length": 60, "count": 16},
    "metrics": ["mean_bounded_slowdown"],
}


def test_the_baseline_under_the_name_of_a_candidate_has_none_of_its_effects(tmp_path: Path):
    folder = write_experiment(tmp_path / "mine", kind="sweep", sweep="sweep.json")
    (folder / "sweep.json").write_text(json.dumps(SWEEP))
    assert run(str(folder), "--out", str(tmp_path / "a"), "--quiet", "--record", "-j", "1")[0] == 0
    claims = read_experiment(folder).claims()
    ratio = next(one for one in claims if one.column == "ratio of mean_bounded_slowdown")
    assert (ratio.row, ratio.sign, ratio.kinds) == ("mine", "below", ["value", "sign"])
    assert run(str(folder), "--null")[:2] == (0, "mine: without any effect all 1 claimed effects fail\n")
    # The same for real.
    (folder / "sweep.json").write_text(json.dumps(SWEEP | {"candidates": ["mine=fcfs+easy", "fcfs+easy"]}))
    result = reproduce(read_experiment(folder), out=tmp_path / "b", n_workers=1)
    found = result.results[ratio.place]
    assert (found.value, found.low, found.high) == (1.0, 1.0, 1.0)
    assert {one.kind for one in result.differences if one.column == ratio.column} == {"value", "sign"}


def test_the_null_of_all_experiments():
    code, output = run("--null", "--all")
    assert code == 0
    assert output.splitlines()[-1].startswith(f"{len(EXPERIMENTS)} experiments: without any effect all ")


def test_all_shipped_experiments_run_where_their_traces_are(
    of_options: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv(TRACES_VARIABLE, raising=False)
    wrong = tmp_path / "wrong"
    shutil.copytree(of_options, wrong)
    (wrong / "reference.csv").write_text("row,column,value\nsmall,makespan_s,35\n")
    shipped = {"wrong": wrong, of_options.name: of_options, "kth-easy": shipped_experiments()["kth-easy"]}
    monkeypatch.setattr(recipe_module, "shipped_experiments", lambda: shipped)
    code, output = run("--all", "--out", str(tmp_path / "out"), "--quiet")
    assert (code, output.splitlines()) == (
        1,
        [
            "kth-easy: left out, needs KTH-SP2-1996-2.1-cln.swf.gz",
            "wrong: 1 of 1 claims do not hold",
            f"{of_options.name}: all 2 claims hold: 2 values (2 recorded by hdrl)",
            f"1 of 2 experiments hold, 1 left out; results in {tmp_path / 'out'}",
        ],
    )
    (wrong / "reference.csv").write_text("row,column,value\nsmall,makespan_s,36\n")
    code, output = run("--all", "--out", str(tmp_path / "out"), "--quiet")
    assert (code, "2 of 2 experiments hold" in output) == (0, True)
    for words in (["kth-easy"], ["--record"]):
        assert run("--all", *words) == (
            2,
            "cli: error: --all runs every shipped experiment; leave out NAME and --record\n",
        )


def test_the_command_on_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(TRACES_VARIABLE, raising=False)
    assert run() == (2, "cli: error: no experiment named; hdrl reproduce --list names them\n")
    for words, problem in (
        ((str(tmp_path),), f"{tmp_path}: has no experiment.json, expected the folder of an experiment or "),
        (("kth-easy", "--traces", "no/folder"), "--traces no/folder: no such folder"),
        (("kth-easy", "--list"), "--list lists every experiment; leave out NAME"),
    ):
        code, output = run(*words)
        assert (code, output.count("\n")) == (2, 1)
        assert problem in output
    code, output = run("kth-easy", "--out", str(tmp_path / "out"))
    assert code == 2
    assert output.startswith("cli: error: kth-easy: needs the trace KTH-SP2-1996-2.1-cln.swf.gz")
    assert output.count("\n") == 1
    assert not (tmp_path / "out").exists()
    code, output = run("--list", "--traces", str(tmp_path))
    assert code == 0
    assert all(name in output for name in EXPERIMENTS)


def test_options_errors_name_the_file(tmp_path: Path):
    folder = write_experiment(tmp_path / "mine", kind="options", options={"a": "a.json"}, metrics=["n_jobs"])
    (folder / "a.json").write_text('{"platform_file_path": "gaia", "speed": 1}')
    with pytest.raises(OptionsError, match=r"a\.json"):
        reproduce(read_experiment(folder), out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
