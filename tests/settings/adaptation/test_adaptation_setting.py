"""The setting: it runs, compares and reports like every other one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from hdrl.launcher.launch import launch
from hdrl.launcher.main import cli
from hdrl.setting import find_setting
from hdrl.settings.adaptation.env import AdaptationVectorEnv
from hdrl.settings.adaptation.figures import sequences
from hdrl.settings.adaptation.files import read_run
from hdrl.settings.adaptation.load import jobs_of
from hdrl.settings.adaptation.machine import read_device
from hdrl.settings.adaptation.simulation import Advisor, simulate
from hdrl.settings.adaptation.table import read_table
from hdrl.testing import check_setting

from .made_tables import DEVICE, table_json, write_table


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("tables")
    write_table(found / "one.json", table_json((1, 0, 2), noise=0.02, n_draws=6))
    write_table(found / "two.json", table_json((3, 3, 0), noise=0.02, n_draws=6))
    return found


def test_it_is_a_setting(folder: Path) -> None:
    check_setting(find_setting("adaptation"), platform=DEVICE, workload=str(folder), n_items=12)


def test_the_environment_gives_what_the_table_says(folder: Path) -> None:
    table = read_table(folder / "one.json")
    envs = AdaptationVectorEnv(64, load=folder / "one.json", reward="accuracy", start="consecutive")
    seen, info = envs.reset(seed=1)
    assert info["action_mask"].all()
    assert seen[0, 0] == np.float32(0.6)
    every = np.array([table.actions(number) for number in range(64)])
    for step in range(3):
        seen, rewards, ended, _, info = envs.step(every[:, step])
        assert ended.all() == (step == 2)
    draws = envs.loads[0].draw
    assert rewards.tolist() == table.validation[:, draws[0]].tolist()
    assert info["results"]["objective"].tolist() == rewards.tolist()
    envs.step(np.zeros(64, np.int64))  # begins the second job, another training
    for step in range(3):
        rewards = envs.step(every[:, step])[1]
    assert rewards.tolist() == table.validation[:, draws[1]].tolist()
    assert len(set(draws[:20].tolist())) > 2
    envs.close()


def test_means_and_tangents_can_be_asked_for(folder: Path) -> None:
    envs = AdaptationVectorEnv(2, load=folder / "one.json", outcome="mean")
    envs.reset(seed=1)
    for _ in range(3):
        rewards = envs.step(np.array([3, 0]))[1]
    means = read_table(folder / "one.json").expected_validation[[63, 0]]
    assert rewards == pytest.approx(100 * np.tan(means * np.pi / 2))
    envs.close()


def test_windows_do_not_repeat_each_other(folder: Path) -> None:
    setting = find_setting("adaptation")
    load = jobs_of("one", [read_table(folder / "one.json")], 24)
    measured = [
        setting.measures.measure(
            setting.simulator.simulate(read_device("made"), load.window(start, 12), policy, seed=0)
        )
        for policy in ("random", "never")
        for start in (0, 12)
    ]
    assert measured[0]["mean_regret"] != measured[1]["mean_regret"]
    assert measured[2]["mean_accuracy"] != measured[3]["mean_accuracy"]


def run(*words: object, command: object = cli) -> str:
    done = CliRunner().invoke(command, [str(word) for word in words])  # type: ignore[arg-type]
    assert done.exit_code == 0, done.output
    return done.output


def test_it_runs_compares_and_reports(folder: Path, tmp_path: Path) -> None:
    options = {"setting": "adaptation", "platform": DEVICE, "workload": str(folder), "nb_jobs": 40}
    (tmp_path / "options.json").write_text(json.dumps({**options, "agent": {"policy": "thompson"}}))
    shown = run(tmp_path / "options.json", "--out", tmp_path / "run", command=launch)
    assert "mean_regret" in shown
    assert (tmp_path / "run" / "adaptations.csv").read_text().count("\n") == 41
    best = [row.split(",") for row in (tmp_path / "run" / "sequences.csv").read_text().splitlines() if ",1," in row]
    assert [(row[0], row[1], row[3]) for row in best if row[2] == "1"] == [("one", "102", "0"), ("two", "330", "0")]
    for figure in ("anytime", "accuracies", "ranks", "sequences"):
        run("plot", figure, tmp_path / "run", "-s", tmp_path / f"{figure}.png")
    run("report", tmp_path / "run", "-o", tmp_path / "run.html")
    page = (tmp_path / "run.html").read_text()
    assert "Regret so far" in page
    assert "Every sequence, and what was done last" in page
    (tmp_path / "run" / "sequences.csv").unlink()  # as if an older version had written it
    run("report", tmp_path / "run", "-o", tmp_path / "old.html")
    assert "Every sequence, and what was done last" not in (tmp_path / "old.html").read_text()
    (tmp_path / "mine.py").write_text("def advise(situation):\n    return [1, 0, 2][situation.step]\n")
    words = ["mine.py", "never", "oracle", "random", "linear-decay", "-p", DEVICE, "-w", folder, "--nb-jobs", 24]
    words = [tmp_path / "mine.py", *words[1:-2], "--set", "nb_jobs=24"]
    run("compare", "--setting", "adaptation", *words, "--windows", "8:3", "-j", 1, "--out", tmp_path / "judged")
    summary = json.loads((tmp_path / "judged" / "summary.json").read_text())
    regrets = {row["candidate"]: row["mean"] for row in summary["rows"] if row["metric"] == "mean_regret"}
    assert regrets["oracle"] == 0.0 < regrets["mine.py"] < regrets["never"]
    assert {"few-draws", "clairvoyant"} <= {one["kind"] for one in summary["warnings"]}
    said = {one["kind"]: one["text"] for one in summary["warnings"]}
    assert "oracle sees the accuracies of all sequences, which" in said["clairvoyant"]
    assert "overload" not in said, "jobs that come one after the other wait for nothing"


def test_tables_of_one_name_are_drawn_apart(tmp_path: Path) -> None:
    layers = ["linear 4 4", "relu", "linear 4 2"]
    few = [row for row in table_json()["rows"] if 3 not in row["actions"]]
    runs = []
    for name, changes, actions in (("few", {"layers": layers, "rows": few}, "111"), ("many", {}, "333")):
        folder = tmp_path / name
        folder.mkdir()
        write_table(folder / "same.json", table_json(**changes))
        options = {"setting": "adaptation", "platform": DEVICE, "workload": "same.json", "nb_jobs": 3}
        (folder / "options.json").write_text(json.dumps({**options, "agent": {"policy": f"fixed-{actions}"}}))
        run(folder / "options.json", "--out", folder / "run", command=launch)
        runs.append(read_run(folder / "run", name).data)
    for order in (runs, runs[::-1]):
        figure = sequences(order)
        parts = [part for part in figure.axes if part.get_visible()]
        assert [part.get_title(loc="left") for part in parts] == ["same", "same"]
        assert sorted(text.get_text() for part in parts for text in part.texts) == ["111", "333"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"platform": "a/b"}, "platform: 'a/b' is not a device, expected the name that tables say"),
        ({"workload": "tabels"}, "no shipped table 'tabels', and no such file"),
        (
            {"agent": {"policy": "fixed-09"}},
            "fixed-09: one has 3 decisions among 4 actions, expected one like fixed-333",
        ),
        ({"platform": "gv100"}, "expected platform made"),
    ],
)
def test_mistakes_are_one_line(folder: Path, tmp_path: Path, changes: dict[str, object], message: str) -> None:
    options = {"setting": "adaptation", "platform": DEVICE, "workload": str(folder), "agent": {"policy": "never"}}
    (tmp_path / "options.json").write_text(json.dumps(options | changes))
    done = CliRunner().invoke(launch, [str(tmp_path / "options.json"), "--out", str(tmp_path / "out"), "--quiet"])
    assert done.exit_code == 2
    assert message in done.output
    assert done.output.count("\n") == 1


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def advise(situation): return None", "no action None, expected 0 to 3"),
        ("def advise(situation): return 1.7", "no action 1.7, expected 0 to 3"),
        ("def advise(situation): return '1'", "no action '1', expected 0 to 3"),
        ("def advise(situation): return -1", "no action -1, expected 0 to 3"),
        ("def advise(): return 1", "mine.py:1: advise() takes other arguments, expected advise(situation)"),
        ("async def advise(situation): return 1", "is a coroutine, expected a function advise(situation)"),
        ("advice = 1", "defines no agent, expected a function advise(situation), a subclass of"),
    ],
)
def test_functions_that_give_no_action_are_one_line(folder: Path, tmp_path: Path, source: str, message: str) -> None:
    (tmp_path / "mine.py").write_text(source)
    options = {"setting": "adaptation", "platform": DEVICE, "workload": str(folder), "agent": {"file": "mine.py"}}
    (tmp_path / "options.json").write_text(json.dumps(options))
    done = CliRunner().invoke(launch, [str(tmp_path / "options.json"), "--out", str(tmp_path / "out"), "--quiet"])
    assert (done.exit_code, done.output.count("\n")) == (2, 1), done.output
    assert message in done.output


def test_generated_jobs_are_of_all_workloads(folder: Path) -> None:
    setting = find_setting("adaptation")
    where = {"platform": DEVICE, "workloads": [str(folder / "one.json"), str(folder / "two.json")], "loads": [0.5]}
    sweep = setting.inputs.Sweep(candidates=["never"], windows={"length": 4}, setting="adaptation", **where)
    load = setting.inputs.generate(sweep, read_device(DEVICE), 40, offered_load=0.5, seed=1)
    assert {load.tables[number].name for number in load.table} == {"one", "two"}


@pytest.mark.parametrize("bases", [(), (Advisor,)])
@pytest.mark.parametrize("name", ["observe", "told"])
def test_an_advisor_gets_outcomes_under_the_name_of_today_and_under_the_former_one(
    folder: Path, name: str, bases: tuple[type, ...]
) -> None:
    found: list[float] = []
    methods = {"choose": lambda *_: 3, name: lambda _, job, chosen, validation: found.append(validation)}
    advisor = type("Own", bases, methods)()
    load = jobs_of("made", [read_table(folder / "one.json")], 4)
    if name == "told":
        with pytest.warns(DeprecationWarning, match=r"Advisor\.told is now Advisor\.observe"):
            trace = simulate(read_device(DEVICE), load, advisor)
    else:
        trace = simulate(read_device(DEVICE), load, advisor)
    assert found == trace.outcomes["validation"].tolist()
