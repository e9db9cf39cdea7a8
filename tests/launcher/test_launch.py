"""hdrl-launch: both ways to name an agent, one line for each mistake, what is shown at the end."""

import gc
import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from hdrl.launcher.launch import launch, left_out
from hdrl.launcher.main import COMMANDS, GROUPS, cli
from hdrl.launcher.process import end_quickly, rare_collections

SMALL_JOBS = Path(__file__).parents[2] / "workloads" / "learning.json"
AGENT = "def policy(view):\n    return []\n"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(launch, [str(argument) for argument in arguments], prog_name="hdrl-launch")


def refused(*arguments: object, code: int = 2) -> str:
    result = run(*arguments)
    assert result.exit_code == code
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("hdrl-launch: error: ")
    return lines[0].removeprefix("hdrl-launch: error: ")


@pytest.fixture
def agent_file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(AGENT)
    return path


def test_options_alone_run_the_classic_agent(small_world: Path, stand_in, tmp_path: Path):
    result = run(small_world, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.stderr
    assert stand_in.calls[0]["policy"] == "first-high_gflops"
    assert "first-high_gflops, 3 jobs" in result.stdout
    assert f"results in {tmp_path / 'out'}\n" in result.stdout
    assert "mean_wait_s" in result.stdout
    assert "12.33" in result.stdout, "(6 + 11 + 20) / 3"


@pytest.mark.parametrize("order", ["agent options", "options agent", "options -a agent", "-a agent options"])
@pytest.mark.parametrize("agent", ["classic", "file"])
def test_both_orders_are_understood(
    small_world: Path, stand_in, agent_file: Path, tmp_path: Path, order: str, agent: str
):
    words = {"agent": "classic" if agent == "classic" else agent_file, "options": small_world}
    result = run(*(words.get(word, word) for word in order.split()), "--out", tmp_path / "out", "--quiet")
    assert result.exit_code == 0, result.stderr
    policy = stand_in.calls[0]["policy"]
    assert callable(policy) if agent == "file" else policy == "first-high_gflops"


def test_the_agent_on_the_command_line_counts(small_world: Path, stand_in, agent_file: Path, tmp_path: Path):
    words = [small_world, "--set", f"pybatsim.agent.file={agent_file}", "--quiet"]
    run(*words, "--out", tmp_path / "a")
    run("classic", *words, "--out", tmp_path / "b")
    assert callable(stand_in.calls[0]["policy"])
    assert stand_in.calls[1]["policy"] == "first-high_gflops"


def test_a_test_says_that_no_model_is_written(small_world: Path, tmp_path: Path):
    model = tmp_path / "new.pt"
    result = run("ppo", small_world, "--set", "agent.run=test", "-om", model, "--out", tmp_path / "out")
    assert f"hdrl trains no model and writes none to {model}" in result.stderr
    assert not model.exists()


def test_quiet_prints_the_folder_only(small_world: Path, stand_in, tmp_path: Path):
    result = run(small_world, "--out", tmp_path / "out", "--quiet")
    assert (result.stdout, result.stderr) == (f"{tmp_path / 'out'}\n", "")


def test_garbage_is_collected_as_before_after_a_run(small_world: Path, stand_in, tmp_path: Path):
    usual, during = gc.get_threshold(), []
    stand_in.during = lambda call: during.append(gc.get_threshold())
    run(small_world, "--out", tmp_path / "out", "--quiet")
    assert during[0][0] > usual[0]
    refused(small_world, "--set", "sed=1")
    assert gc.get_threshold() == usual


def test_default_folder(small_world: Path, stand_in, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    result = run(small_world, "--quiet")
    assert result.exit_code == 0, result.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    assert Path(result.stdout.strip()) == Path("runs") / folder.name
    assert (folder / "metrics.json").is_file()


def test_changes_reach_the_simulator(small_world: Path, stand_in, tmp_path: Path):
    result = run(
        small_world,
        *("--seed", 11, "--set", "energy=false", "--set", "pybatsim.agent.policy_pair=smallest-low_energy"),
        *("--out", tmp_path / "out", "--quiet"),
    )
    assert result.exit_code == 0, result.stderr
    call = stand_in.calls[0]
    assert (call["seed"], call["energy"], call["policy"]) == (11, False, "smallest-low_power")


@pytest.mark.parametrize("option", ["-nr", "--runs", "--nbruns"])
def test_several_runs(small_world: Path, stand_in, tmp_path: Path, option: str):
    result = run(small_world, option, 2, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.stderr
    assert "mean of 2 runs" in result.stdout
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["run_0", "run_1"]


@pytest.mark.parametrize("option", ["-cw", "--customworkload", "--custom-workload"])
def test_custom_workload(small_world: Path, stand_in, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str):
    custom = {
        "nb_res": 4,
        "jobs": [{"id": 1, "subtime": 0, "res": 2, "profile": "p"}],
        "profiles": {"p": {"type": "parallel_homogeneous", "com": 0, "req_time": 5, "mem": 10, "mem_bw": 4}},
    }
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "own.json").write_text(json.dumps(custom))
    monkeypatch.chdir(tmp_path / "here")  # paths on the command line start here, those of the options file from there
    result = run(small_world, option, "own.json", "--out", tmp_path / "out", "--quiet")
    assert result.exit_code == 0, result.stderr
    assert json.loads((tmp_path / "out" / "metrics.json").read_text())["n_jobs"] == 1


def test_mistakes_are_one_line(small_world: Path, stand_in, agent_file: Path, tmp_path: Path):
    out = ("--out", tmp_path / "out")
    assert refused("none.json", *out) == "none.json: no such file"
    assert refused("clasic", small_world, *out).endswith("built-in agent; did you mean 'classic'?")
    assert refused("fcsf+easy", small_world, *out).endswith("built-in agent; did you mean 'fcfs+easy'?")
    assert refused("sjf+easy@goe", small_world, *out) == "no predictor 'goe'; did you mean 'geo'?"
    assert "is a folder, expected a file" in refused(small_world, "-cw", tmp_path, *out)
    assert "is a model; run it by -im my.pt --set pybatsim.agent.run=test" in refused("my.pt", small_world, *out)
    assert "the agent is given twice" in refused("classic", small_world, "-a", agent_file, *out)
    assert "expected [AGENT] OPTIONS" in refused("a.py", "b.json", "c.json", *out)
    assert refused("classic", *out).startswith("classic: is no options file; expected [AGENT] OPTIONS")
    assert "expected [AGENT] OPTIONS" in refused(agent_file, *out)
    assert "is a folder, expected a model" in refused(small_world, "-im", tmp_path, *out)
    assert "is a file, expected the folder of a training" in refused("--resume", small_world)
    assert "no such file" in refused("none.py", small_world, *out)
    assert "no such file, expected a model" in refused(small_world, "-im", tmp_path / "m.pt", *out)
    assert "a classic agent has no model" in refused(small_world, "-im", agent_file, *out)
    assert "a classic agent has no model" in refused(small_world, "-om", tmp_path / "m.pt", *out)
    assert "did you mean 'gamma'" in refused(small_world, "--set", "pybatsim.agent.gama=1", *out)
    assert "LEARNING" in refused(small_world, "--set", "pybatsim.agent.type=LEARNING", *out)
    assert "is not empty" in refused(small_world, "--out", tmp_path)
    assert "'--seed': 'x', expected a whole number." in refused(small_world, "--seed", "x", *out)
    assert "--runs" in refused(small_world, "-nr", "0", *out)
    assert "Did you mean" in refused(small_world, "--sed", "4", *out)
    assert "Missing argument" in refused()
    assert not stand_in.calls
    assert not (tmp_path / "out").exists()


def test_ctrl_c_is_one_line(small_world: Path, stand_in, tmp_path: Path):
    def interrupt(call: int) -> None:
        raise KeyboardInterrupt

    stand_in.during = interrupt
    result = run(small_world, "--out", tmp_path / "out", "--quiet")
    assert (result.exit_code, result.stderr) == (130, "hdrl-launch: error: interrupted\n")
    assert not (tmp_path / "out").exists()


def test_bugs_keep_their_traceback(small_world: Path, stand_in, tmp_path: Path):
    def break_down(call: int) -> None:
        raise RuntimeError("a bug")

    stand_in.during = break_down
    result = run(small_world, "--out", tmp_path / "out")
    assert isinstance(result.exception, RuntimeError)


def test_agent_errors_name_their_line(small_world: Path, stand_in, agent_file: Path, tmp_path: Path):
    agent_file.write_text("def policy(view):\n    return view.queue\n")
    message = refused(agent_file, small_world, "--out", tmp_path / "out", "--quiet")
    assert message == f"{agent_file}:2: AttributeError: 'NoneType' object has no attribute 'queue'"


def test_run_is_the_same_command(small_world: Path, stand_in, tmp_path: Path):
    words = ["run", "classic", str(small_world), "--out", str(tmp_path / "out"), "--quiet"]
    result = CliRunner().invoke(cli, words)
    assert (result.exit_code, result.stdout) == (0, f"{tmp_path / 'out'}\n")


def test_options_check_and_schema(small_world: Path):
    good = CliRunner().invoke(cli, ["options", "check", str(small_world)])
    assert good.stdout == f"{small_world}: good\n"
    resolved = CliRunner().invoke(cli, ["options", "check", "--resolved", "--set", "seed=3", str(small_world)])
    told = json.loads(resolved.stdout)
    assert (told["seed"], told["pybatsim"]["agent"]["type"]) == (3, "CLASSIC")
    bad = CliRunner().invoke(cli, ["options", "check", "--set", "sed=3", str(small_world)], prog_name="hdrl")
    assert (bad.exit_code, bad.stderr) == (2, "hdrl: error: --set: the file has no key 'sed'; did you mean 'seed'?\n")
    schema = CliRunner().invoke(cli, ["options", "schema"])
    assert json.loads(schema.stdout)["properties"]["seed"]["minimum"] == 0


@pytest.mark.parametrize(
    "mistake",
    [
        "platform_file_path=nosuch",
        "workload_file_path=nosuch",
        "pybatsim.agent.policy_pair=foo-bar",
        "learning.algorithm=pppo",
        "workload_file_path=",
    ],
)
def test_options_check_says_what_launch_says(mistake: str, small_world: Path, tmp_path: Path):
    said = refused(small_world, "--set", mistake, "--out", tmp_path / "out")
    words = ["options", "check", "--set", mistake, str(small_world)]
    found = CliRunner().invoke(cli, words, prog_name="hdrl")
    assert (found.exit_code, found.stdout, found.stderr) == (2, "", f"hdrl: error: {said}\n")


def test_options_without_a_workload_are_good_with_one(small_world: Path):
    words = ["options", "check", str(small_world), "--set", "workload_file_path=", "-cw", str(SMALL_JOBS)]
    assert CliRunner().invoke(cli, words).stdout == f"{small_world}: good\n"


def test_what_a_command_has_made_is_not_searched_when_it_ends():
    usual = gc.get_threshold()
    with rare_collections():
        assert gc.get_threshold()[0] > usual[0]
        kept: list[list[object]] = [[] for _ in range(10_000)]
    old = {id(one) for one in gc.get_objects(generation=2)}
    assert gc.get_threshold() == usual
    assert all(id(one) in old for one in kept)


def test_objects_of_nanobind_are_not_kept_from_the_collector(monkeypatch: pytest.MonkeyPatch):
    frozen: list[int] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(1))
    end_quickly()
    assert frozen == [1]
    metaclass = type("nb_meta", (type,), {})  # the metaclass of all types of nanobind
    end_quickly()
    assert frozen == [1]
    del metaclass
    gc.collect()  # the tests that follow see no such type
    end_quickly()
    assert frozen == [1, 1]


def test_each_command_stands_once_in_the_help() -> None:
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str):
    result = CliRunner().invoke(cli, [name, "--help"])
    assert result.exit_code == 0
    assert result.stdout.startswith("Usage: ")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_the_group_matches(name: str):
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert COMMANDS[name].help.endswith(".")


def test_a_misspelt_command_is_one_line():
    result = CliRunner().invoke(cli, ["platfrom"], prog_name="hdrl")
    assert result.exit_code == 2
    assert result.stderr == "hdrl: error: no command 'platfrom'; did you mean 'platform'? (see hdrl --help)\n"


def test_errors_of_other_commands_are_one_line_too():
    result = CliRunner().invoke(cli, ["platform", "show", "gaja"], prog_name="hdrl")
    assert result.exit_code == 2
    assert result.stderr.startswith("hdrl: error: gaja: ")
    assert "did you mean 'gaia'" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_help_loads_next_to_nothing():
    code = "import sys; import hdrl.launcher.main, hdrl.launcher.launch; print(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert not loaded & {"numpy", "numba", "pydantic", "rich", "torch", "pandas", "zmq", "gymnasium", "lxml"}


def test_the_simulator_on_the_command_line(small_world: Path, stand_in, tmp_path: Path):
    result = run(small_world, "--simulator", "exact", "--out", tmp_path / "out", "--quiet")
    assert result.exit_code == 0, result.stderr
    assert stand_in.calls[0]["simulator"] == "exact"
    assert json.loads((tmp_path / "out" / "options.resolved.json").read_text())["simulator"] == "exact"
    told = refused(small_world, "--simulator", "exakt", "--out", tmp_path / "other")
    assert told == "--set: simulator is 'exakt'; did you mean 'exact'?"


def test_jobs_that_were_left_out_are_told_with_the_reasons():
    assert left_out({"jobs that take no time": 1}) == (
        "one job of the workload was left out: jobs that take no time (1)"
    )
    assert left_out({"a": 1200, "b": 3}) == "1,203 jobs of the workload were left out: a (1,200), b (3)"
