"""Metrics, files, policies in Python, and the setting's answers to what experiments ask."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings

from hdrl.base.errors import DecisionError, HdrlError, OptionsError, ReadError, WorkloadError
from hdrl.base.pyfiles import AgentError
from hdrl.experiment.run.agentfile import load_agent
from hdrl.setting import SETTINGS
from hdrl.settings.pipelines.analysis.guarantees import unavoidable_misses
from hdrl.settings.pipelines.files import FILES, write_history
from hdrl.settings.pipelines.inputs import generated_load
from hdrl.settings.pipelines.loads.generate import PipelineModel
from hdrl.settings.pipelines.loads.load import PipelineLoad
from hdrl.settings.pipelines.loads.pipeline import NEVER
from hdrl.settings.pipelines.machine import Units, read_machine
from hdrl.settings.pipelines.metrics import METRICS, compute_metrics, mk_violations, wilson
from hdrl.settings.pipelines.options import PipelineOptions, PipelineSweep
from hdrl.settings.pipelines.runs import read_run, run_of_trace
from hdrl.settings.pipelines.simulation.policies import simulate
from hdrl.settings.pipelines.simulation.tables import shared_tables
from hdrl.settings.pipelines.simulation.trace import PipelineTrace
from hdrl.settings.pipelines.simulation.view import DispatchView, KernelStart, simulate_python
from hdrl.testing import parametrize_with_checks
from hdrl.trace.files import read_tables
from hdrl.trace.model import TaskState

from .worlds import ADAS, chain, released, worlds

BOTH = read_machine("1cpu+1gpu")
SETTING = SETTINGS["pipelines"]


def late_world() -> PipelineTrace:
    """One CPU, seven instances of 10 us: ends 10, 20, 30, 40, 50, 60, 70."""
    rows = [(0, 0, 10), (0, 1, 12), (0, 2, 40), (0, 3, 39), (1, 4, 49), (0, 5, 1000), (0, 6, 1000)]
    load = released((chain("a", (10, NEVER)), chain("b", (10, NEVER), tolerance_us=1)), *rows)
    return simulate(read_machine("1cpu"), load, "edf")


def test_metrics_by_hand():
    trace = late_world()
    assert trace.end_us.tolist() == [10, 20, 40, 30, 50, 60, 70]
    found = compute_metrics(trace)
    assert list(found) == list(METRICS)
    late_us = np.array([0, 8, 0, -9, 1, -940, -930])
    response_us = np.array([10, 19, 38, 27, 46, 55, 64])
    expected = {
        "n_jobs": 7,
        "n_missed": 1,
        "miss_ratio": 1 / 7,
        "n_unavoidable": 1,
        "n_own_misses": 0,
        "mean_lateness_s": late_us.mean() / 1e6,
        "max_lateness_s": 8e-6,
        "mean_tardiness_s": 9e-6 / 7,
        "max_tardiness_s": 8e-6,
        "tardiness_of_late_s": 4.5e-6,
        "relative_lateness": (late_us / response_us).mean(),
        "mean_response_s": response_us.mean() / 1e6,
        "max_response_s": 64e-6,
        "jitter_s": 54e-6,
        "makespan_s": 70e-6,
        "utilization": 1.0,
        "utilization_cpu": 1.0,
        "n_started": 7,
        "n_mk_violations": 0,
    }
    assert {name: pytest.approx(found[name]) for name in expected} == expected
    assert math.isnan(found["utilization_gpu"])
    assert mk_violations(trace, 3, 3) == 2
    assert mk_violations(trace, 4, 4) == 2


def test_the_interval_is_wilsons():
    # Table of Newcombe, Statistics in Medicine 17, 1998: 81 of 263, 15 of 148, 0 of 20, 1 of 29.
    for hits, n, low, high in (
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ):
        assert wilson(hits, n) == pytest.approx((low, high), abs=5e-5)


def test_traces_answer_what_all_traces_answer(tmp_path: Path):
    trace = late_world()
    assert set(trace.tasks["state"].tolist()) == {TaskState.DONE}
    assert trace.stays["task"].tolist() == [0, 1, 3, 2, 4, 5, 6]
    assert trace.signals["busy_cpu"].value.tolist() == [1] * 7 + [0]
    assert trace.signals["instances"].value.max() == 7
    assert trace.counts == {"missed": 1, "started": 7}
    for one in SETTING.view.files:
        one.write(trace, tmp_path)
        assert all((tmp_path / name).is_file() for name in one.names)
    tasks, stays, units = read_tables(tmp_path)
    assert np.array_equal(tasks["end_s"], trace.tasks["end_s"])
    assert (len(stays), units.tolist()) == (7, [0] * 7)
    found = SETTING.view.read(tmp_path)
    same = run_of_trace(trace, tmp_path.name)
    for field in dataclasses.fields(same):
        if field.name != "policy":
            assert np.array_equal(getattr(found.data, field.name), getattr(same, field.name)), field.name
    schedule = found.schedule()
    assert (schedule.ids[1], schedule.numbers[0].values[1]) == ("a 1: 0", pytest.approx(8e-6))
    assert (tmp_path / "task_set_history.stats").read_text().splitlines()[1] == "1,0,0,cpu,0,0.01,0.02,1"
    for text in ("a,b\n", ""):
        (tmp_path / "runs.csv").write_text(text)
        with pytest.raises(ReadError, match=r"runs.csv: is not a table of instance, pipeline"):
            SETTING.view.read(tmp_path)
    with pytest.raises(ReadError, match="no such file"):
        SETTING.view.read(tmp_path / "nothing")


def test_a_history_is_as_rlschedsim_writes_it(tmp_path: Path):
    load = released((chain("a", (10, 4), (9, 9), groups={(0, 1): (12, 12)}),), (0, 0, 13), (0, 20, 40))
    write_history(simulate(BOTH, load, "edf+fusion"), tmp_path)
    lines = (tmp_path / "task_set_history.stats").read_text().splitlines()
    assert lines[0] == "0,0,0-1,cpu,0,0.0,0.012,1"
    write_history(simulate(BOTH, load, "cpu"), tmp_path)
    assert (tmp_path / "task_set_history.stats").read_text().count("\n") == 4


def test_warm_up_instances_do_not_count():
    trace = late_world()
    rest = trace.part(2, 5)
    assert rest.end_us.tolist() == trace.end_us[2:].tolist()
    assert rest.runs["instance"].tolist() == [1, 0, 2, 3, 4]
    assert compute_metrics(rest)["n_jobs"] == 5


# ---------------------------------------------------------------------- policies in Python


def edf(view: DispatchView) -> KernelStart | None:
    """Earliest deadline first on the fastest idle unit, written by a user."""
    found = []
    for ready in view.ready:
        for unit in view.units:
            time_us = view.time_us(ready, ready.choices[0], unit.number)
            if unit.is_idle and time_us is not None:
                key = ready.deadline_us, ready.instance, ready.kernel, time_us, unit.number
                found.append((key, ready, unit.number))
    if not found:
        return None
    _, ready, unit = min(found, key=lambda one: one[0])
    return KernelStart(ready, ready.choices[0], unit)


@hypothesis_settings(max_examples=40)
@given(world=worlds())
def test_a_policy_in_python_does_what_the_compiled_one_does(world: tuple[Units, PipelineLoad]):
    machine, load = world
    ours, theirs = simulate_python(machine, load, edf), simulate(machine, load, "edf")
    assert np.array_equal(ours.runs, theirs.runs)
    assert ours.n_decisions == theirs.n_decisions


def test_wrong_decisions_are_refused():
    load = released((chain("a", (9, NEVER), (9, 9), groups={(0, 1): (9, 9)}),), (0, 0, 10))

    def wrong(kind: str):
        def policy(view: DispatchView) -> object:
            ready = view.ready[0]
            return {
                "text": "cpu",
                "unit": KernelStart(ready, ready.choices[0], 1),
                "far": KernelStart(ready, ready.choices[0], 7),
                "name": KernelStart(ready, ready.choices[0], "0"),  # type: ignore[arg-type]
                "share": KernelStart(ready, ready.choices[0], 0.0),  # type: ignore[arg-type]
                "choice": KernelStart(ready, ready.pipeline.options[1], 0),
            }[kind]

        return policy

    for kind, message in {
        "text": "the policy returned 'cpu', expected a KernelStart or None",
        "unit": "'a' cannot run on unit 1 there",
        "far": "'a' cannot run on unit 7 there",
        "name": "'a' cannot run on unit '0' there",
        "share": "'a' cannot run on unit 0.0 there",
        "choice": "the policy starts a kernel or group that is not ready",
    }.items():
        with pytest.raises(DecisionError, match=f"at 0 us: .*{message}"):
            simulate_python(BOTH, load, wrong(kind))
    with pytest.raises(HdrlError, match="starts nothing more at 0 s, but 1 instances have not ended"):
        simulate_python(BOTH, load, lambda view: None)


def test_a_function_of_other_arguments_is_refused(tmp_path: Path):
    (tmp_path / "mine.py").write_text("def policy(): return None\n")
    with pytest.raises(AgentError, match=r"mine.py:1: policy\(\) takes other arguments, expected policy\(view\)"):
        load_agent(tmp_path / "mine.py", lambda: "", policies=SETTING.policies)


# ---------------------------------------------------------------------- the setting


def options(**values: object) -> PipelineOptions:
    return PipelineOptions(setting="pipelines", platform="1cpu+1gpu", **{"workload": "generated", **values})


def test_sets_that_follow_each_other():
    drawn = {"sets": 2, "utilizations": [0.6, 0.9], "seed": 3, "horizon_ms": 3000, "shortest": 0.5}
    whole = SETTING.inputs.load(options(load=drawn), BOTH)
    sweep = PipelineSweep(
        setting="pipelines", platform="1cpu+1gpu", workloads=["generated"], candidates=["edf"], load=drawn
    )
    single = SETTING.inputs.loads(sweep, BOTH)
    assert whole.name == "generated-0.6/0.9-3..4"
    # Seeds come one after the other, each at all utilisations: the first half is that of seed 3 alone.
    names = ["generated-0.6-3", "generated-0.9-3", "generated-0.6-4", "generated-0.9-4"]
    assert [one.name for one in single] == whole.origin["sets"] == names
    assert [one.offered(BOTH) for one in single] == pytest.approx([0.6, 0.9, 0.6, 0.9], abs=0.1)
    assert whole.n_items == sum(one.n_items for one in single)
    assert len(whole.pipelines) == len({one.name for one in whole.pipelines}) == 16
    n, next_us = 0, 0
    for number, one in enumerate(single):
        part = whole.instances[n : n + one.n_items]
        assert np.array_equal(part["pipeline"] - 4 * number, one.instances["pipeline"])
        for field in ("release_us", "deadline_us"):
            assert np.array_equal(part[field] - next_us, one.instances[field])
        n, next_us = n + one.n_items, int((part["release_us"] + part["period_us"]).max())
    sizes = [one.n_items for one in single]
    assert whole.first_items == (0, sizes[0], sum(sizes[:2]), sum(sizes[:3]))
    assert whole.window(5, sizes[0]).first_items == (0, sizes[0] - 5)
    alone = SETTING.inputs.load(options(load={"seed": 3}), BOTH)
    assert alone.first_items == (0,)
    assert (alone.name, len(alone.pipelines)) == ("generated-0.5-3", 4)


CHANGED = {
    "configuration": 1,
    "contexts": [{"periods_ms": [40]}],
    "tour": "shuffled",
    "graphs": "graphs",
    "times_in": "ms",
}


@pytest.mark.parametrize("key", CHANGED)
def test_keys_that_generated_pipelines_do_not_know_are_refused(key: str):
    message = rf"load\.{key} is for .*: (generated pipelines|times of generated)"
    with pytest.raises(ValueError, match=message):
        options(load={key: CHANGED[key]})
    for where in ({"workloads": ["generated"]}, {"loads": [0.8], "windows": {"length": 10}}):
        with pytest.raises(ValueError, match=message):
            PipelineSweep(
                setting="pipelines", platform="1cpu+1gpu", candidates=["edf"], load={key: CHANGED[key]}, **where
            )


def test_generated_sets_may_be_sporadic():
    """Each has dates of its own, and no feature looks ahead: neither alone, nor in a row, nor in windows."""
    given = {"spread": 0.5, "sets": 2, "seed": 3, "horizon_ms": 10_000}
    sweep = PipelineSweep(
        setting="pipelines", platform="1cpu+1gpu", candidates=["edf"], workloads=["generated"], load=given
    )
    whole, single = SETTING.inputs.load(options(load=given), BOTH), SETTING.inputs.loads(sweep, BOTH)
    by_load = PipelineSweep(
        setting="pipelines",
        platform="1cpu+1gpu",
        candidates=["edf"],
        loads=[0.8],
        windows={"length": 40, "count": 1},
        load={"spread": 0.5},
    )
    window = SETTING.inputs.generate(by_load, BOTH, 40, offered_load=0.8, seed=3)
    assert window.n_items == 40
    for one in (*single, window):
        for number in range(4):
            mine = one.instances[one.instances["pipeline"] == number]
            late = np.diff(mine["release_us"]) / mine["period_us"][0]
            assert late.min() >= 1.0
            assert 1.0 < late.max() <= 1.5
    for one in (whole, *single, window, window.window(5, 10)):
        assert shared_tables(BOTH, [one])["instances"]["is_announced"].sum() == 0
    periodic = SETTING.inputs.load(options(load=given | {"spread": 0.0}), BOTH)
    assert shared_tables(BOTH, [periodic])["instances"]["is_announced"].all()


def test_keys_of_sets_that_would_be_ignored_are_refused():
    with pytest.raises(ValueError, match=r"load\.sets is for workload 'generated', not for files"):
        options(workload="p.stats", load={"sets": 2})
    given = {"setting": "pipelines", "platform": "1cpu+1gpu", "candidates": ["edf"]}
    for key, value, message in (
        ("sets", 2, "windows.count says how many"),
        ("utilizations", [0.8], "loads are utilisations"),
        ("horizon_ms", 5.0, "windows.length says how long"),
    ):
        with pytest.raises(ValueError, match=rf"load\.{key} is for .*{message}"):
            PipelineSweep(**given, loads=[0.8], windows={"length": 10}, load={key: value})
    with pytest.raises(ValueError, match=r"replaces load\.model\.utilization: give one of them"):
        options(load={"utilizations": [0.8], "model": {"utilization": 0.7}})
    with pytest.raises(ValueError, match=r"load\.utilizations holds 0\.8 more than once"):
        options(load={"utilizations": [0.8, 0.8]})
    with pytest.raises(WorkloadError, match=r"3 sets release 1,[\d,]+ instances, more than 1,000,000"):
        SETTING.inputs.load(options(load={"sets": 3, "horizon_ms": 40_000_000}), BOTH)


def test_loads_as_options_say_them(tmp_path: Path):
    (tmp_path / "a.graph").write_text("2 1\na:10,20\nb:10,20\n0 1\n")
    (tmp_path / "p.stats").write_text("a.graph=[40,80]\na.graph=[50,100]\n")
    base = {"workload": str(tmp_path / "p.stats")}

    def load(**values: object) -> PipelineLoad:
        return SETTING.inputs.load(options(**base, load={"times_in": "ms", **values}), BOTH)

    assert load().name == "p@40-50"
    assert load(configuration=3).origin["periods_ms"] == [[80, 100]]
    assert load().n_items == 9
    assert load(horizon_ms=400).n_items == 18
    contexts = [{"periods_ms": [40, 50], "length_ms": 100}, {"periods_ms": [80, 100]}]
    switched = load(contexts=contexts)
    assert switched.name == "p@40-50/80-100"
    assert set(switched.instances["period_us"].tolist()) == {40_000, 50_000, 80_000, 100_000}
    assert load(shortest=0.5).shares().max() < 65536 == load().shares().max()
    assert np.diff(load(spread=1.0, horizon_ms=4000).instances["release_us"]).max() > 40_000
    assert SETTING.inputs.load(options(**base, nb_jobs=4, load={"times_in": "ms"}), BOTH).n_items == 4
    with pytest.raises(OptionsError, match=r"load\.configuration is 4, expected 0 to 3"):
        load(configuration=4)
    with pytest.raises(OptionsError, match=r"contexts\[1\]\.periods_ms has 1 periods, expected one for each of 2"):
        load(contexts=[contexts[0], {"periods_ms": [80]}])
    with pytest.raises(ValueError, match=r"greater than or equal to 0.001"):
        load(horizon_ms=0.0001)  # 0 would mean a hyperperiod
    ordered, shuffled = load(tour="ordered"), load(tour="shuffled", seed=1)
    assert (ordered.name, ordered.n_items, len(ordered.origin["periods_ms"])) == ("p@ordered", shuffled.n_items, 4)
    assert len(ordered.first_items) == 4
    assert ordered.instances["release_us"][list(ordered.first_items)].tolist() == [0, 200_000, 400_000, 800_000]
    assert ordered.origin["periods_ms"] != shuffled.origin["periods_ms"]
    assert sorted(ordered.origin["periods_ms"]) == sorted(shuffled.origin["periods_ms"])
    for more in ({"configuration": 1}, {"tour": "ordered"}):
        with pytest.raises(ValueError, match=r"exclude each other: give one"):
            load(contexts=contexts, **more)
    generated = SETTING.inputs.load(options(load={"model": {"utilization": 0.7, "shape": "mixed"}, "seed": 3}), BOTH)
    assert generated.offered(BOTH) == pytest.approx(0.7, abs=1e-3)
    sweep = PipelineSweep(
        setting="pipelines",
        platform="1cpu+1gpu",
        workloads=[str(tmp_path / "p.stats")],
        candidates=["edf"],
        load={"times_in": "ms"},
    )
    assert [one.name for one in SETTING.inputs.loads(sweep, BOTH)] == ["p@40-50", "p@40-100", "p@80-50", "p@80-100"]
    made = SETTING.inputs.generate(sweep, BOTH, 30, offered_load=0.9, seed=5)
    assert made.n_items == 30
    assert made.sha256() == SETTING.inputs.generate(sweep, BOTH, 30, offered_load=0.9, seed=5).sha256()
    kind, sentence = SETTING.inputs.cautions(sweep, BOTH, [load(), load(configuration=3)])[0]
    assert (kind, sentence[:13]) == ("solved", "2 of 2 loads ")
    hard = generated_load(PipelineModel(utilization=0.99, n_pipelines=3), seed=2)
    assert SETTING.inputs.cautions(sweep, BOTH, [hard]) == []


@parametrize_with_checks(SETTING, platform="1cpu+1gpu", workload="generated", n_items=20)
def test_it_answers_as_settings_should(check):
    check()


def test_policies_by_group():
    book = SETTING.policies
    assert "static" in book.groups()["heuristics"]
    assert set(book.groups()["heuristics"]) <= set(book.names())
    assert book.read("EDF-global+fusion") == "edf_global+fusion" == book.default_baseline
    assert [name for name in book.names() if book.draws(name)] == ["random"]
    assert book.uses_hidden_information(edf) is False
    assert set(SETTING.measures.compared) | set(SETTING.measures.shown) <= set(METRICS)


def test_what_the_environment_says_of_itself():
    spec = SETTING.environments["pipelines"]
    assert spec.objective({}) == ("miss_ratio", -1)
    assert spec.objective({"objective": "makespan_s", "reward": "outcome"}) == ("makespan_s", -1)
    assert spec.action_names({"compatibility": "rlschedsim", "n_depths": 2}) == ("cpu+0", "cpu+1", "gpu+0", "gpu+1")
    load = generated_load(PipelineModel(), seed=1)
    assert spec.unplayable_reason({}) is None
    assert spec.unplayable_reason({"compatibility": "rlschedsim", "errors": []}) is None
    with pytest.raises(OptionsError, match="rlschedsim notices releases late"):
        spec.player(BOTH, load, {"compatibility": "rlschedsim"})
    env = spec.player(BOTH, load, {})
    _, info = env.reset(seed=0)
    over = False
    while not over:
        _, _, over, _, info = env.step(int(info["action_mask"].argmax()))
    assert env.trace().load is load


def test_it_runs_from_an_options_file_to_a_folder(tmp_path: Path):
    from click.testing import CliRunner

    from hdrl.launcher.main import cli

    (tmp_path / "mine.py").write_text(
        "from hdrl.pipelines import KernelStart\n"
        "def policy(view):\n"
        "    ready = view.ready[0]\n"
        "    unit = min(view.units, key=lambda one: (one.backlog_us, one.number))\n"
        "    return KernelStart(ready, ready.choices[-1], unit.number)\n"
    )
    sweep = {
        "setting": "pipelines",
        "platform": "1cpu+1gpu",
        "candidates": ["edf+fusion", "static", "mine.py", "random"],
        "baseline": "edf+fusion",
        "loads": [0.6, 0.9],
        "windows": {"length": 40, "count": 2},
        "seeds": 2,
    }
    (tmp_path / "sweep.json").write_text(json.dumps(sweep))
    done = CliRunner().invoke(cli, ["compare", str(tmp_path / "sweep.json"), "--out", str(tmp_path / "out"), "-j", "1"])
    assert done.exit_code == 0, done.output
    assert "generated@0.9" in (tmp_path / "out" / "results.csv").read_text()


def test_a_report_shows_deadlines_beside_the_schedule(tmp_path: Path):
    pytest.importorskip("jinja2", reason="reports need the extra report")
    pytest.importorskip("matplotlib", reason="reports need the extra report")
    from hdrl.experiment import run_experiment
    from hdrl.experiment.run.inputs import read_options
    from hdrl.report.page import write_report

    wanted = {"setting": "pipelines", "platform": "1cpu+1gpu", "workload": "generated", "load": {"horizon_ms": 2000}}
    (tmp_path / "options.json").write_text(json.dumps({**wanted, "agent": {"policy": "edf+fusion"}}))
    run_experiment(read_options(tmp_path / "options.json"), out=tmp_path / "out")
    page = write_report([tmp_path / "out"], tmp_path / "report.html").read_text(encoding="utf-8")
    tabs = re.findall(r'role="tab" id="tab-(\w+)"', page)
    assert "schedule" in tabs
    assert len(set(tabs)) == len(tabs)
    panel = page.partition('id="panel-schedule"')[2].partition("</section>")[0]
    assert "Which kernel ran when" in panel
    assert "Units and deadlines" in panel


def test_many_pipelines_share_a_picture(tmp_path: Path):
    pytest.importorskip("matplotlib", reason="reports need the extra report")
    from hdrl.experiment import run_experiment
    from hdrl.experiment.run.inputs import read_options
    from hdrl.report.drawing import draw

    load = {"sets": 10, "utilizations": [0.9], "horizon_ms": 1000}
    wanted = {"setting": "pipelines", "platform": "1cpu+1gpu", "workload": "generated", "load": load}
    (tmp_path / "options.json").write_text(json.dumps({**wanted, "agent": {"policy": "edf"}}))
    run_experiment(read_options(tmp_path / "options.json"), out=tmp_path / "out")
    (axes,) = draw("misses", [tmp_path / "out"]).axes
    names = [one.get_text() for one in axes.get_xticklabels()]
    assert len(names) == 25
    assert names[-1] == "16 others"
    heights = [one.get_height() for one in axes.patches]
    assert max(heights[:-1]) >= heights[-1]
    (axes,) = draw("gantt", [tmp_path / "out"]).axes
    assert [one.get_text() for one in axes.get_yticklabels()] == ["cpu0", "gpu0", *names[:-1]]


@pytest.mark.parametrize("arguments", [{"max_ready": 4}, {"compatibility": "rlschedsim", "errors": []}])
def test_an_agent_learns_from_an_options_file(tmp_path: Path, arguments: dict[str, object]):
    pytest.importorskip("torch", reason="the extra learn is not installed")
    from hdrl.experiment import run_experiment
    from hdrl.experiment.run.inputs import read_options

    wanted = {
        "setting": "pipelines",
        "platform": "1cpu+1gpu",
        "workload": "generated",
        "load": {"horizon_ms": 20000, "model": {"utilization": 0.7}},
        "agent": {"type": "LEARNING"},
        "learning": {
            **{"algorithm": "dqn", "n_envs": 4, "iterations": 2, "arguments": arguments, "tensorboard": False},
            "episodes": {"n_jobs": 20},
        },
    }
    (tmp_path / "options.json").write_text(json.dumps(wanted))
    result = run_experiment(read_options(tmp_path / "options.json"), out=tmp_path / "out")
    assert (tmp_path / "out" / "model.pt").is_file()
    assert 0.0 <= result.metrics["miss_ratio"] <= 1.0


def test_the_report_of_a_training_shows_first_what_was_learned(tmp_path: Path):
    pytest.importorskip("torch", reason="the extra learn is not installed")
    pytest.importorskip("jinja2", reason="reports need the extra report")
    pytest.importorskip("matplotlib", reason="reports need the extra report")
    from hdrl.report.page import write_report

    test_an_agent_learns_from_an_options_file(tmp_path, {"max_ready": 4})
    page = write_report([tmp_path / "out"], tmp_path / "report.html").read_text(encoding="utf-8")
    summary = page.partition('id="panel-summary"')[2].partition("</section>")[0]
    assert 0 < summary.index("Return of the episodes") < summary.index("Deadlines missed by pipeline")
    tabs = re.findall(r'role="tab" id="tab-(\w+)"', page)
    assert tabs.index("learning") > tabs.index("schedule")


@pytest.mark.skipif(not ADAS.is_dir(), reason="rlschedsim's files are not at hand")
def test_pictures():
    from hdrl.settings.pipelines.figures import gantt, misses
    from hdrl.settings.pipelines.inputs import loads_of

    load = loads_of(ADAS / "period1.stats")[0]
    trace = simulate(BOTH, load, "edf")
    figure = gantt(trace)
    (ax,) = figure.axes
    assert ax.get_title(loc="left") == f"edf: {int(trace.is_missed.sum())} of 14 deadlines missed"
    bars = sum(len(one.get_paths()) for one in ax.collections)
    assert bars == len(trace.runs)
    assert [one.get_text() for one in ax.get_yticklabels()][:3] == ["cpu0", "gpu0", "dnn_reduced"]
    marks = {marker: sum(len(one.get_xdata()) for one in ax.lines if one.get_marker() == marker) for marker in "^vx"}
    assert marks == {"^": 14, "v": 14, "x": int(trace.is_missed.sum())}
    others = simulate(BOTH, load, "static")
    assert len(gantt([trace, others]).axes) == 2
    bars = [one.get_height() for one in misses([trace, others]).axes[0].patches]
    assert bars[:4] == [trace.is_missed[load.instances["pipeline"] == k].mean() for k in range(4)]
    assert bars[4:] == [0, 0, 0, 0]
    assert unavoidable_misses(BOTH, load) == 0


def test_runs_of_many_pipelines_are_read(tmp_path: Path):
    load = released((chain("a", (5, 5)),) * 100_002, (100_001, 0, 9))
    trace = simulate(BOTH, load, "edf")
    for one in FILES:
        one.write(trace, tmp_path)
    assert read_run(tmp_path).n_items == 1
