"""What others hand over is data: no command runs a Python file that results, models or options from elsewhere name."""

import ast
import csv
import itertools
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import CliRunner, Result

from hdrl.base.errors import UnknownName
from hdrl.base.pyfiles import AgentError, UntrustedFile, python_named, run_file, split_policy_file
from hdrl.experiment.compare.files import read_comparison
from hdrl.experiment.reproduce.recipe import read_experiment
from hdrl.experiment.reproduce.reproduce import reproduce
from hdrl.experiment.run.agentfile import load_agent
from hdrl.experiment.run.inputs import read_options, read_sweep
from hdrl.launcher.launch import launch
from hdrl.launcher.main import cli
from hdrl.launcher.watch import PageServer
from hdrl.report.drawing import draw
from hdrl.report.live import live_page
from hdrl.report.page import write_report
from hdrl.setting import SETTINGS, find_setting
from hdrl.settings.batch.simulation.readers import read_out_jobs

pytest.importorskip("jinja2", reason="reports need jinja2")
pytest.importorskip("matplotlib", reason="pictures need matplotlib")

ROOT = Path(__file__).parents[2]
SETTING = (ROOT / "tests" / "settings" / "mmc.py").read_text()
ATTACK = "import pathlib\npathlib.Path({marker!r}).touch()\n"


NUMBERS = itertools.count()


def setting_text() -> str:
    """Return a setting whose environments have names of their own: Gymnasium takes each name once."""
    return SETTING.replace("toy/Mmc", f"toy/Mmc{next(NUMBERS)}x")


@pytest.fixture
def evil(tmp_path: Path) -> Iterator[Path]:
    """Return a folder with ``evil.py``, whose every run leaves a file ``ran``; it is a setting that works."""
    folder = tmp_path / "got"
    folder.mkdir()
    text = setting_text().replace("from __future__ import annotations\n", "")
    attack = ATTACK.format(marker=str(tmp_path / "ran"))
    (folder / "evil.py").write_text(f"from __future__ import annotations\n{attack}{text}")
    yield folder
    SETTINGS.remove("mmc")


def ran(folder: Path) -> bool:
    return (folder.parent / "ran").exists()


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(one) for one in arguments], prog_name="hdrl")


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(launch, [str(one) for one in arguments], prog_name="hdrl-launch")


OPTIONS = {
    "setting": "evil.py",
    "seed": 1,
    "platform": "servers:2",
    "workload": "poisson:0.7",
    "nb_jobs": 30,
    "agent": {"policy": "fcfs"},
}
SWEEP = {
    "setting": "evil.py",
    "platform": "servers:2",
    "candidates": ["fcfs", "shortest"],
    "loads": [0.7],
    "windows": {"length": 20, "count": 2},
}


def as_results(folder: Path, options: dict[str, Any], sweep: dict[str, Any]) -> None:
    """Write what makes a folder look like results of anything."""
    write(folder / "options.resolved.json", options)
    write(folder / "provenance.json", {"setting": options["setting"], "identity": {}})
    write(folder / "resume.json", {"where": "options.json", "folder": str(folder), "options": options, "sweep": sweep})
    write(folder / "sweep.json", sweep)
    write(folder / "metrics.json", {"mean_wait_s": 1.0})
    write(folder / "summary.json", {"verdict": "", "rows": []})


def write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value))


COMMANDS = (
    *(
        "report FOLDER -o OUT.html",
        "report FOLDER -o OUT.html --metric mean_wait_s",
        "plot queue_size FOLDER -s OUT.png",
    ),
    *("plot rewards FOLDER -s OUT.png", "plot comparison FOLDER -s OUT.png", "plot gantt FOLDER -s OUT.png"),
    *("watch FOLDER", "metrics FOLDER", "runs FOLDER", "runs FOLDER/..", "clean FOLDER --soft", "clean --yes FOLDER"),
    *("options check FOLDER/options.resolved.json", "options check FOLDER/options.resolved.json --resolved"),
    *("options check FOLDER/own.json", "options check FOLDER/own.json --agent fcfs"),
    *("compare --resume --out FOLDER", "compare FOLDER/sweep.json --out OUT", "compare --out FOLDER fcfs -p gaia"),
    *("run --resume FOLDER", "run FOLDER/options.resolved.json --out OUT", "run fcfs FOLDER/options.resolved.json"),
    *("reproduce FOLDER --out OUT", "reproduce FOLDER/recipe --out OUT", "workload export-swf FOLDER -o OUT.swf"),
    *(
        "model average FOLDER/model.pt FOLDER/model.pt -o OUT.pt",
        "model import FOLDER/model.pt FOLDER/own.json -o OUT.pt",
    ),
    "pybatsim easyBackfill FOLDER/options.resolved.json --out OUT",
)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("finished", [True, False])
def test_no_command_runs_what_results_name(
    evil: Path, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, finished: bool
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(PageServer, "serve_forever", Mock())
    as_results(evil, OPTIONS, SWEEP)
    write(evil / "own.json", OPTIONS)
    (evil / "recipe").mkdir()
    shutil.copy(evil / "evil.py", evil / "recipe")
    recipe = {"title": "t", "question": "q", "source": "s", "kind": "options", "options": {"a": "o.json"}}
    write(evil / "recipe" / "experiment.json", {**recipe, "metrics": ["mean_wait_s"], "setting": "evil.py"})
    write(evil / "recipe" / "o.json", OPTIONS)
    if not finished:
        for name in ("summary.json", "metrics.json"):
            (evil / name).unlink()
        (evil / "training.csv").write_text("iteration,loss\n1,0.5\n")
    words = command.replace("FOLDER", str(evil)).replace("OUT", str(tmp_path / "out")).split()
    done = call(*words)
    assert not ran(evil), f"{command}: {done.output}"
    assert "Traceback" not in done.output
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception


@pytest.mark.parametrize(
    "place",
    [
        *("evil.py", "./evil.py", "../got/evil.py", "{folder}/evil.py", "evil.py+easy", "evil.py:f"),
        *("evil.pyx", "evil.py_", "evil.py1+easy"),
    ],
)
def test_no_text_of_results_is_run_wherever_it_stands(
    evil: Path, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Each key of options and sweeps of batch jobs names the file, one at a time."""
    monkeypatch.chdir(tmp_path)
    named = place.format(folder=evil)
    base: dict[str, Any] = json.loads((ROOT / "examples" / "demo.json").read_text())
    agent = {"file": named, "type": "LEARNING", "input_model": named, "output_model": named}
    learning = {"algorithm": named, "environment": named, "reward": named, "arguments": {"objective": named}}
    changes = [{"setting": named}, {"agent": agent}, {"learning": learning}, {"pybatsim": {"agent": {"file": named}}}]
    changes += [{"pybatsim": {"agent": {"policy_pair": named, "type": "CLASSIC"}}}, {"simulator": named}]
    changes += [{"learning": {"algorithm": "ppo", "arguments": {"objective": named}}}]
    changes += [{"learning": {"algorithm": "ppo", "imitate": {"policy": named}}}]
    changes += [{key: named} for key in base]
    for change in changes:
        as_results(evil, {"setting": "batch", **base, **change}, SWEEP)
        for words in (["--resume", evil], [evil / "options.resolved.json", "--out", tmp_path / "out"]):
            done = run(*words)
            assert not ran(evil), (change, done.output)
            assert done.exit_code == 2
        done = call("options", "check", evil / "options.resolved.json")
        assert not ran(evil), (change, done.output)
    sweep = {
        "platform": "homogeneous:16",
        "candidates": ["fcfs"],
        "loads": [0.7],
        "windows": {"length": 20, "count": 2},
    }
    for change in (
        {"candidates": ["fcfs", named]},
        {"candidates": [f"mine={named}"]},
        {"candidates": [f"mine={Path(named).parent}/*.py"]},
        {"baseline": named},
        {"opponents": named, "baseline": "best"},
        {"setting": named},
    ):
        as_results(evil, {"setting": "batch", **base}, {**sweep, **change})
        write(evil / "resume.json", {"folder": str(evil), "sweep": {**sweep, **change}})
        (evil / "summary.json").unlink()
        for words in (["--resume", "--out", evil], [evil / "sweep.json", "--out", tmp_path / "out"]):
            done = call("compare", *words)
            assert not ran(evil), (change, done.output)
            assert done.exit_code == 2


def test_a_path_that_goes_on_behind_the_suffix_is_another_path(evil: Path):
    for text in ("evil.pyx", "evil.py_", "evil.py1+easy"):
        assert split_policy_file(text) == (text, "")
        with pytest.raises(AgentError, match=r"is not a Python file"):
            load_agent(evil / text, lambda: "first-first")
    assert not ran(evil)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("executable", "./evil.sh"),
        ("executable", "{folder}/evil.sh"),
        ("executable", "python3"),
        ("arguments", ["--edc-library", "evil.so"]),
        ("endpoint", "tcp://0.0.0.0:28000"),
        ("endpoint", "ipc://{folder}/deleted"),
    ],
)
def test_results_name_no_program(evil: Path, key: str, value: Any, tmp_path: Path):
    (evil / "evil.sh").write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\necho v4.2.0\n")
    (evil / "evil.sh").chmod(0o755)
    named = value.format(folder=evil) if isinstance(value, str) else value
    demo = json.loads((ROOT / "examples" / "demo.json").read_text())
    options = {**demo, "nb_jobs": 5, "simulator": "batsim", "batsim": {key: named, "timeout_s": 1}}
    as_results(evil, {"setting": "batch", **options}, SWEEP)
    for words in (["--resume", evil], [evil / "options.resolved.json", "--out", tmp_path / "out"]):
        done = run(*words)
        assert not ran(evil)
        assert done.exit_code == 2
        assert f"as batsim.{key}" in done.stderr
        assert done.stderr.endswith(f"--set batsim.{key}=VALUE, or --trust)\n")
    own = "[]" if key == "arguments" else "batsim"
    done = call("options", "check", evil / "options.resolved.json", "--set", f"batsim.{key}={own}")
    assert done.exit_code == 0, "what the user names instead counts"
    write(tmp_path / "own.json", {**options, "batsim": {"executable": str(evil / "evil.sh"), "timeout_s": 1}})
    run(tmp_path / "own.json", "--out", tmp_path / "out")
    assert ran(evil), "the user's own options"


def test_files_within_results_and_experiments_are_data(evil: Path, tmp_path: Path):
    write(evil / "provenance.json", {})
    (evil / "deep" / "deeper").mkdir(parents=True)
    write(evil / "deep" / "deeper" / "own.json", {**OPTIONS, "setting": str(evil / "evil.py")})
    (tmp_path / "link.json").symlink_to(evil / "deep" / "deeper" / "own.json")
    (tmp_path / "recipe").mkdir()
    write(tmp_path / "recipe" / "experiment.json", {})
    write(tmp_path / "recipe" / "own.json", {**OPTIONS, "setting": str(evil / "evil.py")})
    for path in (evil / "deep" / "deeper" / "own.json", tmp_path / "link.json", tmp_path / "recipe" / "own.json"):
        done = run(path, "--out", tmp_path / "out")
        assert not ran(evil), path
        assert done.exit_code == 2
        assert "evil.py, which hdrl runs only with your permission" in done.stderr


def test_the_refusal_says_what_to_do(evil: Path, tmp_path: Path):
    as_results(evil, OPTIONS, SWEEP)
    for words in (["report", evil, "-o", tmp_path / "a.html"], ["compare", "--resume", "--out", evil], ["watch", evil]):
        done = call(*words)
        assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
        assert "names the Python file evil.py, which hdrl runs only with your permission" in done.stderr
        assert "--setting" in done.stderr
        assert done.stderr.endswith("or --trust)\n")
    assert not (tmp_path / "a.html").exists()


def test_functions_run_nothing_either(evil: Path, tmp_path: Path):
    as_results(evil, OPTIONS, SWEEP)
    calls = {
        "report": lambda: write_report([evil], tmp_path / "a.html"),
        "draw": lambda: draw("queue_size", [evil]),
        "live": lambda: live_page(evil),
        "read_comparison": lambda: read_comparison(evil),
        "options": lambda: read_options(evil / "options.resolved.json"),
        "sweep": lambda: read_sweep(evil / "sweep.json"),
    }
    for name, function in calls.items():
        with pytest.raises(Exception, match=r"evil\.py|is not a summary"):
            function()
        assert not ran(evil), name


def test_trust_and_files_named_on_the_command_line_run(evil: Path, tmp_path: Path):
    write(evil / "own.json", OPTIONS)
    assert not call("options", "check", evil / "own.json", "--trust").stderr
    assert ran(evil), "--trust"
    (tmp_path / "mine.py").write_text(setting_text())
    made = run(evil / "own.json", "--setting", tmp_path / "mine.py", "--out", tmp_path / "run", "--quiet")
    assert made.exit_code == 0, made.stderr
    (tmp_path / "ran").unlink()
    shutil.copy(evil / "evil.py", tmp_path / "run" / "mine.py")  # of the same name as the user's own
    for words in (["report", tmp_path / "run", "-o", tmp_path / "a.html"], ["plot", "queue_size", tmp_path / "run"]):
        assert (
            call(*words, "--setting", tmp_path / "mine.py", *(["-s", tmp_path / "a.png"] * ("plot" in words))).exit_code
            == 0
        )
    assert not ran(evil)


def test_a_users_own_options_run_what_they_name(evil: Path, tmp_path: Path):
    write(tmp_path / "own.json", {**OPTIONS, "setting": str(evil / "evil.py")})
    assert run(tmp_path / "own.json", "--out", tmp_path / "run", "--quiet").exit_code == 0
    assert ran(evil)


def test_experiments_of_others_run_nothing(evil: Path, tmp_path: Path):
    (evil / "evil.py").rename(evil / "of_a_recipe.py")  # a name that no setting of this process has had
    recipe = {"title": "t", "question": "q", "source": "s", "kind": "protocol", "protocol": "p"}
    write(evil / "experiment.json", {**recipe, "setting": str(evil / "of_a_recipe.py")})
    with pytest.raises(UntrustedFile):
        reproduce(read_experiment(evil), out=tmp_path / "out")
    assert not ran(evil)
    with pytest.raises(UnknownName, match="no protocol"):
        reproduce(read_experiment(evil), out=tmp_path / "out", trust=True)
    assert ran(evil)


def test_models_run_nothing(tmp_path: Path):
    pytest.importorskip("torch")
    from gymnasium.spaces import Box, Discrete

    from hdrl.experiment import Model
    from hdrl.learn.checkpoint import Checkpoint, save_checkpoint
    from hdrl.learn.spaces import space_as_json

    folder = tmp_path / "got"
    folder.mkdir()
    (folder / "evil.py").write_text(ATTACK.format(marker=str(tmp_path / "ran")))
    spaces = space_as_json(Box(0, 1, (5, 4))), space_as_json(Discrete(5))
    known = next(iter(SETTINGS["batch"].environments.values()))
    good = Checkpoint("file:evil.py", {}, *spaces, {}, {"id": known.id, "arguments": {}}, {}, {})
    path = folder / "model.pt"
    for change in (
        {},
        {"algorithm": f"file:{folder / 'evil.py'}"},
        {"algorithm": "file:../got/evil.py"},
        {"algorithm": "evil.py"},
        {"algorithm": "ppo", "environment": {"id": known.id, "arguments": {"actions": ["evil.py", "fcfs"]}}},
        {"algorithm": "ppo", "environment": {"id": str(folder / "evil.py"), "arguments": {}}},
    ):
        save_checkpoint(path, replace(good, **change))
        with pytest.raises(Exception, match=r"evil\.py|is a model of the agent file"):
            Model(path)
        done = call(
            "compare",
            path,
            "fcfs",
            "-p",
            "homogeneous:16",
            "--loads",
            "0.7",
            "--windows",
            "20:2",
            "--out",
            tmp_path / "o",
        )
        assert done.exit_code == 2, done.output
        assert not ran(folder), change
    save_checkpoint(path, good)
    with pytest.raises(AgentError, match="defines no agent"):
        Model(path, trust=True)
    assert ran(folder)
    save_checkpoint(path, replace(good, notes={"agent_sha256": "0" * 64}))
    with pytest.raises(Exception, match=r"defines no agent|is not the file that trained"):
        Model(path, agent_files=[folder / "evil.py"])


@pytest.mark.parametrize("simulator", ["embedded", "exact", None])
def test_names_of_jobs_are_no_formulas(tmp_path: Path, simulator: str | None):
    names = ["=1+1", '@x,"b', "\ty", "-2+3", "'=z", "-7", "plain"]
    jobs = [{"id": name, "subtime": 0, "res": 1, "profile": "=p"} for name in names]
    write(tmp_path / "jobs.json", {"nb_res": 4, "jobs": jobs, "profiles": {"=p": {"type": "delay", "delay": 5}}})
    options = {"platform_file_path": "gaia", "workload_file_path": "jobs.json", "simulator": simulator}
    options = {key: value for key, value in options.items() if value is not None}
    write(tmp_path / "o.json", {**options, "pybatsim": {"agent": {"type": "CLASSIC", "policy_pair": "first-first"}}})
    done = run(tmp_path / "o.json", "--out", tmp_path / "run", "--quiet")
    assert done.exit_code == 0, done.stderr
    with (tmp_path / "run" / "out_jobs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["job_id"] for row in rows} == {"'=1+1", "'@x,\"b", "'\ty", "'-2+3", "''=z", "-7", "plain"}
    assert {row["profile"] for row in rows} == {"'=p"}
    table = read_out_jobs(tmp_path / "run" / "out_jobs.csv")
    assert set(table["job_id"]) == set(names)
    assert set(table["profile"]) == {"=p"}


def test_only_python_files_run(tmp_path: Path):
    for name in ("agent.txt", "agent", "agent.pyc"):
        (tmp_path / name).write_text("policy = lambda view: []\n")
        with pytest.raises(AgentError, match=r"expected a name that ends in \.py"):
            run_file(tmp_path / name, trust=True)
    (tmp_path / "agent.py").write_text("policy = lambda view: []\n")
    with pytest.raises(UntrustedFile):
        run_file(tmp_path / "agent.py", trust=False)
    with pytest.raises(UntrustedFile):
        find_setting("agent.py", tmp_path, trust=False)


def test_every_way_to_name_a_file_is_seen():
    for text in ("a.py", "a.py+easy", "a.py@sjf", "x=a.py", "a.py:f", "file:a.py", "a.py-low", "~/a.py"):
        assert python_named({"a": [{"b": text}]}) == text
        assert python_named({text: 1}) == text
    assert python_named({"a": ["fcfs+easy", "pybatsim", "data.pyx", 1, None]}) == ""


CODE_FROM_TEXT = {
    "exec": {"hdrl/base/pyfiles.py", "hdrl/compiled/fields.py", "hdrl/compiled/plain.py"},
    "compile": {"hdrl/base/pyfiles.py"},
    "eval": set(),
    "__import__": set(),
    "run_path": set(),
    "run_module": set(),
    "spec_from_file_location": set(),
    "SourceFileLoader": set(),
    "instanciate_scheduler": {"hdrl/batsim/pybatsim/host.py"},
    "run_file": {
        *("hdrl/setting/known.py", "hdrl/envs/own_objective.py", "hdrl/settings/adaptation/ownmodels.py"),
        "hdrl/base/pyfiles.py",
    },
    "run_policy_file": {"hdrl/experiment/run/agentfile.py", "hdrl/settings/batch/policies/pyfile.py"},
}
"""Which modules call what makes code of text. `hdrl.compiled` makes text of its own tables, never of a file; PyBatsim
runs the scheduler that its command names."""

IMPORTERS = {
    *(
        "hdrl/base/lazy.py",
        "hdrl/base/moved.py",
        "experiments/__init__.py",
        "hdrl/setting/known.py",
        "hdrl/settings/batch/simulation/frames.py",
    ),
    *("hdrl/settings/batch/simulators.py", "hdrl/learn/skip_dynamo.py", "launcher/main.py", "agents/__init__.py"),
    *("hdrl/compiled/borrow.py", "hdrl/compiled/jit.py", "hdrl/base/gymnasium_ids.py"),
    *("hdrl/experiment/run/agentfile.py", "hdrl/experiment/train/learning.py"),
    *("hdrl/settings/batch/envs/job_pick_making.py", "hdrl/settings/gpu/envs/making.py"),
    "hdrl/settings/batch/irmasim.py",
}
"""Modules that import others by a name: each from a table of its own."""


def test_one_function_runs_the_python_of_users():
    for folder in ("hdrl", "launcher", "agents", "experiments"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            tree = ast.parse(path.read_text())
            for one in ast.walk(tree):
                if not isinstance(one, ast.Call):
                    continue
                called = one.func.id if isinstance(one.func, ast.Name) else getattr(one.func, "attr", "")
                owner = (
                    getattr(getattr(one.func, "value", None), "id", "") if isinstance(one.func, ast.Attribute) else ""
                )
                if called in CODE_FROM_TEXT and not (
                    called in ("compile", "eval") and isinstance(one.func, ast.Attribute)
                ):
                    assert name in CODE_FROM_TEXT[called], f"{name}:{one.lineno} calls {called}"
                if called == "import_module":
                    assert name in IMPORTERS, f"{name}:{one.lineno} imports by name"
                if called == "run_file":
                    assert [keyword.arg for keyword in one.keywords] == ["trust"], f"{name}:{one.lineno}"
                if (owner, called) == ("torch", "load"):
                    given = {keyword.arg: getattr(keyword.value, "value", None) for keyword in one.keywords}
                    assert given.get("weights_only") is True, f"{name}:{one.lineno}"
                if called == "load" and owner in ("np", "numpy"):
                    assert not any(keyword.arg == "allow_pickle" for keyword in one.keywords), f"{name}:{one.lineno}"
            imported = {alias.name for one in ast.walk(tree) if isinstance(one, ast.Import) for alias in one.names}
            imported |= {one.module or "" for one in ast.walk(tree) if isinstance(one, ast.ImportFrom)}
            assert not imported & {"pickle", "marshal", "shelve", "runpy", "cloudpickle", "dill", "joblib"}, name
