"""Agent files: loaded by path, errors told with file and line."""

import os
import sys
from pathlib import Path

import pytest

from hdrl.base.errors import ReadError, UnknownName
from hdrl.envs.own_objective import load_objective
from hdrl.experiment import AgentError, load_agent, run_experiment
from hdrl.experiment.run.inputs import read_options
from hdrl.settings.batch.policies import OwnPriority

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
FUNCTION = "def policy(view):\n    return []\n"
CLASS = """\
from hdrl.agents.classic import ClassicAgent


class Mine(ClassicAgent):
    pass
"""
DECIDES = CLASS.replace("    pass", "    def decide(self, view):\n        return [self.policy_pair]")


def written(folder: Path, text: str) -> Path:
    path = folder / "agent.py"
    path.write_text(text)
    return path


def pair() -> str:
    return "first-low_power"


def never() -> str:
    raise AssertionError("a policy in Python needs no policy pair")


def test_a_function_is_a_policy(tmp_path: Path):
    agent = load_agent(written(tmp_path, FUNCTION), never)
    assert callable(agent.policy)
    assert agent.policy(None) == []
    assert agent.name == "agent.py"
    assert len(agent.sha256) == 64


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_are_agents(path: Path):
    if "def policy" in path.read_text():
        assert callable(load_agent(path, never).policy)
    elif "(Agent)" in path.read_text() or "LearningAgent" in path.read_text():
        pytest.importorskip("torch", reason="agents that learn need torch")
        assert load_agent(path, never).learner is not None
    else:
        assert "hdrl.envs" in path.read_text(), "it is not an agent, but the use of an environment elsewhere"


def test_a_priority_is_an_agent(tmp_path: Path):
    path = written(tmp_path, "def priority(job, now_s):\n    return job.cores\n")
    agent = load_agent(f"{path}+easy-low_power", never)
    assert isinstance(agent.policy, OwnPriority)
    assert (agent.policy.backfilling, agent.policy.core_selection) == ("easy", "low_power")
    assert (agent.name, agent.path, len(agent.sha256)) == ("agent.py+easy-low_power", path, 64)
    with pytest.raises(AgentError, match=r"agent.py.*: a policy\(view\) decides itself"):
        load_agent(f"{written(tmp_path, FUNCTION)}+easy", never)
    with pytest.raises(AgentError, match=r"agent.py: defines Mine; '\+easy' goes with a priority"):
        load_agent(f"{written(tmp_path, CLASS)}+easy", never)


def test_a_classic_agent_follows_the_policy_pair(tmp_path: Path):
    assert load_agent(written(tmp_path, CLASS), pair).policy == "first-low_power"


def test_a_classic_agent_may_decide_itself(tmp_path: Path):
    agent = load_agent(written(tmp_path, DECIDES), pair)
    assert callable(agent.policy)
    assert agent.policy(None) == ["first-low_power"]


def test_a_constructor_may_choose_the_pair(tmp_path: Path):
    text = CLASS.replace(
        "    pass", "    def __init__(self, policy_pair):\n        super().__init__('shortest-high_flops')"
    )
    assert load_agent(written(tmp_path, text), pair).policy == "shortest-high_gflops"


def test_dataclasses_work_in_agent_files(tmp_path: Path):
    text = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n\n\n"
        f"@dataclass\nclass Settings:\n    depth: int = 3\n\n\n{FUNCTION}"
    )
    assert callable(load_agent(written(tmp_path, text), never).policy)


def test_a_helper_base_class_is_no_second_agent(tmp_path: Path):
    text = CLASS + "\n\nclass Better(Mine):\n    pass\n"
    assert load_agent(written(tmp_path, text), pair).policy == "first-low_power"


def test_loading_leaves_the_interpreter_alone(tmp_path: Path):
    before = list(sys.path)
    load_agent(written(tmp_path, FUNCTION), never)
    assert sys.path == before
    assert [path.name for path in tmp_path.iterdir()] == ["agent.py"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\ndef policy(view:\n", "agent.py:2: "),
        ("x = 1\ny = unknown\n", "agent.py:2: NameError: name 'unknown' is not defined"),
        ("import no_such_package\n", "agent.py:1: ModuleNotFoundError: No module named 'no_such_package'"),
        ("import sys\nsys.exit(3)\n", "agent.py:2: SystemExit: 3"),
        (
            "",
            "defines no agent, expected a function policy(view) or priority(job, now_s), a subclass of ClassicAgent",
        ),
        ("from hdeeprm.agent import Agent\n", "defines no agent"),
        ("import hdeeprm.policies\n", "No module named 'hdeeprm.policies'"),
        ("policy = 5\n", "defines no agent"),
        ("from hdrl.agents.classic import ClassicAgent\n", "defines no agent"),
        (f"{CLASS}\n\nclass Other(ClassicAgent):\n    pass\n", "defines 2 agents (Mine, Other), expected one"),
        (f"{CLASS}\n\n{FUNCTION}", "defines 2 agents (Mine, policy), expected one"),
        (CLASS.replace("    pass", "    def __init__(self):\n        pass"), "Mine: "),
        (CLASS.replace("    pass", "    def __init__(self, pair):\n        raise ValueError('bad')"), "agent.py:6: "),
        ("x = '\0'\n", "agent.py"),
        ("(" * 5000, "agent.py"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, text: str, message: str):
    with pytest.raises(AgentError) as caught:
        load_agent(written(tmp_path, text), pair)
    assert message in str(caught.value)
    assert str(tmp_path / "agent.py") in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_unreadable_files_are_one_line(tmp_path: Path):
    with pytest.raises(ReadError, match="no such file"):
        load_agent(tmp_path / "none.py", never)
    (tmp_path / "agent.py").write_bytes(b"\xff\xfe")
    with pytest.raises(ReadError, match="is not UTF-8 text"):
        load_agent(tmp_path / "agent.py", never)


def test_an_unknown_pair_keeps_its_suggestion(tmp_path: Path):
    text = CLASS.replace("    pass", "    def __init__(self, pair):\n        super().__init__('shortest-hi_gflops')")
    with pytest.raises(UnknownName, match="did you mean 'shortest-high_gflops'"):
        load_agent(written(tmp_path, text), pair)


def test_an_agent_that_fails_while_it_decides_is_blamed(small_world: Path, stand_in, tmp_path: Path):
    written(tmp_path, "def policy(view):\n    return help_me(view)\n\n\ndef help_me(view):\n    return view.tasks\n")
    options = read_options(small_world, overrides=["pybatsim.agent.file=agent.py"])
    with pytest.raises(AgentError, match=r"agent.py:6: AttributeError: 'NoneType' object has no attribute 'tasks'"):
        run_experiment(options, out=tmp_path / "out")


def test_errors_of_our_own_are_not_blamed_on_the_agent(small_world: Path, stand_in, tmp_path: Path):
    written(tmp_path, FUNCTION)

    def break_down(call: int) -> None:
        raise RuntimeError("a bug")

    stand_in.during = break_down
    options = read_options(small_world, overrides=["pybatsim.agent.file=agent.py"])
    with pytest.raises(RuntimeError, match="a bug"):
        run_experiment(options, out=tmp_path / "out")


def test_an_agent_file_is_run_and_recorded(small_world: Path, stand_in, tmp_path: Path):
    written(tmp_path, FUNCTION)
    options = read_options(small_world, overrides=["pybatsim.agent.file=agent.py"])
    result = run_experiment(options, out=tmp_path / "out")
    assert result.runs[0].policy == "agent.py"
    assert '"name": "agent.py"' in (result.folder / "provenance.json").read_text()


COUNTING = """
from pathlib import Path
with Path(__file__).with_suffix(".txt").open("a") as told:
    told.write("x")
"""


@pytest.mark.parametrize("n_runs", [1, 3])
def test_each_run_runs_the_file_of_its_agent_once(small_world: Path, tmp_path: Path, n_runs: int):
    (tmp_path / "mine.py").write_text(f"{COUNTING}\n\ndef priority(job, now_s):\n    return job.submit_s\n")
    options = read_options(small_world, overrides=[f"pybatsim.agent.file={tmp_path}/mine.py", f"runs={n_runs}"])
    run_experiment(options, out=tmp_path / "out")
    assert (tmp_path / "mine.txt").read_text() == "x" * n_runs


def test_the_file_of_an_objective_runs_once_until_it_changes(tmp_path: Path):
    file = tmp_path / "goal.py"
    file.write_text(f"{COUNTING}\n\ndef objective(metrics):\n    return 1.0\n")
    assert {load_objective(str(file)).sign for _ in range(3)} == {-1}
    assert file.with_suffix(".txt").read_text() == "x"
    file.write_text(f"{file.read_text()}    # more\nlower_is_better = False\n")
    os.utime(file, ns=(1, 1))
    assert load_objective(str(file)).sign == 1
    assert file.with_suffix(".txt").read_text() == "xx"
