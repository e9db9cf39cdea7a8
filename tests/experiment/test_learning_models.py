"""Model files: using them, starting from them, and what is told of those that do not fit."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="agents that learn need torch")

pytestmark = pytest.mark.usefixtures("one_thread")


import hdrl  # noqa: E402
from hdrl.agents import make_agent as make_built_in  # noqa: E402
from hdrl.base.errors import HdrlError, LearningError, OptionsError, ReadError  # noqa: E402
from hdrl.experiment import Model, evaluate_model, run_experiment  # noqa: E402
from hdrl.experiment.run.inputs import parse_options  # noqa: E402
from hdrl.experiment.train.environments import ChosenEnvironment, check_same_meaning  # noqa: E402
from hdrl.learn.checkpoint import checkpoint_of, save_checkpoint  # noqa: E402
from hdrl.settings.batch.environments import JobPickSpec  # noqa: E402
from hdrl.settings.batch.envs.job_pick import JobPickVectorEnv  # noqa: E402

_spec = importlib.util.spec_from_file_location("learning_worlds", Path(__file__).with_name("learning.py"))
worlds: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(worlds)

train, refused = worlds.train, worlds.refused


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
    before, after = (worlds.table_of(tmp_path / name / "training.csv") for name in ("first", "second"))
    good = ["probability.shortest-high_mem_bw", "probability.first-high_mem_bw"]
    assert sum(after[name][0] for name in good) > 0.9 > 2 * sum(before[name][0] for name in good)


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
        ChosenEnvironment(JobPickSpec(), arguments)
        for arguments in ({}, {"backfilling": "easy", "features": [], "n_threads": 2}, {"backfilling": "none"})
    )
    check_same_meaning(one, other, Path("model.pt"))
    with pytest.raises(OptionsError, match="was trained with backfilling = 'easy', not 'none'"):
        check_same_meaning(one, third, Path("model.pt"))


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
        (("config",), [1], r"config is a list, expected an object"),
        (("config", "hidden"), "x", "hidden is 'x'"),
        (("notes",), None, "notes is null"),
        (("notes", "trained_on"), 3, "notes: trained_on is 3"),
        (("notes", "trained_on", "first_job"), "x", "notes: trained_on.first_job is 'x', expected a whole number"),
        (("notes", "trained_on", "sketch"), "xyz", "notes: sketch is 'xyz', expected hexadecimal digits"),
        (("notes", "trained_on", "further"), [{"last_job": "x"}], r"trained_on.further\[0\].last_job is 'x'"),
        (("environment",), "x", "environment is 'x'"),
        (("environment", "id"), "CartPole-v1", "environment: id is 'CartPole-v1', expected hdrl/PolicyPair-v0"),
        (("environment", "id"), "hdrl/GpuCluster-v0", "its environment: "),
        (("environment", "arguments", "actions"), [1, 2], "arguments: actions is a list, expected a list of texts"),
        (("environment", "arguments", "platform"), "gaia", "expected no platform: what is simulated says that"),
        (("environment", "arguments", "objective"), [1], "its environment: "),
        (("observation_space", "shape"), [10**12], "the description of a space is wrong"),
        (("observation_space", "low"), 5.0, "the description of a space is wrong"),
        (("action_space",), {}, "the description of a space is wrong"),
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
    envs = JobPickVectorEnv.of(1, platform=platform, workload=workload, n_jobs="all")
    agent = make_built_in("ppo", envs.single_observation_space, envs.single_action_space, network="kernel")
    save_checkpoint(tmp_path / "bare.pt", checkpoint_of(agent, "ppo"))
    with pytest.raises(ReadError, match=r"bare.pt: names no environment; .* checkpoint_of\(.*, environment="):
        evaluate_model(tmp_path / "bare.pt", platform, workload)
    environment = {"id": "hdrl/JobPick-v0", "arguments": {"scales": "fixed"}}
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
