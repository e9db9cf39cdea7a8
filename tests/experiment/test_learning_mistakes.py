"""What is told of mistakes in trainings: options, agents that answer nonsense, numbers that are none."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="agents that learn need torch")

pytestmark = pytest.mark.usefixtures("one_thread")


from hdrl.agents.reinforce import Reinforce  # noqa: E402
from hdrl.base.errors import HdrlError, LearningError, OptionsError, OutputError, ReadError  # noqa: E402

_spec = importlib.util.spec_from_file_location("learning_worlds", Path(__file__).with_name("learning.py"))
worlds: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(worlds)

train, refused = worlds.train, worlds.refused


def test_mistakes_write_nothing(tmp_path: Path):
    refused(tmp_path, OptionsError, "learning.algorithm: no algorithm 'pppo'; did you mean 'ppo'", algorithm="pppo")
    refused(tmp_path, OptionsError, "learning.settings: no key 'hiden'; did you mean 'hidden'", settings={"hiden": 1})
    refused(
        tmp_path, OptionsError, "learning.arguments has no key 'rewrd'; did you mean 'reward'", arguments={"rewrd": 1}
    )
    refused(tmp_path, OptionsError, "names none; name a Python file or one of", algorithm=None)
    refused(
        tmp_path,
        OptionsError,
        "options.json: hidden is given, but the layers of the network 'kernel' are fixed",
        algorithm="ppo",
        settings={"network": "kernel", "hidden": [128]},
    )
    refused(tmp_path, OptionsError, r"n_jobs is \[2, 1\], expected the smaller", episodes={"n_jobs": [2, 1]})
    refused(tmp_path, OptionsError, "which needs one number", episodes={"n_jobs": [1, 2], "start": "consecutive"})
    refused(
        tmp_path, OptionsError, "start is 1, expected 0 to 0", episodes={"n_jobs": 1, "start": 1, "train": [0, 0.5]}
    )
    refused(tmp_path, OptionsError, "simulator is 'exact'", "simulator=exact")
    refused(tmp_path, OptionsError, r"'test', which needs a model \(--inmodel FILE\)", "pybatsim.agent.run=test")
    refused(tmp_path, OutputError, "no such folder", f"pybatsim.agent.output_model={tmp_path}/none/m.pt")
    refused(
        tmp_path, OutputError, "is a folder, expected the name of a file", f"pybatsim.agent.output_model={tmp_path}"
    )
    (tmp_path / "thesis.tex").write_text("years of work")
    refused(
        tmp_path,
        OutputError,
        "is there already and is not a model",
        f"pybatsim.agent.output_model={tmp_path}/thesis.tex",
    )
    assert (tmp_path / "thesis.tex").read_text() == "years of work"
    refused(tmp_path, ReadError, "no such file", f"pybatsim.agent.input_model={tmp_path}/none.pt")
    (tmp_path / "bad.pt").write_bytes(b"PK\x03\x04 no model")
    refused(tmp_path, ReadError, "bad.pt: is not a model file", f"pybatsim.agent.input_model={tmp_path}/bad.pt")


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("reward", 1, "options.json: learning.arguments: no reward 1; known"),
        ("observation", ["small"], "options.json: learning.arguments: no environment can be made of it"),
        ("actions", 1, "options.json: learning.arguments: no environment can be made of it"),
        ("queue_sensitivity", "much", "options.json: learning.arguments: no environment can be made of it"),
    ],
)
def test_arguments_of_a_wrong_type_are_one_line(tmp_path: Path, key: str, value: Any, text: str):
    refused(tmp_path, OptionsError, text, arguments={key: value})


def test_a_loss_that_is_no_number_ends_the_training_and_keeps_the_last_good_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    learn = Reinforce.learn

    def breaks(self: Reinforce, batch: Any) -> dict[str, float]:
        told = learn(self, batch)
        return told | {"policy_loss": float("nan")} if self.n_updates > 7 else told

    monkeypatch.setattr(Reinforce, "learn", breaks)
    with pytest.raises(LearningError, match="policy_loss of Reinforce is nan, expected a finite number; the last good"):
        train(tmp_path, "out", checkpoint_every=5)
    kept = f"pybatsim.agent.input_model={tmp_path}/out/checkpoint.pt"
    assert train(tmp_path, "tested", kept, "pybatsim.agent.run=test").runs
    assert not (tmp_path / "out" / "metrics.json").exists()
    refused_early = r"policy_loss of Reinforce is nan, expected a finite number$"
    monkeypatch.setattr(Reinforce, "learn", lambda self, batch: {"policy_loss": float("nan")})
    with pytest.raises(LearningError, match=refused_early):
        train(tmp_path, "early")
    assert not (tmp_path / "early").exists()


def test_weights_that_are_no_numbers_are_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    learn = Reinforce.learn

    def breaks(self: Reinforce, batch: Any) -> dict[str, float]:
        told = learn(self, batch)
        with torch.no_grad():
            for parameter in self.network.parameters():
                parameter[0] = float("nan")
        return told

    monkeypatch.setattr(Reinforce, "learn", breaks)
    with pytest.raises(LearningError, match="weights of Reinforce are not finite any more"):
        train(tmp_path, "out", iterations=1)
    with pytest.raises(LearningError, match="policy_loss of Reinforce is nan"):
        train(tmp_path, "out", iterations=4)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("def act(self, observations, mask, *, explore): return None", r"mine.py:\d+: Preferences.act returned None"),
        (
            "def act(self, observations, mask, *, explore): return Acted(torch.zeros(3, dtype=torch.int64), {})",
            r"mine.py:\d+: Preferences.act returned a int64 tensor of shape \(3,\) as actions, expected .*shape \(4,\)",
        ),
        (
            "def act(self, observations, mask, *, explore): return Acted(torch.zeros(4, dtype=torch.int64), None)",
            r"mine.py:\d+: Preferences.act returned None as stored",
        ),
        (
            "def act(self, observations, mask, *, explore): return Acted(torch.full((4,), 99), {})",
            r"mine.py: row 0: no action 99",
        ),
        ("def act(self, observations): return None", r"mine.py:\d+: Preferences.act: too many positional arguments"),
        (
            "def learn(self, batch): return None",
            r"mine.py:\d+: Preferences.learn returned None, expected numbers by name",
        ),
        ("def learn(self, batch): return {'loss': 'low'}", r"mine.py:\d+: Preferences.learn returned {'loss': 'low'}"),
        ("def memory(self, n_envs): return []", r"mine.py:\d+: Preferences.memory returned \[\], expected a Rollout"),
        ("def probabilities(self, observations, mask): return 1", r"mine.py:\d+: Preferences.probabilities returned 1"),
        (
            "def __init__(self, *given): pass",
            r"mine.py:\d+: Preferences.__init__ leaves the agent without observation_space",
        ),
        (
            "def act(self, observations, mask, *, explore):\n"
            "        self.modules['preferences'][0].data.fill_(float('inf'))\n"
            "        return torch.multinomial(torch.full((4, 5), float('nan')), 1)",
            "weights of Preferences are not finite any more",
        ),
        ("def learn(self, batch): raise SystemExit(0)", r"mine.py:\d+: SystemExit: 0"),
    ],
)
def test_an_agent_that_answers_nonsense_is_told_its_place(tmp_path: Path, code: str, text: str):
    source = (worlds.ROOT / "examples" / "preferences.py").read_text()
    (tmp_path / "mine.py").write_text(f"{source}\n    {code}\n")
    refused(tmp_path, HdrlError, text, f"pybatsim.agent.file={tmp_path}/mine.py", algorithm=None)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("def policy(): return []", r"mine.py:1: policy\(\) takes other arguments, expected policy\(view\)"),
        (
            "def priority(job): return 1",
            r"mine.py:1: priority\(job\) takes other arguments, expected priority\(job, now_s\)",
        ),
        ("async def policy(view): return []", r"mine.py:1: policy\(view\) is a coroutine, expected a function"),
        (
            "def priorities(jobs, now_s): return jobs['requested_tim']",
            r"mine.py:1: ValueError: no field of name requested_tim; did you mean 'requested_time_s'\?",
        ),
        (
            "def priorities(jobs, now_s): return jobs.submit_s",
            r"mine.py:1: AttributeError: .*; its columns are read by \[...\], did you mean 'submit_s'\?",
        ),
        (
            "from hdrl.compat.hdeeprm.bases import PolicyLearningAgent\n"
            "class Mine(PolicyLearningAgent):\n    def __init__(self, *given): self.hidden = 1",
            r"mine.py: Mine: .* has no attribute '_\w+'; its __init__ must begin with super\(\).__init__\(...\)",
        ),
    ],
)
def test_a_mistake_in_a_policy_or_an_agent_is_told_its_place(tmp_path: Path, code: str, text: str):
    (tmp_path / "mine.py").write_text(f"{code}\n")
    refused(tmp_path, HdrlError, text, f"pybatsim.agent.file={tmp_path}/mine.py", algorithm=None, n_envs=1)
