"""Agents of HDeepRM's API: its learning experiment, its options, its model files, what is told of their mistakes."""

import dataclasses
import importlib.util
import json
import math
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

torch = pytest.importorskip("torch", reason="agents that learn need torch")

import hdrl  # noqa: E402
from hdrl.base.errors import HdrlError, LearningError  # noqa: E402
from hdrl.compat.hdeeprm.adapter import HDeepRMAgent, RecordedEnvironment  # noqa: E402
from hdrl.compat.hdeeprm.bases import PolicyLearningAgent  # noqa: E402
from hdrl.experiment import AgentError, evaluate_model, load_agent, resumed_options, run_experiment  # noqa: E402
from hdrl.experiment.experiment import RunResult  # noqa: E402
from hdrl.experiment.run.inputs import parse_options, read_options  # noqa: E402
from hdrl.learn import Trainer, evaluate, load_checkpoint, save_checkpoint  # noqa: E402
from hdrl.testing.toys import IdentityEnvs  # noqa: E402

_spec = importlib.util.spec_from_file_location("learning_worlds", Path(__file__).with_name("learning.py"))
worlds: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(worlds)

EXAMPLES = worlds.ROOT / "examples"


def train(folder: Path, agent: str, *overrides: str, out: str = "out") -> RunResult:
    (folder / "mine.py").write_text(agent)
    options = read_options(worlds.options_file(folder), overrides=[f"pybatsim.agent.file={folder}/mine.py", *overrides])
    return run_experiment(options, out=folder / out)


def refused(folder: Path, text: str, agent: str, *overrides: str) -> None:
    with pytest.raises(HdrlError, match=text) as caught:
        train(folder, agent, *overrides)
    assert "\n" not in str(caught.value)
    assert not (folder / "out").exists()


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    ("agent", "n", "compatibility"),
    [
        ("REINFORCE", 500, "null"),
        ("ACTOR_CRITIC", 200, "null"),
        # The rewards of HDeepRM are all positive here, and one per simulation is not standardised: without a critic
        # whatever is drawn first may win.
        ("ACTOR_CRITIC", 200, "hdeeprm-0.3.1"),
    ],
)
def test_hdeeprms_learning_experiment_reaches_the_best_makespan(
    tmp_path: Path, agent: str, n: int, compatibility: str, seed: int
):
    result = train(tmp_path, getattr(worlds, agent), f"runs={n}", f"seed={seed}", f"compatibility={compatibility}")
    makespans = [float(line) for line in (tmp_path / "out" / "makespans.log").read_text().splitlines()]
    assert len(makespans) == n
    assert np.mean(np.isclose(makespans[-50:], worlds.BEST_MAKESPAN_S)) > 1.5 * 2 / 5, "by chance two of five are best"
    if compatibility == "null":
        assert result.runs[0].metrics["makespan_s"] == pytest.approx(worlds.BEST_MAKESPAN_S, abs=1e-6)


@pytest.mark.parametrize("name", ["reinforce.py", "actor_critic.py", "preferences.py"])
def test_the_example_agents_run(tmp_path: Path, name: str):
    example = read_options(
        EXAMPLES / "learning.json",
        overrides=[f"pybatsim.agent.file={EXAMPLES / name}", "runs=3", "learning.tensorboard=false"],
    )
    result = run_experiment(example, out=tmp_path / "out")
    assert result.training.n_iterations == 3
    assert result.runs[0].metrics["makespan_s"] >= worlds.BEST_MAKESPAN_S


def test_the_files_are_those_of_hdeeprm(tmp_path: Path):
    train(tmp_path, worlds.REINFORCE, "runs=4")
    for name in ("losses.log", "rewards.log", "makespans.log"):
        lines = (tmp_path / "out" / name).read_text().splitlines()
        assert len([float(line) for line in lines]) == 4, name
    probabilities = json.loads((tmp_path / "out" / "probs.json").read_text())["probs"]
    assert np.sum(probabilities, axis=0) == pytest.approx(np.ones(4), abs=1e-5)


def test_insights_and_decisions_are_written_where_they_are_asked_for(tmp_path: Path):
    extra = ['also_write=["actions.log", "log_probs.log"]', "pybatsim.log_level=DEBUG"]
    train(tmp_path, worlds.REINFORCE, "runs=3", *extra)
    told = (tmp_path / "out" / "insights.log").read_text()
    n_decisions = sum(
        float(row.split(",")[2]) for row in (tmp_path / "out" / "episodes.csv").read_text().splitlines()[1:]
    )
    actions = (tmp_path / "out" / "actions.log").read_text().splitlines()
    assert len(actions) == n_decisions
    log_probs = [json.loads(line) for line in (tmp_path / "out" / "log_probs.log").read_text().splitlines()]
    assert sum(map(len, log_probs)) == len(actions)
    assert len(log_probs) == 3
    assert f"INFO step 0: action {actions[0]} (" in told
    assert json.loads((tmp_path / "out" / "probs.json").read_text())["probs"][int(actions[0])]
    first = next(line for line in told.splitlines() if "step 0: probabilities" in line).split()[4:]
    assert math.log(float(first[int(actions[0])])) == pytest.approx(log_probs[0][0], abs=1e-3)
    losses = (tmp_path / "out" / "losses.log").read_text().splitlines()
    assert f"INFO loss {float(losses[0]):.9g}\n" in told
    assert "DEBUG 0.000000 s: job 0 arrived, requested 5 s\n" in told
    assert "s: job 1 started on 1 units\n" in told
    shorter = resumed_options(tmp_path / "out", ["runs=4"], trust=True)
    run_experiment(shorter, out=tmp_path / "out", resumes=True)
    train(tmp_path, worlds.REINFORCE, "runs=4", *extra, out="whole")
    for name in ("actions.log", "log_probs.log"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    train(tmp_path, worlds.REINFORCE, "runs=3", out="quiet")
    quiet = {path.name for path in (tmp_path / "quiet").iterdir()}
    assert not {"insights.log", "actions.log", "log_probs.log"} & quiet
    for name in ("model.pt", "episodes.csv"):
        train(tmp_path, worlds.REINFORCE, "runs=4", out=f"same-{name}")
        assert (tmp_path / f"same-{name}" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_equal_seeds_give_equal_bytes_whatever_the_agent_draws_from(tmp_path: Path):
    agent = worlds.REINFORCE.replace("import torch\n", "import random\nimport numpy as np\nimport torch\n").replace(
        "return functional", "observation = observation + random.random() * np.random.rand()\n        return functional"
    )
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    train(tmp_path, agent, "runs=5", out="a")
    assert torch.equal(torch.rand(3), expected), "the global generators are as they were"
    train(tmp_path, agent, "runs=5", out="b")
    assert worlds.repeatable_files(tmp_path / "a") == worlds.repeatable_files(tmp_path / "b")


def test_what_is_resumed_is_what_was_never_interrupted(tmp_path: Path):
    train(tmp_path, worlds.ACTOR_CRITIC, "runs=9", out="whole")
    train(tmp_path, worlds.ACTOR_CRITIC, "runs=4", out="parts")
    longer = resumed_options(tmp_path / "parts", ["runs=9"], trust=True)
    run_experiment(longer, out=tmp_path / "parts", resumes=True)
    whole, parts = (worlds.repeatable_files(tmp_path / name) for name in ("whole", "parts"))
    assert not [name for name in whole if whole[name] != parts.get(name)]
    (tmp_path / "mine.py").write_text(worlds.ACTOR_CRITIC + "\n")
    with pytest.raises(HdrlError, match=r"mine.py: has changed since the training in .*parts began"):
        run_experiment(
            resumed_options(tmp_path / "parts", ["runs=12"], trust=True), out=tmp_path / "parts", resumes=True
        )


def test_checkpoints_of_the_loop_that_hdeeprms_agents_once_had_are_resumed(tmp_path: Path):
    train(tmp_path, worlds.ACTOR_CRITIC, "runs=9", out="whole")
    train(tmp_path, worlds.ACTOR_CRITIC, "runs=4", out="parts")
    path = tmp_path / "parts" / "checkpoint.pt"
    checkpoint = load_checkpoint(path)
    older = {"n_episodes": 4, "random": checkpoint.training["learner"]["memory"]["random"]}
    save_checkpoint(path, dataclasses.replace(checkpoint, training={**checkpoint.training, "learner": older}))
    run_experiment(resumed_options(tmp_path / "parts", ["runs=9"], trust=True), out=tmp_path / "parts", resumes=True)
    for name in ("model.pt", "training.csv", "episodes.csv", "probs.json"):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_weights_go_on_from_run_to_run(tmp_path: Path):
    """HDeepRM begins anew with every run, unless it reads the file that it has written."""
    train(tmp_path, worlds.REINFORCE, "runs=30", "pybatsim.agent.lr=0.05")
    probabilities = np.array(json.loads((tmp_path / "out" / "probs.json").read_text())["probs"])
    steps = np.abs(np.diff(probabilities, axis=1)).max(axis=0)
    assert steps.max() < 0.5
    assert np.abs(probabilities[:, -1] - probabilities[:, 0]).max() > 2 * steps[0]


@pytest.mark.parametrize("version", ["0.1.0", "0.3.1"])
def test_model_files_of_hdeeprm_are_read(tmp_path: Path, version: str):
    """0.3.1 writes weights and optimiser, 0.1.0 the weights alone."""
    (tmp_path / "mine.py").write_text(worlds.REINFORCE)
    cls = load_agent(tmp_path / "mine.py", str).learner
    made = cls(0.99, 16, 5, 21)
    with torch.no_grad():
        made.last.bias += torch.tensor([0.0, 50.0, 0.0, 0.0, 0.0])
    optimizer = torch.optim.Adam(made.parameters(), lr=0.5)
    content = {"model_state_dict": made.state_dict(), "optimizer_state_dict": optimizer.state_dict()}
    torch.save(made.state_dict() if version == "0.1.0" else content, tmp_path / "hdeeprm.pt")
    given = f"pybatsim.agent.input_model={tmp_path}/hdeeprm.pt"
    tested = train(tmp_path, worlds.REINFORCE, given, "pybatsim.agent.run=test")
    assert tested.runs[0].metrics["makespan_s"] == pytest.approx(worlds.BEST_MAKESPAN_S, abs=1e-6)
    train(tmp_path, worlds.REINFORCE, given, "runs=1", out="trained")
    assert json.loads((tmp_path / "trained" / "probs.json").read_text())["probs"][1][0] > 0.999


def test_model_files_for_hdeeprm_are_written(tmp_path: Path):
    """It loads them by these four lines (HDeepRMWorkloadManager)."""
    (tmp_path / "mine.py").write_text(worlds.REINFORCE)
    changes = [f"pybatsim.agent.file={tmp_path}/mine.py", f"pybatsim.agent.output_model={tmp_path}/theirs.pt", "runs=2"]
    options = read_options(worlds.options_file(tmp_path), overrides=changes)
    result = run_experiment(options, out=tmp_path / "out", hdeeprm_model=True)
    agent = load_agent(tmp_path / "mine.py", lambda: "").learner(0.99, 16, 5, 21)
    optimizer = torch.optim.Adam(agent.parameters(), lr=0.005)
    content = torch.load(tmp_path / "theirs.pt", weights_only=True)
    agent.load_state_dict(content["model_state_dict"])
    optimizer.load_state_dict(content["optimizer_state_dict"])
    ours = load_checkpoint(result.training.model).agent["model_state_dict"]
    assert all(torch.equal(ours[name], value) for name, value in agent.state_dict().items())
    assert optimizer.state[next(agent.parameters())]["step"] == 2
    for change, text in (
        ("pybatsim.agent.output_model=null", "sets the format of --outmodel FILE, which is missing"),
        ("learning.algorithm=ppo", "for agents of HDeepRM's API"),
        ("pybatsim.agent.policy_pair=first-random", "nothing is trained here"),
    ):
        without = ["pybatsim.agent.file=null"] * ("ppo" in change or "policy" in change)
        kind = ["pybatsim.agent.type=CLASSIC"] * ("policy" in change)
        other = read_options(worlds.options_file(tmp_path), overrides=[*changes, *without, *kind, change])
        with pytest.raises(HdrlError, match=text):
            run_experiment(other, out=tmp_path / "none", hdeeprm_model=True)
    assert not (tmp_path / "none").exists()


def test_a_model_needs_its_agent_file(tmp_path: Path):
    train(tmp_path, worlds.REINFORCE, "runs=2")
    platform = hdrl.read_platform("learning")
    workload = hdrl.read_workload(worlds.ROOT / "workloads" / "learning.json", platform, custom=True)
    model = tmp_path / "out" / "model.pt"
    with pytest.raises(
        HdrlError, match=r"is a model of the agent file mine.py, expected it as the agent, or next to the model"
    ):
        evaluate_model(model, platform, workload)
    given = evaluate_model(model, platform, workload, agent_file=tmp_path / "mine.py")
    (tmp_path / "out" / "mine.py").write_text(worlds.REINFORCE)
    with pytest.raises(
        HdrlError, match=r"model.pt: names the Python file mine.py, which hdrl runs only with your permission"
    ):
        evaluate_model(model, platform, workload)
    beside = evaluate_model(model, platform, workload, trust=True)
    assert given.end_s == beside.end_s
    (tmp_path / "out" / "mine.py").write_text(worlds.REINFORCE + "\n")
    with pytest.raises(HdrlError, match=r"mine.py: is not the file that trained .*model.pt: its SHA-256 begins with"):
        evaluate_model(model, platform, workload, trust=True)


def test_options_of_both_versions_train(tmp_path: Path):
    """0.1.0 has no actions, no observation and no type: all pairs and the normal observation."""
    older = {
        **{key: worlds.OPTIONS[key] for key in ("seed", "nb_resources", "nb_jobs", "platform_file_path", "workload")},
        "workload_file_path": "",
        "pybatsim": {
            "log_level": "WARNING",
            "env": {"objective": "makespan", "queue_sensitivity": 0.05},
            "agent": {"run": "train", "hidden": 16, "lr": 0.005, "gamma": 0.99},
        },
        "learning": {"tensorboard": False},
    }
    (tmp_path / "mine.py").write_text(worlds.REINFORCE)
    options = parse_options(older, overrides=[f"pybatsim.agent.file={tmp_path}/mine.py", "runs=3"])
    result = run_experiment(options, out=tmp_path / "out")
    assert result.training.n_iterations == 3
    assert len(json.loads((tmp_path / "out" / "probs.json").read_text())["probs"]) == 37


def test_of_several_classes_hdeeprm_takes_the_first(tmp_path: Path):
    two = worlds.REINFORCE + "\n\nclass Another(PolicyLearningAgent):\n    pass\n"
    refused(tmp_path, r"mine.py: defines 2 agents \(Mine, Another\), expected one", two)
    path = tmp_path / "mine.py"
    assert load_agent(path, str, takes_first=True).learner.__name__ == "Another"


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (
            "def forward_policy(self, observation):",
            "def nothing(self):",
            r"mine.py: the agent does not define forward_policy$",
        ),
        ("dim=1)", "dim=1)[:, :3]", None),
        (
            "functional.softmax(",
            "(lambda x, dim: x)(",
            r"mine.py:14: Mine.forward_policy returned \[.*, expected probabilities",
        ),
        ("return functional", "return float('nan') * functional", r"mine.py:14: Mine.forward_policy returned \[nan"),
        (
            "return functional",
            "_ = functional",
            r"mine.py:14: Mine.forward_policy returned None, expected probabilities",
        ),
        (
            "def forward(self",
            "def decide(self) -> None:\n        pass\n\n    def forward(self",
            r"mine.py:17: Mine.decide: too many",
        ),
        ("super(Mine, self).__init__(gamma)", "super(Mine, self).__init__()", r"mine.py:10: TypeError"),
        (
            "def forward(self",
            "def decide(self",
            r"mine.py: decided for action None, expected a whole number from 0 to 4",
        ),
        ("def forward(self", "def alter(self", r"mine.py: Mine.alter carried out no action"),
        ("def forward(self", "def loss(self", r"mine.py: loss\(\) returned None, expected a tensor"),
        (
            "def forward(self",
            "def observe(self, environment):\n        return None\n\n    def forward(self",
            r"mine.py:17: Mine.observe returned None, expected an array of numbers",
        ),
        (
            "def forward(self",
            "def rewarded(self, environment):\n        self.rewards.append('x')\n\n    def forward(self",
            r"mine.py: rewards are \['x'.*\], expected numbers",
        ),
        (
            "def forward(self",
            "def rewarded(self, environment):\n        self.log_probs.insert(0, 'x')\n        self.rewards.append(1)\n"
            "\n    def forward(self",
            r"mine.py: Mine.loss: [A-Za-z]*Error: ",
        ),
    ],
)
def test_mistakes_of_agents_are_one_line(tmp_path: Path, old: str, new: str, text: str | None):
    agent = worlds.REINFORCE.replace(old, new)
    assert agent != worlds.REINFORCE
    if text is None:
        train(tmp_path, agent)
        return
    refused(tmp_path, text, agent)


def test_a_loss_that_is_no_number_ends_the_training(tmp_path: Path):
    agent = worlds.REINFORCE + "\n    def loss(self):\n        return super().loss() * float('nan')\n"
    refused(tmp_path, "the loss is nan, expected a finite number", agent)


def test_settings_of_our_agents_are_refused(tmp_path: Path):
    refused(
        tmp_path,
        "learning.settings is given, but mine.py has HDeepRM's API",
        worlds.REINFORCE,
        'learning.settings={"lr": 1}',
    )
    refused(tmp_path, "learning.n_envs is 4, but agents of HDeepRM's API", worlds.REINFORCE, "learning.n_envs=4")


def test_the_environment_in_hdeeprms_words():
    environment = RecordedEnvironment(Box(0.0, 9.0, (2,)), Discrete(3))
    assert (environment.action_size, environment.observation_size) == (3, 2)
    environment.show(torch.tensor([[1.0, 2.0]]), torch.tensor([[False, False, True]]))
    assert environment.observation().tolist() == [1, 2]
    assert environment.action_mask.tolist() == [False, False, True]
    environment.step(0)
    assert environment.take() == 2, "an illegal action stands for the first legal one"
    environment.receive(3.5, has_ended=False)
    assert (environment.reward(), environment.has_ended, environment.has_choice) == (3.5, False, False)
    environment.step(np.int64(2))
    environment.receive(1.0, has_ended=True)
    assert environment.has_ended
    assert not environment.has_choice, "what was not carried out is dropped"
    for wrong in (3, -1, 1.0, None, True, "first"):
        with pytest.raises(AgentError, match="expected a whole number from 0 to 2"):
            environment.step(wrong)


class Noting(PolicyLearningAgent):
    """Takes two actions at a time, the better one last, and notes what it is asked."""

    calls: ClassVar[list[str]] = []

    def __init__(self, gamma, hidden, action_size, observation_size) -> None:
        super().__init__(gamma)
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.calls.append("made")

    def decide(self, observation):
        self.calls.append("decide")
        return 0

    def alter(self, action, environment):
        environment.step(action)
        environment.step(1)

    def rewarded(self, environment):
        super().rewarded(environment)
        self.calls.append("rewarded at the end" if environment.has_ended else "rewarded")

    def loss(self):
        return self.weight.sum() * sum(self.rewards)


def test_an_adapted_agent_is_asked_as_hdeeprm_asks():
    envs = IdentityEnvs(1, length=3)
    Noting.calls.clear()
    agent = HDeepRMAgent(envs.single_observation_space, envs.single_action_space, made_of=Noting)
    Trainer(agent, envs).run(2)
    # Three steps: two actions of the first decision, one of the second, whose other one is dropped at the end.
    once = ["made", "decide", "rewarded", "decide", "rewarded at the end"]
    assert Noting.calls == ["made", *once, *once], "every simulation has a new object"
    Noting.calls.clear()
    assert [episode["length"] for episode in evaluate(agent, envs, 2, seed=3)] == [3, 3]
    assert Noting.calls == [*once, *once]
    with pytest.raises(LearningError, match="learns in one environment, not in 3"):
        Trainer(agent, IdentityEnvs(3))


def test_nothing_is_written_into_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    train(tmp_path, worlds.REINFORCE, "runs=2")
    assert not list(Path().iterdir())
