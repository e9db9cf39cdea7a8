"""One house: a setting that hdrl has never heard of runs, trains, compares, reports, plots and is reproduced."""

from __future__ import annotations

import inspect
import json
import math
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hdrl.base.errors import OptionsError
from hdrl.launcher.launch import launch
from hdrl.launcher.main import cli
from hdrl.metrics import with_roles
from hdrl.setting import (
    SETTINGS,
    EnvironmentSpec,
    Inputs,
    Measures,
    PolicyBook,
    Setting,
    Simulator,
    find_setting,
)
from hdrl.testing import SettingCheck, check_setting, parametrize_with_checks

FILE = Path(__file__).with_name("mmc.py")
DESIGN = Path(__file__).parents[2] / "docs" / "design.md"


def erlang_wait_s(n_servers: int, load: float) -> float:
    """Return the mean wait of an M/M/c queue with service times of 1 s in the mean, by Erlang's C formula."""
    offered = n_servers * load
    blocked = offered**n_servers / math.factorial(n_servers) / (1 - load)
    served = sum(offered**k / math.factorial(k) for k in range(n_servers))
    return blocked / (served + blocked) / (n_servers * (1 - load))


def write_options(folder: Path, **changes: Any) -> Path:
    path = folder / "options.json"
    data = {"platform": "servers:2", "workload": "poisson:0.8", "nb_jobs": 300, "agent": {"policy": "fcfs"}}
    path.write_text(json.dumps(data | changes))
    return path


def run(*words: object, command: Any = launch) -> Result:
    done = CliRunner().invoke(command, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done


def hdrl(*words: object) -> Result:
    return run(*words, command=cli)


CHECKED = {"platform": "servers:3", "workload": "poisson:0.7", "n_items": 40}


@parametrize_with_checks(find_setting(str(FILE)), **CHECKED)
def test_it_is_a_setting(check: SettingCheck) -> None:
    check()


@parametrize_with_checks(SETTINGS["batch"], platform="gaia", workload="lublin_gaia_1000")
def test_batch_jobs_are_a_setting(check: SettingCheck) -> None:
    check()


def questions() -> dict[str, list[str]]:
    """Return what a setting must answer, by part: what is abstract, and what has no default."""
    parts = {
        part.__name__: sorted(part.__abstractmethods__) for part in (Inputs, Simulator, PolicyBook, EnvironmentSpec)
    }
    parts["Setting"] = [
        one.name for one in fields(Setting) if one.default is MISSING and one.default_factory is MISSING
    ]
    parts["Measures"] = [
        one.name
        for function in (Measures, with_roles)
        for one in inspect.signature(function).parameters.values()
        if one.default is inspect.Parameter.empty
    ]
    return parts


def test_a_whole_setting_fits_into_150_lines() -> None:
    assert len(FILE.read_text().splitlines()) <= 150


def test_at_most_25_questions_must_be_answered() -> None:
    # Metrics are asked for once; `with_roles` takes the same ones.
    n = sum(map(len, questions().values())) - 1
    assert n <= 25, questions()
    assert f"| abstract methods and values that a setting must give | - | 60 | {n} |" in DESIGN.read_text()


def test_what_can_be_named_is_listed() -> None:
    policies = [line.split(maxsplit=1) for line in hdrl("list", "policies", "--setting", FILE).stdout.splitlines()]
    assert policies == [["heuristics", "group of 2"], ["fcfs"], ["lcfs"], ["shortest"]]
    assert hdrl("list", "platforms", "--setting", FILE).stdout == "servers:2  two of them\n"
    refused = CliRunner().invoke(cli, ["list", "workloads", "--setting", str(FILE)])
    assert (refused.exit_code, refused.stderr) == (2, "cli: error: setting mmc ships no workloads\n")


def test_an_addition_that_no_policy_takes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = find_setting(str(FILE))
    monkeypatch.setattr(type(setting.policies), "suffixes", lambda self: {"?": "asked"})
    with pytest.raises(AssertionError, match=r"suffixes\(\) has '\?', which may follow the name of no policy"):
        check_setting(setting, **CHECKED)


def test_a_policy_that_hides_that_it_draws_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def simulate(self: Any, machine: Any, load: Any, policy: Any, *, seed: int, **more: Any) -> Any:
        return honest(self, machine, load, "lcfs" if seed % 2 else policy, seed=seed, **more)

    setting = find_setting(str(FILE))
    honest = type(setting.simulator).simulate
    monkeypatch.setattr(type(setting.simulator), "simulate", simulate)
    with pytest.raises(AssertionError, match=r"repetition of fcfs: policies.draws\('fcfs'\) is False"):
        check_setting(setting, **CHECKED)


def test_a_setting_need_not_generate_or_learn(tmp_path: Path) -> None:
    text = FILE.read_text().replace("toy/Mmc-v0", "toy/Unused-v0") + UNABLE
    (tmp_path / "unable.py").write_text(text)
    (tmp_path / "out").mkdir()
    setting = find_setting(str(tmp_path / "unable.py"))
    check_setting(setting, **CHECKED)
    words = ["compare", "lcfs", "-p", "servers:2", "--windows", "50:4", "--setting", str(tmp_path / "unable.py")]
    done = CliRunner().invoke(cli, [*words, "--loads", "0.7", "--out", str(tmp_path / "compared")])
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "setting unable generates no loads: leave out loads" in done.stderr
    learning = write_options(tmp_path, setting="unable.py", agent={"type": "LEARNING"})
    done = CliRunner().invoke(launch, ["ppo", str(learning), "--out", str(tmp_path / "trained")])
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "setting unable has no environment to learn in" in done.stderr


UNABLE = """

class Unable(Inputs):
    Options, Sweep = ExperimentOptions, SettingSweep
    machine, load, loads, _stream = QueueInputs.machine, QueueInputs.load, QueueInputs.loads, QueueInputs._stream
    offered_load = QueueInputs.offered_load


from dataclasses import replace

SETTING = replace(SETTING, name="unable", inputs=Unable(), environments={})
"""


def test_what_is_no_setting_is_told(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text("class Old:\n    name = 'old'\n\n\nSETTING = Old()\n")
    with pytest.raises(OptionsError, match=r"old\.py: SETTING is of Old, expected hdrl\.setting\.Setting"):
        find_setting(str(tmp_path / "old.py"))


@pytest.mark.parametrize(("n_servers", "load"), [(1, 0.5), (2, 0.7), (4, 0.8)])
def test_erlang_is_right(tmp_path: Path, n_servers: int, load: float) -> None:
    options = write_options(tmp_path, platform=f"servers:{n_servers}", workload=f"poisson:{load}", nb_jobs=30_000)
    waits = {}
    for policy in ("fcfs", "lcfs", "shortest"):
        run(options, "--setting", FILE, "--set", f"agent.policy={policy}", "--out", tmp_path / policy, "--quiet")
        waits[policy] = json.loads((tmp_path / policy / "metrics.json").read_text())["mean_wait_s"]
    # In the long run the order of service changes no mean wait, unless it looks at service times.
    assert waits["fcfs"] == pytest.approx(erlang_wait_s(n_servers, load), rel=0.1)
    assert waits["lcfs"] == pytest.approx(waits["fcfs"], rel=0.1)
    assert waits["shortest"] < 0.9 * waits["fcfs"]


def test_a_run_has_the_files_of_every_run(tmp_path: Path) -> None:
    shown = run(write_options(tmp_path), "--setting", FILE, "--out", tmp_path / "a")
    assert "mean_wait_s" in shown.output
    run(write_options(tmp_path, setting=str(FILE)), "--out", tmp_path / "b", "--quiet")
    names = {path.name for path in (tmp_path / "a").iterdir()}
    assert {"metrics.json", "provenance.json", "options.resolved.json", "tasks.csv", "stays.csv"} <= names
    for name in names - {"timing.json", "manifest.json"}:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


def test_an_agent_learns_and_is_judged(tmp_path: Path) -> None:
    learning = {
        "algorithm": "ppo",
        "iterations": 6,
        "n_envs": 8,
        "validation_every": 3,
        "settings": {"n_steps": 64},
        "episodes": {"n_jobs": 40},
    }
    options = write_options(
        tmp_path, setting=str(FILE), nb_jobs=2000, workload="poisson:0.9", agent={}, learning=learning
    )
    run("ppo", options, "--out", tmp_path / "trained", "--quiet")
    again = run("--resume", tmp_path / "trained", "--set", "learning.iterations=8", "--quiet")
    assert again.exit_code == 0
    words = ["fcfs", "shortest", tmp_path / "trained" / "model.pt", "-p", "servers:2", "--loads", "0.9"]
    hdrl("compare", *words, "--setting", FILE, "--windows", "60:12", "--out", tmp_path / "compared", "--quiet")
    summary = json.loads((tmp_path / "compared" / "summary.json").read_text())
    rows = {row["candidate"]: row for row in summary["rows"] if row["metric"] == "mean_wait_s"}
    assert rows["shortest"]["ratio_high"] < 1
    assert rows["model.pt"]["ratio_low"] <= rows["model.pt"]["ratio"] <= rows["model.pt"]["ratio_high"]
    kinds = {caution["kind"] for caution in summary["warnings"]}
    assert {"clairvoyant", "few-trainings"} <= kinds


def compare(tmp_path: Path, name: str, *more: object) -> Path:
    words = ["fcfs", "lcfs", "-p", "servers:2", "--loads", "0.7,0.9", "--windows", "50:4", "--warm-up", 10]
    hdrl("compare", *words, "--setting", FILE, "--out", tmp_path / name, "--quiet", *more)
    return tmp_path / name


def test_workers_give_the_same_bytes(tmp_path: Path) -> None:
    one, two = compare(tmp_path, "one", "-j", 1), compare(tmp_path, "two", "-j", 2)
    for name in ("results.csv", "summary.csv", "summary.json", "provenance.json"):
        assert (one / name).read_bytes() == (two / name).read_bytes(), name


def test_the_best_heuristic_is_the_baseline(tmp_path: Path) -> None:
    words = ["shortest", "-p", "servers:2", "-w", "poisson:0.9", "--range", "0.5:1", "--baseline", "best"]
    hdrl("compare", *words, "--setting", FILE, "--windows", "50:4", "-j", 1, "--out", tmp_path / "best", "--quiet")
    assert json.loads((tmp_path / "best" / "summary.json").read_text())["baseline"] in ("fcfs", "lcfs")


def test_it_is_shown(tmp_path: Path) -> None:
    run(write_options(tmp_path), "--setting", FILE, "--out", tmp_path / "run", "--quiet")
    hdrl("report", tmp_path / "run", "-o", tmp_path / "run.html", "--setting", FILE)
    page = (tmp_path / "run.html").read_text()
    assert "Which job ran when on which servers" in page
    assert "Units in use" in page
    hdrl("plot", "queue_size", tmp_path / "run", "-s", tmp_path / "queue.png", "--setting", FILE)
    assert (tmp_path / "queue.png").read_bytes().startswith(b"\x89PNG")
    folder = compare(tmp_path, "compared")
    hdrl("report", folder, "-o", tmp_path / "compared.html")
    hdrl("plot", "comparison", folder, "-s", tmp_path / "compared.png")
    assert (tmp_path / "compared.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"platform": "servers:0"}, "platform is 'servers:0', expected servers:<number>"),
        ({"agent": {"policy": "fcsf"}}, "agent.policy: no policy 'fcsf'; did you mean 'fcfs'?"),
        ({"learning": {"environment": "pick"}, "agent": {"type": "LEARNING"}}, "asks for a LEARNING agent"),
        ({"plattform": 1}, "the file has no key 'plattform'; did you mean 'platform'?"),
        ({"setting": "bach"}, "no setting 'bach'; did you mean 'batch'?"),
        ({"setting": "nowhere.py"}, "nowhere.py: no such file"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    given = {"setting": str(FILE), **changes}
    done = CliRunner().invoke(launch, [str(write_options(tmp_path, **given)), "--out", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert message in done.output
    assert done.output.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_setting_cannot_pass_for_another_one(tmp_path: Path) -> None:
    text = FILE.read_text().replace(
        "Options, Sweep, generator = ExperimentOptions,", "Options, Sweep, generator = Options,"
    )
    text = text.replace("toy/Mmc-v0", "toy/Posing-v0")
    (tmp_path / "mine.py").write_text(text.replace("import heapq\n", "import heapq\n" + IMPORT, 1))
    (tmp_path / "options.json").write_text('{"platform_file_path": "gaia", "workload_file_path": "lublin_gaia_1000"}')
    done = CliRunner().invoke(launch, [str(tmp_path / "options.json"), "--setting", str(tmp_path / "mine.py")])
    assert done.exit_code == 2
    assert "takes options that say 'batch'; derive them from ExperimentOptions" in done.output


IMPORT = "from hdrl.settings.batch.options import Options\n"


def test_it_is_reproduced(tmp_path: Path) -> None:
    folder = tmp_path / "claimed"
    folder.mkdir()
    write_options(folder, setting=str(FILE))
    recipe = {"title": "A queue", "question": "How long do jobs wait?", "source": "Erlang", "kind": "options"}
    recipe |= {"options": {"fcfs": "options.json"}, "metrics": ["n_finished", "mean_wait_s"]}
    (folder / "experiment.json").write_text(json.dumps(recipe))
    run(folder / "options.json", "--out", tmp_path / "run", "--quiet")
    wait_s = json.loads((tmp_path / "run" / "metrics.json").read_text())["mean_wait_s"]
    (folder / "reference.csv").write_text(f"row,column,value\nfcfs,n_finished,300\nfcfs,mean_wait_s,{wait_s}\n")
    assert hdrl("reproduce", folder, "--out", tmp_path / "again").exit_code == 0
    (folder / "reference.csv").write_text(f"row,column,value\nfcfs,mean_wait_s,{2 * wait_s}\n")
    done = CliRunner().invoke(cli, ["reproduce", str(folder), "--out", str(tmp_path / "differs")])
    assert done.exit_code == 1
