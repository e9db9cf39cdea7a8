"""hdrl-launch with agents that learn: what people type, and what they see."""

import copy
import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("torch", reason="agents that learn need torch")

from hdrl.envs.native import NativeVectorEnv
from hdrl.launcher.launch import launch
from hdrl.learn.checkpoint import load_checkpoint, save_checkpoint
from hdrl.version import VERSION

ROOT = Path(__file__).parents[2]
EXPERIMENT = ROOT / "examples" / "learning.json"
QUIETLY = ("--set", "learning.tensorboard=false")
BEST_MAKESPAN_S = 5.25


def run(*arguments: object) -> Result:
    return CliRunner().invoke(launch, [str(argument) for argument in arguments], prog_name="hdrl-launch")


def good(*arguments: object) -> Result:
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr or result.exception
    return result


def refused(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    return line


def makespan(folder: Path) -> float:
    return json.loads((folder / "metrics.json").read_text())["makespan_s"]


@pytest.mark.parametrize("order", ["agent options", "options -a agent"])
def test_a_built_in_agent_by_name(tmp_path: Path, order: str):
    words = {"agent": "reinforce", "options": EXPERIMENT}
    typed = [words.get(word, word) for word in order.split()]
    result = good(*typed, *QUIETLY, "--set", "learning.n_envs=8", "-nr", 60, "--out", tmp_path / "out")
    assert "reinforce, 2 jobs" in result.stdout
    assert "trained in 60 iterations, 480 decisions, 480 episodes" in result.stdout
    assert f"model in {tmp_path / 'out' / 'model.pt'}\n" in result.stdout
    assert "iteration 60 of 60: return -5.25" in result.stderr
    assert re.search(r"steps/s [\d,.]+$", result.stderr, re.MULTILINE)
    assert makespan(tmp_path / "out") == pytest.approx(BEST_MAKESPAN_S, abs=1e-6)


def test_train_then_test_with_the_model(tmp_path: Path):
    agent = ROOT / "examples" / "actor_critic.py"
    model = tmp_path / "model.pt"
    good(agent, EXPERIMENT, *QUIETLY, "-nr", 120, "-om", model, "--out", tmp_path / "train", "--quiet")
    assert model.is_file()
    test = ("--set", "pybatsim.agent.run=test")
    good(agent, EXPERIMENT, *test, "-im", model, "--out", tmp_path / "test", "--quiet")
    assert makespan(tmp_path / "test") == pytest.approx(BEST_MAKESPAN_S, abs=1e-6)
    assert not (tmp_path / "test" / "training.csv").exists()
    assert "no such file, expected a model" in refused(agent, EXPERIMENT, *test, "-im", tmp_path / "none.pt")


def test_resume_goes_on(tmp_path: Path):
    good("reinforce", EXPERIMENT, *QUIETLY, "-nr", 3, "--out", tmp_path / "out", "--quiet")
    result = good("--resume", tmp_path / "out", "-nr", 5, "--quiet")
    assert result.stdout == f"{tmp_path / 'out'}\n"
    assert len((tmp_path / "out" / "training.csv").read_text().splitlines()) == 1 + 5
    assert "--resume continues the training in it" in refused("reinforce", EXPERIMENT, "--out", tmp_path / "out")
    assert "already sets the agent" in refused("--resume", tmp_path / "out", "-a", "ppo")
    assert "already names the folder" in refused("--resume", tmp_path / "out", "-o", tmp_path / "other")
    assert "expected that of a training" in refused("--resume", tmp_path / "none")
    assert "was trained with seed" in refused("--resume", tmp_path / "out", "--seed", 3)


def test_one_command_begins_and_resumes(tmp_path: Path):
    command = ("reinforce", EXPERIMENT, *QUIETLY, "--resume", tmp_path / "out", "-nr")
    for n_iterations in (2, 2, 4):
        assert good(*command, n_iterations, "--quiet").stdout == f"{tmp_path / 'out'}\n"
        assert len((tmp_path / "out" / "training.csv").read_text().splitlines()) == 1 + n_iterations
    assert "was trained with seed" in refused(*command, 4, "--seed", 3)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").touch()
    assert "is not empty" in refused("reinforce", EXPERIMENT, "--resume", tmp_path / "mine")


def test_a_checkpoint_of_another_version_is_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    good("reinforce", EXPERIMENT, *QUIETLY, "-nr", 3, "--out", tmp_path / "out", "--quiet")
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    ours = NativeVectorEnv.state_layout
    with monkeypatch.context() as another_version:
        another_version.setattr(NativeVectorEnv, "state_layout", lambda env: f"z{ours(env)}")
        told = refused("--resume", tmp_path / "out", "-nr", 5)
    assert re.fullmatch(
        r".*checkpoint\.pt: was written by another version of hdrl: it keeps its episodes in the layout [0-9a-f]{12}"
        r" \(hdrl [0-9.]+\), expected z[0-9a-f]{11} \(hdrl [0-9.]+\);"
        r" train anew, or go on with the version that wrote it",
        told,
    )
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    good("--resume", tmp_path / "out", "-nr", 5, "--quiet")


def test_a_checkpoint_that_names_no_layout_goes_on_if_it_fits(tmp_path: Path):
    good("ppo", EXPERIMENT, *QUIETLY, "--set", "learning.iterations=2", "--out", tmp_path / "out", "--quiet")
    path = tmp_path / "out" / "checkpoint.pt"
    checkpoint = load_checkpoint(path)
    unnamed = {name: note for name, note in checkpoint.notes.items() if name != "state_layout"}
    lacking = copy.deepcopy(checkpoint.training)
    del lacking["learner"]["interaction"]["envs"]["observations"]
    save_checkpoint(path, dataclasses.replace(checkpoint, notes=unnamed, training=lacking))
    more = ("--resume", tmp_path / "out", "--set", "learning.iterations=3")
    told = refused(*more)
    assert f"checkpoint.pt: was written by another version of hdrl (which calls itself {VERSION}, too), or is" in told
    assert told.endswith("'observations' is missing; train anew, or go on with the version that wrote it")
    save_checkpoint(path, dataclasses.replace(checkpoint, notes=unnamed, training=lacking, hdrl_version="0.0.1"))
    assert f"was written by another version of hdrl (hdrl 0.0.1, expected {VERSION}), or is damaged: " in refused(*more)
    save_checkpoint(path, dataclasses.replace(checkpoint, notes=unnamed))
    good(*more, "--quiet")


def test_a_training_keeps_its_jobs(tmp_path: Path):
    jobs = tmp_path / "jobs.json"
    jobs.write_text((ROOT / "workloads" / "learning.json").read_text())
    custom = ("--set", f"workload.custom={jobs}")
    good("reinforce", EXPERIMENT, *QUIETLY, *custom, "-nr", 2, "--out", tmp_path / "out", "--quiet")
    assert "already sets the agent" in refused("--resume", tmp_path / "out", "-cw", jobs)
    changed = json.loads(jobs.read_text())
    changed["jobs"][1]["subtime"] = 1
    jobs.write_text(json.dumps(changed))
    assert "have changed since the training began" in refused("--resume", tmp_path / "out", "-nr", 5)


def test_ranges_are_looked_at_before_the_training(tmp_path: Path):
    windows = ("--set", "learning.episodes.n_jobs=1", "--set", "learning.episodes.train=[0,1]")
    empty = ("--set", "learning.episodes.test=[0.9,0.905]")
    told = refused("reinforce", EXPERIMENT, *QUIETLY, *windows, *empty, "--out", tmp_path / "out")
    assert "learning.episodes.test is [0.9, 0.905], which holds none of the 2 jobs" in told
    assert not (tmp_path / "out").exists()
    # Nobody asked for a validation, for which two jobs are not enough.
    good("reinforce", EXPERIMENT, *QUIETLY, *windows, "--out", tmp_path / "out", "--quiet")


def test_actions_in_hdeeprms_form(tmp_path: Path):
    actions = '[{"first": ["high_gflops", "low_power"]}, {"shortest": ["random"]}]'
    good("reinforce", EXPERIMENT, *QUIETLY, "--set", f"learning.arguments.actions={actions}", "--out", tmp_path / "out")
    header = (tmp_path / "out" / "training.csv").read_text().splitlines()[0]
    names = ("first-high_gflops", "first-low_power", "shortest-random")
    assert header.endswith(",".join(f"probability.{name}" for name in names))


def test_a_learning_agent_must_be_named(tmp_path: Path):
    assert "names none; name a Python file or one of" in refused(EXPERIMENT, "--out", tmp_path / "out")
    assert "did you mean 'reinforce'" in refused("reinforc", EXPERIMENT, "--out", tmp_path / "out")
    assert "--simulator" not in refused("ppo", EXPERIMENT, "--simulator", "exact", "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_classic_takes_the_options_of_a_learning_agent_for_what_it_can(tmp_path: Path):
    pair = "pybatsim.agent.policy_pair=first-high_mem_bw"
    good("classic", EXPERIMENT, "--set", pair, "--out", tmp_path / "out", "--quiet")
    assert makespan(tmp_path / "out") == pytest.approx(BEST_MAKESPAN_S, abs=1e-6)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_what_is_reached(tmp_path: Path, number: signal.Signals):
    out = tmp_path / "out"
    command = [sys.executable, "-c", "from hdrl.launcher.launch import launch; launch(prog_name='hdrl-launch')"]
    command += ["reinforce", str(EXPERIMENT), *QUIETLY, "-nr", "1000000", "--out", str(out), "--quiet"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    deadline_s = time.monotonic() + 240
    while not (out / "checkpoint.pt").is_file() and time.monotonic() < deadline_s:
        time.sleep(0.05)
    process.send_signal(number)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 128 + number, told
    assert told.startswith("hdrl-launch: error: interrupted after ")
    assert told.endswith(f"iterations; hdrl-launch --resume {out} continues\n")
    n_iterations = int(told.split()[4].replace(",", ""))
    assert len((out / "training.csv").read_text().splitlines()) == 1 + n_iterations
    good("--resume", out, "-nr", n_iterations + 2, "--quiet")
    assert len((out / "training.csv").read_text().splitlines()) == 1 + n_iterations + 2
