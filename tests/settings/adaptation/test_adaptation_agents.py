"""Advisors: the exact gradient is exact, what they learn is right, and the named errors do what they say."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch", reason="needs torch (the extra learn)")

from hdrl.agents import make_agent  # noqa: E402
from hdrl.agents.advisor import _advantage_in_kind, _beginnings  # noqa: E402
from hdrl.base.errors import LearningError, OptionsError  # noqa: E402
from hdrl.experiment.reproduce.reproduce import _Trained  # noqa: E402 (what protocols are given)
from hdrl.experiments.adaptation import adaptation_ranks, adaptation_transfer  # noqa: E402
from hdrl.launcher.launch import launch  # noqa: E402
from hdrl.launcher.main import cli  # noqa: E402
from hdrl.learn import NetworkConfig, Trainer, build_network  # noqa: E402
from hdrl.learn.portable import own  # noqa: E402
from hdrl.learn.rollout import Steps  # noqa: E402
from hdrl.settings.adaptation.env import AdaptationEnv, AdaptationVectorEnv  # noqa: E402
from hdrl.settings.adaptation.load import Jobs, jobs_of  # noqa: E402
from hdrl.settings.adaptation.machine import read_device  # noqa: E402
from hdrl.settings.adaptation.models import N_IDS  # noqa: E402
from hdrl.settings.adaptation.table import read_table  # noqa: E402

from .made_tables import DEVICE, Plays, table_json, write_table  # noqa: E402


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Jobs:
    table = read_table(write_table(tmp_path_factory.mktemp("tables") / "made.json", table_json((1, 0, 2))))
    return jobs_of("made", [table], 1)


def trainer(load: Jobs, algorithm: str, n_envs: int, seed: int = 0, **settings: Any) -> Trainer:
    envs = AdaptationVectorEnv(n_envs, load=load, start="consecutive")
    agent = make_agent(algorithm, envs.single_observation_space, envs.single_action_space, seed=seed, **settings)
    return Trainer(agent, envs, seed=seed, n_threads=1)


def played(load: Jobs, agent: Any) -> int:
    env = AdaptationEnv(load=load)
    observation, _ = env.reset(seed=0)
    done = False
    while not done:
        action = agent.act(torch.from_numpy(observation)[None], None, explore=False).actions.item()
        observation, _, done, _, _ = env.step(action)
    return int(env.trace().outcomes["rank"][0])


def test_the_exact_gradient_is_that_of_the_expected_return(load: Jobs) -> None:
    training = trainer(load, "advisor_exact", 64)
    agent: Any = training.agent
    before = {name: value.clone() for name, value in agent.network.state_dict().items()}
    batches = []
    learn = agent.learn
    agent.learn = lambda batch: (batches.append(batch), learn(batch))[1]
    training.run(1)
    (batch,) = batches
    played = {tuple(batch.actions[:, row].tolist()) for row in range(64)}
    assert played == set(itertools.product(range(4), repeat=3))
    found = {name: value.grad.clone() for name, value in agent.network.named_parameters()}
    agent.network.load_state_dict(before)
    agent.network.zero_grad()
    returns = batch.rewards.sum(0)
    worth = (returns - returns.mean()) / returns.std()
    probabilities = torch.softmax(agent.network.logits(batch.observations.flatten(0, 1), None), -1).reshape(3, 64, 4)
    expected = sum(
        worth[row] * torch.stack([probabilities[t, row, batch.actions[t, row]] for t in range(3)]).prod()
        for row in range(64)
    )
    (-expected).backward()
    for name, value in agent.network.named_parameters():
        assert torch.allclose(found[name], value.grad, atol=1e-6), name


@pytest.mark.parametrize(
    ("algorithm", "n_envs", "n", "settings"),
    [
        ("advisor_exact", 64, 60, {"lr": 1e-2}),
        ("advisor", 32, 60, {"lr": 1e-2, "temperature": 5.0}),
        ("ppo", 32, 12, {"network": "sequence", "n_steps": 3, "lr": 3e-3, "gamma": 1.0}),
    ],
)
def test_what_is_best_is_found(load: Jobs, algorithm: str, n_envs: int, n: int, settings: dict[str, Any]) -> None:
    training = trainer(load, algorithm, n_envs, **settings)
    training.run(n)
    assert played(load, training.agent) <= 4  # of 64; a fresh one is anywhere


def test_equal_networks_are_read_once_and_padding_counts_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    network: Any = build_network(NetworkConfig(network="sequence"), (9,), 4, generator)
    rows = torch.randint(1, N_IDS, (5, 9), generator=generator).float()
    rows[:, 0] = torch.linspace(0.1, 0.9, 5)
    rows[2, 4:] = 0.0
    alone = torch.cat([network.logits(row[None], None) for row in rows])
    assert torch.allclose(network.logits(rows[[4, 2, 0, 2, 1, 3]], None), alone[[4, 2, 0, 2, 1, 3]], atol=1e-6)
    assert torch.allclose(network.logits(rows[2:3, :4], None), alone[2:3], atol=1e-6)
    ours = network.logits(rows, None)
    monkeypatch.setattr(own, "JIT_DISABLED", True)  # torch's recurrent layers, of packed sequences
    torch.testing.assert_close(ours, network.logits(rows, None))
    assert not any(weight is network.embedding for weight in network.parameters())
    with pytest.raises(LearningError, match="reads a share of time and ids"):
        build_network(NetworkConfig(network="sequence"), (6, 3), 4, generator)


def test_temperatures_flatten_logits_and_fall_as_weights_of_entropies_do(load: Jobs) -> None:
    observations = torch.from_numpy(AdaptationVectorEnv(2, load=load).reset(seed=0)[0])

    def first(**settings: Any) -> Any:
        agent: Any = trainer(load, "advisor", 2, **settings).agent
        with torch.no_grad():
            agent.network.actor[-1].bias.copy_(torch.tensor([3.0, 0.0, 0.0, 0.0]))
        return agent.probabilities(observations, None)[0, 0].item()

    sharp, soft = first(), first(temperature=3.0)
    wrong = first(temperature=3.0, errors=["temperature_on_probabilities"])
    assert soft == pytest.approx(torch.softmax(torch.tensor([1.0, 0, 0, 0]), 0)[0].item(), abs=0.02)
    assert wrong < soft < sharp
    entropic: Any = trainer(load, "advisor", 2, entropy_coef=0.5, entropy_decay=0.1).agent
    assert entropic._entropy_coef == 0.5
    entropic.n_updates = 2
    assert entropic._entropy_coef == pytest.approx(0.005)
    training = trainer(load, "advisor", 2, temperature=3.0, temperature_decay=0.5)
    training.run(3)
    assert float(training.agent.running.temperature) == 1.0  # type: ignore[attr-defined]


def test_returns_are_compared_with_those_of_episodes_that_began_alike() -> None:
    """Two environments begin at 7, one at 8; the third has two episodes, with a step between them that is none."""
    envs = torch.tensor([[7.0, 7.0, 8.0], [1.0, 2.0, 1.0], [9.0, 9.0, 7.0], [9.0, 9.0, 1.0]])
    ends = torch.tensor([[0, 0, 0], [1, 1, 1], [0, 0, 0], [0, 0, 1]], dtype=torch.bool)
    valid = torch.tensor([[1, 1, 1], [1, 1, 1], [0, 0, 0], [0, 0, 1]], dtype=torch.bool)
    steps = Steps(
        observations=envs[..., None],
        masks=None,
        actions=torch.zeros(4, 3, dtype=torch.long),
        rewards=torch.zeros(4, 3),
        terminated=ends,
        truncated=torch.zeros_like(ends),
        valid=valid,
        stored={},
        last_observations=envs[-1, :, None],
        last_masks=None,
    )
    kinds = _beginnings(steps)[valid.flatten()].tolist()
    assert kinds == [[7.0, 0.0], [7.0, 0.0], [8.0, 0.0], [7.0, 1.0], [7.0, 1.0], [8.0, 1.0], [1.0, 0.0]]
    worth = _advantage_in_kind(torch.tensor([1.0, 3.0, 50.0, 2.0]), torch.tensor([[7.0], [7.0], [8.0], [7.0]]))
    assert worth.tolist() == pytest.approx([-(2.0**0.5), 2.0**0.5, 0.0, 0.0])


def test_a_transferred_agent_is_judged_by_its_own_weights_unless_the_error_is_asked_for(load: Jobs) -> None:
    parent = trainer(load, "advisor_exact", 64, lr=1e-2)
    parent.run(2)
    state = parent.agent.state_dict()
    observations = torch.from_numpy(AdaptationVectorEnv(1, load=load).reset(seed=0)[0])
    judged = {}
    for errors in ((), ("parent_weights",)):
        child = trainer(load, "advisor_exact", 64, lr=1e-2, errors=list(errors))
        child.agent.load_weights(state)
        child.run(20)
        again = trainer(load, "advisor_exact", 64, errors=list(errors)).agent
        again.load_weights(child.agent.state_dict())
        networks: Any = again.modules
        judged[errors] = networks.get("parent", networks["network"]).logits(observations, None)
    old: Any = parent.agent
    assert torch.equal(judged["parent_weights",], old.network.logits(observations, None))
    assert not torch.allclose(judged[()], judged["parent_weights",])


def test_exact_needs_every_sequence_of_one_job(load: Jobs) -> None:
    with pytest.raises(LearningError, match="n_envs is 60, expected 16 or 64"):
        trainer(load, "advisor_exact", 60).run(1)
    with pytest.raises(LearningError, match="as many decisions as they can play"):
        trainer(load, "advisor_exact", 16).run(1)


def test_an_advisor_is_trained_and_judged(tmp_path: Path) -> None:
    write_table(tmp_path / "made.json", table_json((1, 0, 2)))
    learning = {
        "algorithm": "advisor_exact",
        "n_envs": 64,
        "iterations": 2,
        "arguments": {"outcome": "mean"},
        "episodes": {"n_jobs": 1, "start": "consecutive"},
        "tensorboard": False,
    }
    options = {
        "setting": "adaptation",
        "platform": DEVICE,
        "workload": "made.json",
        "nb_jobs": 20,
        "learning": learning,
    }
    write_table(tmp_path / "other.json", table_json((3, 3, 0)))
    settings = {"lr": 1e-2, "errors": ["parent_weights"]}
    child = {**options, "workload": "other.json", "learning": {**learning, "iterations": 20, "settings": settings}}
    for name, one, more in (("out", options, []), ("child", child, ["-im", str(tmp_path / "out" / "model.pt")])):
        (tmp_path / f"{name}.json").write_text(json.dumps(one))
        words = [str(tmp_path / f"{name}.json"), "--out", str(tmp_path / name), "--quiet", *more]
        done = CliRunner().invoke(launch, words)
        assert done.exit_code == 0, done.output
        assert json.loads((tmp_path / name / "metrics.json").read_text())["n_jobs"] > 0
    # Reproductions play models of any setting.
    parent, wrong = (_Trained(tmp_path / name / "model.pt", "adaptation", name) for name in ("out", "child"))
    ranks = adaptation_ranks({"made.json": tmp_path / "made.json"}, [parent])
    assert list(ranks) == [("rank", "made")]
    assert ranks["rank", "made"].trainings == (ranks["rank", "made"].value,)
    assert 1 <= ranks["rank", "made"].value <= 64
    # The child is judged by the weights of its parent, as asked for; its own are better.
    state = wrong.agent_state
    own = trainer(jobs_of("other", [read_table(tmp_path / "other.json")], 1), "advisor_exact", 64).agent
    own.load_weights(state)
    other = read_table(tmp_path / "other.json")
    by_parent, by_child = (
        model.play(read_device(DEVICE), jobs_of("other", [other], 1)).outcomes["rank"][0] for model in (parent, wrong)
    )
    assert played(jobs_of("other", [other], 1), own) < by_parent == by_child


def test_other_jobs_of_the_trained_tables_are_known_again(tmp_path: Path) -> None:
    for name, best in (("made", (1, 0, 2)), ("other", (3, 3, 0))):
        write_table(tmp_path / f"{name}.json", table_json(best, n_draws=10, noise=0.01))
    learning = {"algorithm": "advisor", "n_envs": 4, "iterations": 1, "tensorboard": False, "episodes": {"n_jobs": 1}}
    options = {"setting": "adaptation", "platform": DEVICE, "workload": "made.json", "nb_jobs": 60}
    (tmp_path / "learn.json").write_text(json.dumps({**options, "learning": learning}))
    done = CliRunner().invoke(launch, [str(tmp_path / "learn.json"), "--out", str(tmp_path / "out"), "--quiet"])
    assert done.exit_code == 0, done.output
    for name, n_known in (("made", 3), ("other", 0)):
        words = ["compare", str(tmp_path / "out" / "model.pt"), "never", "--setting", "adaptation", "-p", DEVICE]
        words += ["-w", str(tmp_path / f"{name}.json"), "--set", "nb_jobs=60", "--range", "0.7:1", "--windows", "6:3"]
        judged = tmp_path / f"judged-{name}"
        done = CliRunner().invoke(cli, [*words, "-j", "1", "--quiet", "--out", str(judged)])
        assert done.exit_code == 0, done.output
        warnings = json.loads((judged / "summary.json").read_text())["warnings"]
        found = [one["text"] for one in warnings if one["kind"] == "trained-on"]
        assert len(found) == bool(n_known)
        assert all(f"was trained on jobs of at least {n_known} of the 3 windows" in text for text in found), found


def test_transfers_are_told_beside_what_their_parents_do(tmp_path: Path) -> None:
    tables = {"a.json": table_json((1, 0, 2)), "b.json": table_json((3, 3, 0))}
    traces = {name: write_table(tmp_path / name, data) for name, data in tables.items()}
    models: Any = [Plays("a", "102"), Plays("a", "102"), Plays("a-to-b, warm", "330"), Plays("a-to-b, warm", "331")]
    found = adaptation_transfer(traces, models)
    assert found["a", "rank"].trainings == (1.0, 1.0)
    assert found["a-to-b, warm", "rank"].trainings == (1.0, 8.0)  # behind six that differ once, too, in cheaper digits
    assert found["a-to-b, warm", "rank"].value == 4.5
    b = read_table(traces["b.json"])
    by_parent = b.rank(float(b.expected[b.sequence([1, 0, 2])]))
    assert found["a-to-b, warm", "rank by its parent's weights"].trainings == (by_parent, by_parent)
    assert found["a-to-b, warm", "rank on the first table"].trainings[1] > 1.0
    assert ("a", "rank by its parent's weights") not in found
    with pytest.raises(OptionsError, match="row 'c' learns 'c', which is not a table, expected names joined by -to-"):
        adaptation_transfer(traces, [Plays("c", "000")])  # type: ignore[list-item]
