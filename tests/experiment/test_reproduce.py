"""Experiments that are claimed: read, run again, and compared with their references."""

import csv
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import hdrl.experiment.reproduce.reproduce as module
from hdrl.errors import HdrlError, OptionsError, OutputError, ReadError, UnknownName
from hdrl.experiment.reproduce.recipe import (
    TRACES_VARIABLE,
    find_traces,
    missing_traces,
    read_experiment,
    shipped_experiments,
    trace_folders,
)
from hdrl.experiment.reproduce.reproduce import reproduce
from hdrl.experiment.reproduce.resulttable import Reference, differences, read_reference, write_results
from hdrl.experiment.run.inputs import read_options, read_sweep
from hdrl.launcher.main import cli
from hdrl.setting import find_setting
from hdrl.settings.batch.metrics import METRICS
from hdrl.settings.batch.protocols import PROTOCOLS

SHARED = Path(__file__).parents[3] / "shared" / "traces" / "swf"
EXPERIMENTS = sorted(shipped_experiments())
NOT_RUN = {"dissertation-hpc2n"}
"""Experiments that claim nothing, since nobody has run them."""


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


def test_tables_come_back(tmp_path: Path):
    results = {("a, b", "x"): 0.1, ("a, b", "y"): math.nan, ("c", "x"): 3.0}
    write_results(tmp_path / "results.csv", results)
    read = read_reference(tmp_path / "results.csv", 0.0)
    assert {place: one.value for place, one in read.items()} == pytest.approx(results, nan_ok=True)
    assert differences(read, results) == []


def test_differences_are_told_by_their_tolerances():
    reference = {
        ("r", "near"): Reference(100.0, 0.5),
        ("r", "far"): Reference(100.0, 0.5),
        ("r", "gone"): Reference(1.0, 0.0),
        ("r", "nan"): Reference(math.nan, 0.0),
        ("r", "no longer nan"): Reference(math.nan, 0.0),
    }
    found = {
        ("r", "near"): 100.5,
        ("r", "far"): 99.4,
        ("r", "nan"): math.nan,
        ("r", "no longer nan"): 1.0,
        ("r", "not claimed"): 2.0,
    }
    told = {one.column: (one.reference, one.found) for one in differences(reference, found)}
    assert told.keys() == {"far", "gone", "no longer nan"}
    assert told["far"] == (100.0, 99.4)
    assert told["gone"] == (1.0, None)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("row,value\n", "must have the columns row, column, value"),
        ("row,column,value\na,b,1\na,b,2\n", ":3: 'a', 'b' is there twice"),
        ("row,column,value\na,b,x\n", ":2: value and tolerance must be numbers"),
        ("row,column,value,tolerance\na,b,1,-1\n", "tolerance that is not negative"),
    ],
)
def test_damaged_references(tmp_path: Path, text: str, problem: str):
    (tmp_path / "reference.csv").write_text(text)
    with pytest.raises(ReadError, match=problem):
        read_reference(tmp_path / "reference.csv", 0.0)


def test_own_tolerances_come_before_the_common_one(tmp_path: Path):
    (tmp_path / "reference.csv").write_text("row,column,value,tolerance\na,b,100,\na,c,100,0.25\n")
    read = read_reference(tmp_path / "reference.csv", 0.01)
    assert read["a", "b"].tolerance == 1.0
    assert read["a", "c"].tolerance == 0.25


def test_an_experiment_of_options(of_options: Path, tmp_path: Path):
    result = reproduce(read_experiment(of_options), out=tmp_path / "out")
    assert result.is_same
    assert result.results == {("small", "n_finished"): 3.0, ("small", "makespan_s"): 36.0}
    assert (tmp_path / "out/small/metrics.json").is_file()
    assert (
        tmp_path / "out/results.csv"
    ).read_text() == "row,column,value\nsmall,n_finished,3.0\nsmall,makespan_s,36.0\n"
    assert (tmp_path / "out/differences.csv").read_text() == "row,column,reference,found,tolerance\n"


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
    assert result.results == {("size", "bytes"): 5.0, ("models", "n"): 0.0}
    assert result.n_claimed == 0
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
    assert result.results == {("ppo, mine", "bsld"): 1.0, ("ppo", "n_steps"): 45.0}
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
        assert result.results == {("reinforce, mine", "models"): 3.0}
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
    assert result.results == {(row, "models"): 3.0 for row in rows}
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
        (_TRAINED | {"starts_from": {"b": "c"}}, "starts_from names 'c', which is no row of options"),
        (_TRAINED | {"starts_from": {"a": "b", "b": "a"}}, "starts_from goes round in a circle: a, b"),
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
        PROTOCOLS["x"]


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
        assert recipe.protocol in find_setting(recipe.setting).protocols
    assert set(recipe.metrics) <= set(METRICS)
    named = {*recipe.options.values(), recipe.sweep, "experiment.json", "reference.csv"}
    others = {path.name for path in experiment.folder.iterdir()} - named
    assert all(name.endswith((".swf.gz", "_jobs.json", "_nodes.json", "pipelines.json")) for name in others)
    if name in NOT_RUN:
        assert not (experiment.folder / "reference.csv").exists()
        assert "not run" in recipe.title
        assert "nothing is claimed" in recipe.notes[0]
        return
    assert read_reference(experiment.folder / "reference.csv", recipe.relative_tolerance)


@pytest.mark.parametrize("name", ["ppo-held-out-exact", "ppo-held-out", "ppo-held-out-sdsc-blue"])
def test_what_is_said_of_learned_priorities_is_what_is_claimed(name: str):
    claimed = read_reference(shipped_experiments()[name] / "reference.csv", 0.0)
    ratio = claimed["ppo", "ratio of mean_bounded_slowdown"].value
    root = Path(__file__).parents[2]
    (row,) = [line for line in (root / "docs/experiments.md").read_text().splitlines() if f"| `{name}` |" in line]
    assert f": {ratio:.2f} [" in row
    assert f" {ratio:.2f} [" in (root / "README.md").read_text()


def test_as_shipped_both_policies_of_the_thesis_are_one():
    for name in ("thesis-primer-as-shipped", "thesis-consequences-as-shipped"):
        by_platform: dict[tuple[str, str], set[float]] = {}
        for (row, column), one in read_reference(shipped_experiments()[name] / "reference.csv", 0.0).items():
            by_platform.setdefault((row.split("_")[0], column), set()).add(one.value)
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
    assert output.endswith(f"results in {tmp_path / 'out'}\n{of_options.name}: all 2 numbers are as claimed\n")


@pytest.mark.parametrize(
    ("reference", "told"),
    [
        ("row,column,value\nsmall,makespan_s,36\n", "all 1 numbers are as claimed; 1 more are in results.csv"),
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
    assert output.endswith(f"{of_options.name}: 1 of 2 claimed numbers differ\n")
    assert "makespan_s" in output
    assert "+1" in output
    with (tmp_path / "out/differences.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["column"], row["reference"], row["found"]) == ("makespan_s", "35.0", "36.0")


def test_the_command_on_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(TRACES_VARIABLE, raising=False)
    assert run() == (2, "cli: error: no experiment named; hdrl reproduce --list names them\n")
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
