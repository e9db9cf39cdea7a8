"""Trainings from options to a folder: what they leave, that they repeat, that they go on."""

import contextlib
import importlib.util
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

torch = pytest.importorskip("torch", reason="agents that learn need torch")


import hdrl  # noqa: E402
from hdrl.agents import make_agent as make_built_in  # noqa: E402
from hdrl.agents.reinforce import Reinforce  # noqa: E402
from hdrl.envs.job_pick import JobPickVectorEnv  # noqa: E402
from hdrl.errors import HdrlError, LearningError, OptionsError, OutputError, ReadError  # noqa: E402
from hdrl.experiment import Model, Progress, evaluate_model, resumed_options, run_experiment  # noqa: E402
from hdrl.experiment.experiment import RunResult  # noqa: E402
from hdrl.experiment.train.environments import EnvironmentSpec  # noqa: E402
from hdrl.experiment.train.learning import built_in_agent, make_agent  # noqa: E402
from hdrl.experiment.train.meaning import check_same_meaning  # noqa: E402
from hdrl.learn.checkpoint import checkpoint_of, load_checkpoint, save_checkpoint  # noqa: E402
from hdrl.options import Options, parse_options, read_options  # noqa: E402

_spec = importlib.util.spec_from_file_location("learning_worlds", Path(__file__).with_name("learning.py"))
worlds: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(worlds)


REPLAY = {"warm_up": 16, "updates_per_iteration": 4, "batch_size": 16, "capacity": 256}
"""Settings of algorithms that replay, for a world of two jobs."""

SETTINGS = {"ppo": {"n_steps": 4}, "d3qn": REPLAY, "sac": REPLAY}
"""Settings of algorithms that would otherwise do too much in a test."""


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def options(folder: Path, *overrides: str, **changes: Any) -> Options:
    return read_options(worlds.options_file(folder, **changes), overrides=overrides)


def train(folder: Path, out: str, *overrides: str, progress: Progress | None = None, **changes: Any) -> RunResult:
    changes = {"algorithm": "reinforce", "n_envs": 4, "iterations": 12} | changes
    return run_experiment(options(folder, *overrides, **changes), out=folder / out, progress=progress)


def stops_after(n: int) -> Progress:
    """Return a progress that has had enough after some iterations."""
    done: list[int] = []

    @contextlib.contextmanager
    def stoppable() -> Iterator[Callable[[], bool]]:
        yield lambda: bool(done) and done[-1] >= n

    return Progress(
        message=lambda text: None,
        jobs=lambda finished, total: None,
        training=lambda iteration, total, values: done.append(iteration),
        stoppable=stoppable,
    )


def refused(folder: Path, kind: type[HdrlError], text: str, *overrides: str, **changes: Any) -> None:
    with pytest.raises(kind, match=text) as caught:
        train(folder, "out", *overrides, **changes)
    assert "\n" not in str(caught.value)
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("algorithm", "settings", "iterations"),
    [
        ("reinforce", {}, 60),
        ("a2c", {}, 80),
        ("ppo", {"n_steps": 8, "minibatch_size": 32}, 30),
        ("d3qn", REPLAY | {"updates_per_iteration": 8, "epsilon_steps": 200, "target_every": 20}, 30),
    ],
)
def test_built_in_agents_find_the_best_pair(tmp_path: Path, algorithm: str, settings: dict, iterations: int):
    result = train(tmp_path, "out", algorithm=algorithm, settings=settings, iterations=iterations, n_envs=8)
    assert result.runs[0].metrics["makespan_s"] == pytest.approx(worlds.BEST_MAKESPAN_S, abs=1e-6)


def test_a_training_leaves_a_model_its_logs_and_what_the_model_does(tmp_path: Path):
    result = train(tmp_path, "out", algorithm="ppo", settings={"n_steps": 4}, tensorboard=True)
    names = {path.name for path in (tmp_path / "out").iterdir()}
    run = {
        "out_jobs.csv",
        "out_schedule.csv",
        "metrics.json",
        "options.resolved.json",
        "provenance.json",
        "timing.json",
    }
    hdeeprm = {"losses.log", "rewards.log", "makespans.log", "probs.json"}
    assert names >= run | hdeeprm | {"training.csv", "episodes.csv", "model.pt", "checkpoint.pt", "tensorboard"}
    assert len(list((tmp_path / "out" / "tensorboard").iterdir())) == 1
    training = hdrl_table(tmp_path / "out" / "training.csv")
    assert len(training["iteration"]) == 12
    assert training["n_steps"][-1] == result.training.n_steps
    shares = np.sum([column for name, column in training.items() if name.startswith("probability.")], axis=0)
    assert shares == pytest.approx(np.ones(12), abs=1e-5)
    assert "probability.first-high_mem_bw" in training
    makespans = [float(line) for line in (tmp_path / "out" / "makespans.log").read_text().splitlines()]
    assert len(makespans) == result.training.n_episodes
    assert min(makespans) >= worlds.BEST_MAKESPAN_S
    probabilities = json.loads((tmp_path / "out" / "probs.json").read_text())["probs"]
    assert (len(probabilities), len(probabilities[0])) == (5, 12)


def hdrl_table(path: Path) -> dict[str, np.ndarray]:
    header, *lines = path.read_text().splitlines()
    rows = [[float(value or "nan") for value in line.split(",")] for line in lines]
    return {name: np.array([row[i] for row in rows]) for i, name in enumerate(header.split(","))}


@pytest.mark.parametrize("algorithm", ["reinforce", "d3qn"])
def test_equal_seeds_give_equal_bytes(tmp_path: Path, algorithm: str):
    changes = {"algorithm": algorithm, "settings": SETTINGS.get(algorithm, {})}
    train(tmp_path, "a", **changes)
    train(tmp_path, "b", **changes)
    train(tmp_path, "c", "seed=4", **changes)
    first, second = (worlds.repeatable_files(tmp_path / name) for name in "ab")
    assert first == second
    other = worlds.repeatable_files(tmp_path / "c")
    assert {name for name in first if first[name] != other[name]} >= {"model.pt", "training.csv", "rewards.log"}


@pytest.mark.parametrize("algorithm", ["reinforce", "ppo", "d3qn", "sac"])
def test_what_is_interrupted_and_resumed_is_what_was_never_interrupted(tmp_path: Path, algorithm: str):
    settings = SETTINGS.get(algorithm, {})
    changes = {"algorithm": algorithm, "settings": settings, "validation_every": 3, "checkpoint_every": 5}
    train(tmp_path, "whole", **changes)
    stopped = train(tmp_path, "parts", progress=stops_after(7), **changes)
    assert not stopped.training.is_complete
    assert not stopped.runs
    assert (tmp_path / "parts" / "model.pt").is_file(), "what is reached can be used"
    assert not (tmp_path / "parts" / "metrics.json").exists()
    resumed = run_experiment(resumed_options(tmp_path / "parts"), out=tmp_path / "parts", resumes=True)
    assert resumed.training.is_complete
    whole, parts = (worlds.repeatable_files(tmp_path / name) for name in ("whole", "parts"))
    assert whole.keys() == parts.keys()
    assert not [name for name in whole if whole[name] != parts[name]]


def test_a_crash_costs_what_came_after_the_last_checkpoint(tmp_path: Path):
    train(tmp_path, "whole", checkpoint_every=5)

    def crash(iteration: int, total: int, values: object) -> None:
        if iteration == 9:
            raise RuntimeError("the power is out")

    progress = Progress(lambda text: None, lambda finished, total: None, crash)
    with pytest.raises(RuntimeError):
        train(tmp_path, "parts", progress=progress, checkpoint_every=5)
    assert len((tmp_path / "parts" / "training.csv").read_text().splitlines()) == 1 + 9
    run_experiment(resumed_options(tmp_path / "parts"), out=tmp_path / "parts", resumes=True)
    assert worlds.repeatable_files(tmp_path / "whole") == worlds.repeatable_files(tmp_path / "parts")


def test_a_training_that_fails_before_its_first_checkpoint_leaves_nothing(tmp_path: Path):
    def crash(iteration: int, total: int, values: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, "out", progress=Progress(lambda text: None, lambda finished, total: None, crash))
    assert not (tmp_path / "out").exists()


def test_a_finished_training_can_be_made_longer(tmp_path: Path):
    train(tmp_path, "out", iterations=6)
    longer = resumed_options(tmp_path / "out", ["learning.iterations=12"])
    run_experiment(longer, out=tmp_path / "out", resumes=True)
    train(tmp_path, "whole", iterations=12)
    assert (tmp_path / "out" / "model.pt").read_bytes() == (tmp_path / "whole" / "model.pt").read_bytes()


def test_a_training_goes_on_from_run_to_run(tmp_path: Path):
    result = train(tmp_path, "out", "runs=3", iterations=4)
    assert result.training.n_iterations == 12
    train(tmp_path, "whole", iterations=12)
    assert (tmp_path / "out" / "training.csv").read_bytes() == (tmp_path / "whole" / "training.csv").read_bytes()


def test_a_training_that_goes_on_keeps_its_options(tmp_path: Path):
    train(tmp_path, "out", iterations=3)
    other = resumed_options(tmp_path / "out", ["pybatsim.agent.lr=0.1"])
    with pytest.raises(OptionsError, match=r"was trained with pybatsim.agent.lr = 0.005, not 0.1"):
        run_experiment(other, out=tmp_path / "out", resumes=True)
    with pytest.raises(ReadError, match="no such folder, expected that of a training"):
        resumed_options(tmp_path / "none")
    with pytest.raises(ReadError, match=r"has no resume.json"):
        resumed_options(tmp_path)
    with pytest.raises(OutputError, match="--resume goes on with the training in it"):
        train(tmp_path, "out", iterations=3)


def test_validation_keeps_the_best_model(tmp_path: Path):
    changes = {"algorithm": "reinforce", "n_envs": 8, "iterations": 40, "validation_every": 1}
    result = train(tmp_path, "out", "pybatsim.agent.lr=0.3", **changes)
    training = hdrl_table(tmp_path / "out" / "training.csv")
    best = int(np.argmin(training["validation_makespan_s"])) + 1
    assert result.training.best_iteration == best
    assert load_checkpoint(tmp_path / "out" / "model.pt").notes["reached"]["best_iteration"] == best
    assert result.runs[0].metrics["makespan_s"] == pytest.approx(training["validation_makespan_s"].min(), abs=1e-6)


def test_a_model_file_is_all_that_using_it_needs(tmp_path: Path):
    trained = train(tmp_path, "out", iterations=60, n_envs=8)
    platform = hdrl.read_platform("learning")
    workload = hdrl.read_workload(worlds.ROOT / "workloads" / "learning.json", platform, custom=True)
    trace = evaluate_model(tmp_path / "out" / "model.pt", platform, workload, seed=3)
    assert hdrl.compute_metrics(trace)["makespan_s"] == pytest.approx(trained.runs[0].metrics["makespan_s"])
    model = Model(tmp_path / "out" / "model.pt")
    assert model.algorithm == "reinforce"
    assert (model.trained_on["first_job"], model.trained_on["last_job"], model.trained_on["n_jobs"]) == (0, 1, 2)


def test_a_test_takes_the_best_actions_of_a_model(tmp_path: Path):
    train(tmp_path, "out", f"pybatsim.agent.output_model={tmp_path}/mine.pt", iterations=60, n_envs=8)
    assert (tmp_path / "mine.pt").read_bytes() == (tmp_path / "out" / "model.pt").read_bytes()
    tested = train(
        tmp_path, "test", "pybatsim.agent.run=test", f"pybatsim.agent.input_model={tmp_path}/mine.pt", "runs=2"
    )
    assert [run.metrics["makespan_s"] for run in tested.runs] == pytest.approx([worlds.BEST_MAKESPAN_S] * 2, abs=1e-6)
    assert sorted(path.name for path in (tmp_path / "test").iterdir()) == ["run_0", "run_1"]
    provenance = json.loads((tmp_path / "test" / "run_0" / "provenance.json").read_text())
    assert len(provenance["agent"]["model_sha256"]) == 64


def test_training_starts_from_a_model(tmp_path: Path):
    train(tmp_path, "first", iterations=60, n_envs=8)
    given = f"pybatsim.agent.input_model={tmp_path}/first/model.pt"
    train(tmp_path, "second", given, iterations=1, n_envs=8)
    before, after = (hdrl_table(tmp_path / name / "training.csv") for name in ("first", "second"))
    good = ["probability.shortest-high_mem_bw", "probability.first-high_mem_bw"]
    assert sum(after[name][0] for name in good) > 0.9 > 2 * sum(before[name][0] for name in good)


def test_the_random_agent_needs_no_model(tmp_path: Path):
    result = train(tmp_path, "out", "pybatsim.agent.run=test", algorithm="random")
    assert result.runs[0].metrics["makespan_s"] in (
        pytest.approx(5.25, abs=1e-6),
        pytest.approx(6.363636, abs=1e-5),
        pytest.approx(7.0, abs=1e-6),
    )


def test_episodes_are_windows_of_their_part(tmp_path: Path):
    swf = "".join(f"{i + 1} {10 * i} 0 20 1 -1 -1 1 30 -1 1 1 1 1 1 -1 -1 -1\n" for i in range(50))
    (tmp_path / "jobs.swf").write_text(swf)
    changes = {"episodes": {"n_jobs": 5, "train": [0, 0.5]}, "iterations": 2, "validation_every": 1}
    result = train(
        tmp_path,
        "out",
        *("workload.custom=null", f"workload_file_path={tmp_path}/jobs.swf", "nb_jobs=50", "workload.memory=none"),
        **changes,
    )
    assert result.runs[0].n_jobs == 15, "the last 30 % are for the test"
    trained_on = load_checkpoint(tmp_path / "out" / "model.pt").notes["trained_on"]
    assert (trained_on["first_job"], trained_on["last_job"], trained_on["n_jobs"]) == (0, 24, 50)


def test_a_part_must_have_room_for_an_episode(tmp_path: Path):
    text = r"learning.episodes.train holds 1 of the 2 jobs, expected at least learning.episodes.n_jobs = 2"
    refused(tmp_path, OptionsError, text, episodes={"n_jobs": 2})


def test_mistakes_write_nothing(tmp_path: Path):
    refused(tmp_path, OptionsError, "learning.algorithm: no algorithm 'pppo'; did you mean 'ppo'", algorithm="pppo")
    refused(
        tmp_path, OptionsError, "learning.settings has no key 'hiden'; did you mean 'hidden'", settings={"hiden": 1}
    )
    refused(
        tmp_path, OptionsError, "learning.arguments has no key 'rewrd'; did you mean 'reward'", arguments={"rewrd": 1}
    )
    refused(tmp_path, OptionsError, "names none; name a Python file or one of", algorithm=None)
    refused(tmp_path, OptionsError, "simulator is 'exact'", "simulator=exact")
    refused(tmp_path, OptionsError, r"'test', which needs a model \(--inmodel FILE\)", "pybatsim.agent.run=test")
    refused(tmp_path, OutputError, "no such folder", f"pybatsim.agent.output_model={tmp_path}/none/m.pt")
    refused(
        tmp_path, OutputError, "is a folder, expected the name of a file", f"pybatsim.agent.output_model={tmp_path}"
    )
    refused(tmp_path, ReadError, "no such file", f"pybatsim.agent.input_model={tmp_path}/none.pt")
    (tmp_path / "bad.pt").write_bytes(b"PK\x03\x04 no model")
    refused(tmp_path, ReadError, "bad.pt: is no model file", f"pybatsim.agent.input_model={tmp_path}/bad.pt")


def test_models_that_do_not_fit_are_told(tmp_path: Path):
    train(tmp_path, "trained", iterations=1)
    given = f"pybatsim.agent.input_model={tmp_path}/trained/model.pt"
    test = "pybatsim.agent.run=test"
    refused(tmp_path, OptionsError, "is a model of reinforce, not of a2c", given, algorithm="a2c")
    refused(tmp_path, LearningError, r"made for observations Box\(21,\)", given, test, "pybatsim.env.observation=small")
    refused(
        tmp_path, OptionsError, "was trained with queue_sensitivity", given, test, "pybatsim.env.queue_sensitivity=0.5"
    )
    refused(tmp_path, LearningError, "model.pt: the saved weights do not fit", given, "pybatsim.agent.hidden=17")
    gaia = hdrl.read_platform("gaia")
    jobs = hdrl.read_workload("lublin_gaia_1000", gaia, n_jobs=5)
    assert evaluate_model(tmp_path / "trained" / "model.pt", gaia, jobs).workload.n_jobs == 5, "minimal fits anywhere"


def test_training_starts_from_what_means_the_same(tmp_path: Path):
    train(tmp_path, "trained", iterations=1)
    given = f"pybatsim.agent.input_model={tmp_path}/trained/model.pt"
    refused(
        tmp_path,
        OptionsError,
        "was trained with queue_sensitivity = 0.05, not 0.5",
        given,
        "pybatsim.env.queue_sensitivity=0.5",
    )
    refused(tmp_path, LearningError, r"made for observations Box\(21,\)", given, "pybatsim.env.observation=small")
    train(tmp_path, "other goal", given, "pybatsim.env.objective=avg_utilization", iterations=1)


@pytest.mark.parametrize("arguments", [{"n_threads": 2}, {"reward": "growth"}, {"queue_sensitivity": 0.05}])
def test_arguments_that_change_neither_actions_nor_observations_are_no_matter(tmp_path: Path, arguments: dict):
    train(tmp_path, "trained", iterations=1)
    given = f"pybatsim.agent.input_model={tmp_path}/trained/model.pt"
    train(tmp_path, "tested", given, "pybatsim.agent.run=test", arguments=arguments)


def test_a_default_that_is_written_down_means_the_same():
    one, other, third = (
        EnvironmentSpec("hdrl/JobPick-v0", arguments)
        for arguments in ({}, {"backfilling": "easy", "features": [], "n_threads": 2}, {"backfilling": "none"})
    )
    check_same_meaning(one, other, Path("model.pt"))
    with pytest.raises(OptionsError, match="was trained with backfilling = 'easy', not 'none'"):
        check_same_meaning(one, third, Path("model.pt"))


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


def test_a_training_that_somebody_goes_on_with_is_locked(tmp_path: Path):
    train(tmp_path, "out", iterations=3)
    longer = resumed_options(tmp_path / "out", ["learning.iterations=6"])

    def go_on_too(iteration: int, total: int, values: object) -> None:
        before = worlds.repeatable_files(tmp_path / "out")
        with pytest.raises(OutputError, match="out: another process trains in this folder"):
            run_experiment(longer, out=tmp_path / "out", resumes=True)
        assert worlds.repeatable_files(tmp_path / "out") == before

    progress = Progress(lambda text: None, lambda finished, total: None, go_on_too)
    run_experiment(longer, out=tmp_path / "out", resumes=True, progress=progress)
    assert run_experiment(longer, out=tmp_path / "out", resumes=True).training.n_iterations == 6, "it ends with the run"


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
    ],
)
def test_a_policy_of_a_wrong_signature_is_told_its_place(tmp_path: Path, code: str, text: str):
    (tmp_path / "mine.py").write_text(f"{code}\n")
    refused(tmp_path, HdrlError, text, f"pybatsim.agent.file={tmp_path}/mine.py", algorithm=None)


def changed_header(path: Path, *keys: str, value: Any) -> Path:
    """Write a copy of a model file of which something in the header is another thing."""
    content = torch.load(path, weights_only=True)
    header = json.loads(content["header"])
    block = header
    for key in keys[:-1]:
        block = block[key]
    block[keys[-1]] = value
    changed = path.with_name("changed.pt")
    torch.save(content | {"header": json.dumps(header)}, changed)
    return changed


@pytest.mark.parametrize(
    ("keys", "value", "text"),
    [
        (("config",), [1], r"config is \[1\], expected an object"),
        (("config", "hidden"), "x", "hidden is 'x'"),
        (("notes",), None, "notes is None"),
        (("notes", "trained_on"), 3, "notes: trained_on is 3"),
        (("notes", "trained_on", "first_job"), "x", "notes: trained_on.first_job is 'x', expected a valid integer"),
        (("environment",), "x", "environment is 'x'"),
        (("environment", "id"), "CartPole-v1", "environment: id is 'CartPole-v1', expected hdrl/PolicyPair-v0"),
        (("environment", "arguments", "actions"), [1, 2], "expected actions that are texts"),
        (("environment", "arguments", "platform"), "gaia", "expected no platform: what is simulated says that"),
        (("environment", "arguments", "objective"), [1], "its environment: "),
        (("observation_space", "shape"), [10**12], "no description of a space"),
        (("observation_space", "low"), 5.0, "no description of a space"),
        (("action_space",), {}, "no description of a space"),
    ],
)
def test_the_header_of_a_model_file_is_checked(tmp_path: Path, keys: tuple[str, ...], value: Any, text: str):
    train(tmp_path, "out", iterations=1)
    path = changed_header(tmp_path / "out" / "model.pt", *keys, value=value)
    platform = hdrl.read_platform("learning")
    workload = hdrl.read_workload(worlds.ROOT / "workloads" / "learning.json", platform, custom=True)
    with pytest.raises(HdrlError, match=text) as caught:
        evaluate_model(path, platform, workload)
    assert "changed.pt" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_model_that_was_saved_in_python_is_used_like_one_of_a_training(tmp_path: Path):
    platform = hdrl.read_platform("homogeneous:2280")
    workload = hdrl.read_workload("lublin_gaia_1000", platform, n_jobs=20)
    envs = JobPickVectorEnv(1, platform=platform, workload=workload, n_jobs="all")
    agent = make_built_in("ppo", envs.single_observation_space, envs.single_action_space, network="kernel")
    save_checkpoint(tmp_path / "bare.pt", checkpoint_of(agent, "ppo"))
    with pytest.raises(
        ReadError, match=r"bare.pt: does not say in which environment .* checkpoint_of\(.*, environment="
    ):
        evaluate_model(tmp_path / "bare.pt", platform, workload)
    environment = {"id": "hdrl/JobPick-v0", "arguments": {}}
    save_checkpoint(tmp_path / "model.pt", checkpoint_of(agent, "ppo", environment=environment))
    assert evaluate_model(tmp_path / "model.pt", platform, workload).workload.n_jobs == 20
    for name in ("bare", "model"):
        tested = run_experiment(
            parse_options(
                {
                    "platform_file_path": "homogeneous:2280",
                    "workload_file_path": "lublin_gaia_1000",
                    "nb_jobs": 20,
                    "pybatsim": {"agent": {"run": "test", "input_model": str(tmp_path / f"{name}.pt")}},
                    "learning": {"algorithm": "ppo", "environment": "job_pick"},
                }
            ),
            out=tmp_path / name,
        )
        assert tested.runs[0].n_jobs == 20


def test_the_first_weights_do_not_depend_on_the_number_of_threads():
    options = parse_options({"platform_file_path": "learning", "workload_file_path": "lublin_gaia_1000"})
    agent = built_in_agent(options, "ppo")
    spaces = (Box(0.0, 1.0, (21,), np.float32), Discrete(7))
    before = torch.get_num_threads()
    made = []
    try:
        for n_threads in (1, 2):
            torch.set_num_threads(n_threads)
            made.append(make_agent(agent, {}, spaces, seed=1, where="test").network)
    finally:
        torch.set_num_threads(before)
    for one, other in zip(made[0].parameters(), made[1].parameters(), strict=True):
        assert torch.equal(one, other)
