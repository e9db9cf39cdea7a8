"""Trainings from options to a folder: what they leave, that they repeat, that they go on."""

import contextlib
import importlib.util
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

torch = pytest.importorskip("torch", reason="agents that learn need torch")

pytestmark = pytest.mark.usefixtures("one_thread")


from hdrl.base.errors import OptionsError, OutputError, ReadError  # noqa: E402
from hdrl.experiment import Progress, resumed_options, run_experiment  # noqa: E402
from hdrl.experiment.decider import decider_of  # noqa: E402
from hdrl.experiment.plan import plans_of  # noqa: E402
from hdrl.experiment.run.inputs import parse_options  # noqa: E402
from hdrl.experiment.train.learning import built_in_agent, make_agent  # noqa: E402
from hdrl.learn.checkpoint import load_checkpoint  # noqa: E402
from hdrl.settings.batch.metrics import compute_metrics  # noqa: E402

_spec = importlib.util.spec_from_file_location("learning_worlds", Path(__file__).with_name("learning.py"))
worlds: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(worlds)


REPLAY = {"warm_up": 16, "updates_per_iteration": 4, "batch_size": 16, "capacity": 256}
"""Settings of algorithms that replay, for a world of two jobs."""

SETTINGS = {"ppo": {"n_steps": 4}, "d3qn": REPLAY, "rainbow": REPLAY, "sac": REPLAY}
"""Settings of algorithms that would otherwise do too much in a test."""

train, refused = worlds.train, worlds.refused


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


@pytest.mark.parametrize(
    ("algorithm", "settings", "iterations"),
    [
        ("reinforce", {}, 60),
        ("a2c", {}, 80),
        ("ppo", {"n_steps": 8, "minibatch_size": 32}, 30),
        ("d3qn", REPLAY | {"updates_per_iteration": 8, "epsilon_steps": 200, "target_every": 20}, 30),
        ("rainbow", REPLAY | {"updates_per_iteration": 8, "target_every": 20}, 40),
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
    training = worlds.table_of(tmp_path / "out" / "training.csv")
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
    assert json.loads((tmp_path / "out" / "provenance.json").read_text())["is_portable"] is True


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


@pytest.mark.parametrize("algorithm", ["reinforce", "ppo", "d3qn", "rainbow", "sac"])
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


def test_a_training_that_was_killed_before_its_first_checkpoint_begins_anew(tmp_path: Path):
    def copy(iteration: int, total: int, values: object) -> None:
        if iteration == 3:
            shutil.copytree(tmp_path / "whole", tmp_path / "killed")

    train(tmp_path, "whole", progress=Progress(lambda text: None, lambda finished, total: None, copy))
    assert not (tmp_path / "killed" / "checkpoint.pt").exists()
    run_experiment(resumed_options(tmp_path / "killed"), out=tmp_path / "killed", resumes=True)
    assert worlds.repeatable_files(tmp_path / "whole") == worlds.repeatable_files(tmp_path / "killed")


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
    with pytest.raises(OutputError, match="--resume continues the training in it"):
        train(tmp_path, "out", iterations=3)


def test_validation_keeps_the_best_model(tmp_path: Path):
    changes = {"algorithm": "reinforce", "n_envs": 8, "iterations": 40, "validation_every": 1}
    result = train(tmp_path, "out", "pybatsim.agent.lr=0.3", **changes)
    training = worlds.table_of(tmp_path / "out" / "training.csv")
    best = int(np.argmin(training["validation_makespan_s"])) + 1
    assert result.training.best_iteration == best
    assert load_checkpoint(tmp_path / "out" / "model.pt").notes["reached"]["best_iteration"] == best
    assert result.runs[0].metrics["makespan_s"] == pytest.approx(training["validation_makespan_s"].min(), abs=1e-6)


def test_patience_ends_a_training_that_gets_no_better(tmp_path: Path):
    changes = {"algorithm": "reinforce", "n_envs": 8, "iterations": 40, "validation_every": 2, "patience": 3}
    result = train(tmp_path, "out", "pybatsim.agent.lr=0.3", **changes)
    values = worlds.table_of(tmp_path / "out" / "training.csv")["validation_makespan_s"]
    assert result.training.is_complete
    assert (tmp_path / "out" / "metrics.json").is_file()
    best = result.training.best_iteration
    assert len(values) == result.training.n_iterations == best + 6 < 40
    assert values[best - 1] == np.nanmin(values)
    with pytest.raises(OptionsError, match=r"patience counts validations, expected learning.validation_every"):
        train(tmp_path, "none", patience=3)


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
    assert (trained_on["chosen_by"]["first_job"], trained_on["chosen_by"]["last_job"]) == (30, 34)


def test_a_part_must_have_room_for_an_episode(tmp_path: Path):
    text = r"learning.episodes.train holds 1 of the 2 jobs, expected at least learning.episodes.n_jobs = 2"
    refused(tmp_path, OptionsError, text, episodes={"n_jobs": 2})


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
    told: list[str] = []
    done = run_experiment(
        longer, out=tmp_path / "out", resumes=True, progress=Progress(told.append, progress.jobs, None)
    )
    assert done.training.n_iterations == 6, "it ends with the run"
    assert told[0].startswith("nothing is left to train: 6 iterations are done, 6 requested")


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


def test_an_agent_draws_by_the_seed_that_it_is_played_with(tmp_path: Path):
    options = worlds.options(tmp_path, "pybatsim.agent.run=test", algorithm="random")
    plan = next(plans_of(options, tmp_path))
    decider = decider_of(plan)
    spans = [compute_metrics(decider.play(plan.machine, plan.load, seed=seed))["makespan_s"] for seed in (*range(6), 0)]
    assert len(set(spans)) > 1
    assert spans[0] == spans[-1]
