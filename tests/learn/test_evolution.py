"""Evolution: what is judged is what is played, the same seed gives the same weights, and going on does, too."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch (the extra learn)")
pytest.importorskip("cmaes", reason="needs cmaes (the extra evolution)")

from hdrl.agents.cma_es import CMAES  # noqa: E402
from hdrl.agents.openai_es import Mirrored, OpenAIES  # noqa: E402
from hdrl.errors import LearningError  # noqa: E402
from hdrl.learn import Trainer, checkpoint_of, load_checkpoint, save_checkpoint  # noqa: E402
from hdrl.learn.evolution import EvolutionAgent, Judged, averaged_state  # noqa: E402
from hdrl.testing.toys import ShortestRowEnvs  # noqa: E402

BEST = np.array([1.0, -0.5, 0.25])


class JudgedRows(ShortestRowEnvs):
    """The toy, and an evaluation of whose optimum we know the weights."""

    def evaluate_weights(self, candidates: Any, seed: int) -> Judged:
        """Return the distance from the optimum, on a scale that differs between generations."""
        scale = np.random.default_rng(seed).uniform(0.5, 2)
        return Judged(scale * ((candidates - BEST) ** 2).sum(1), 5 * len(candidates))


def make(kind: type[EvolutionAgent], seed: int = 1, **settings: Any) -> Trainer:
    envs = JudgedRows(2, length=5)
    spaces = (envs.single_observation_space, envs.single_action_space)
    agent = kind(*spaces, kind.Config.of(settings), torch.Generator().manual_seed(seed))
    return Trainer(agent, envs, seed=seed, n_threads=1)


def evolved(trainer: Trainer) -> EvolutionAgent:
    assert isinstance(trainer.agent, EvolutionAgent)
    return trainer.agent


@pytest.mark.parametrize(("kind", "n"), [(CMAES, 40), (OpenAIES, 100)])
def test_the_optimum_is_found_and_steps_are_counted(kind: type[EvolutionAgent], n: int) -> None:
    trainer = make(kind)
    trainer.run(n)
    found = evolved(trainer).weights
    assert np.abs(found - BEST).max() < 0.05
    assert trainer.n_steps == n * 5 * 14


@pytest.mark.parametrize("kind", [CMAES, OpenAIES])
def test_going_on_after_an_interruption_gives_the_same_bytes(kind: type[EvolutionAgent], tmp_path: Path) -> None:
    def saved(trainer: Trainer) -> bytes:
        path = tmp_path / "model.pt"
        save_checkpoint(path, checkpoint_of(trainer.agent, "any", training=trainer.state_dict()))
        return path.read_bytes()

    whole, part, other = make(kind), make(kind), make(kind, seed=2)
    whole.run(6)
    other.run(6)
    part.run(2)
    saved(part)
    resumed = make(kind, seed=3)
    resumed.seed = 1  # the seed of the environments is no part of the state
    resumed.load_state_dict(load_checkpoint(tmp_path / "model.pt").training_state())
    resumed.run(6)
    assert saved(resumed) == saved(whole) != saved(other)


def test_an_environment_without_compiled_evaluation_is_refused() -> None:
    envs = ShortestRowEnvs(2)
    trainer = Trainer(CMAES(envs.single_observation_space, envs.single_action_space), envs)
    with pytest.raises(LearningError, match="ShortestRowEnvs offers no compiled evaluation"):
        trainer.run(1)


def test_losses_that_are_no_numbers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make(CMAES)
    monkeypatch.setattr(JudgedRows, "evaluate_weights", lambda *_: Judged(np.full(14, np.nan), 1))
    with pytest.raises(LearningError, match="expected 14 finite numbers"):
        trainer.run(1)


def test_the_legal_row_with_the_lowest_sum_is_picked() -> None:
    agent = evolved(make(CMAES))
    rows, features = agent.observation_shape
    agent.weights = np.arange(1.0, features + 1)
    seen = torch.rand((1, rows, features), generator=torch.Generator().manual_seed(0))
    order = (seen[0].numpy() @ agent.weights).argsort()
    mask = torch.ones((1, agent.n_actions), dtype=torch.bool)
    assert agent.act(seen, mask, explore=False).actions.item() == order[0]
    mask[0, order[0]] = False
    assert agent.act(seen, mask, explore=True).actions.item() == order[1]
    assert agent.act(torch.zeros_like(seen), None, explore=False).actions.item() == 0


def test_the_step_of_openai_follows_the_ranks_by_hand() -> None:
    strategy = Mirrored(np.zeros(1), seed=0, sigma=0.5, population=4, lr=0.1)
    strategy.tell(np.array([[0.5], [1.0], [-0.5], [-1.0]]), np.array([3.0, 4.0, 2.0, 1.0]))
    assert strategy.mean == pytest.approx([-0.1])  # the first step of Adam has the length lr
    strategy = Mirrored(np.ones(1), seed=0, sigma=0.5, population=4, lr=0.1)
    strategy.tell(strategy.ask(), np.full(4, 7.0))
    assert strategy.mean == pytest.approx([1.0])  # equal losses tell nothing


def test_averaged_weights_are_used_and_started_from() -> None:
    first, second = make(CMAES, seed=1), make(CMAES, seed=2)
    for trainer in (first, second):
        trainer.run(3)
    state = averaged_state([evolved(first).state_dict(), evolved(second).state_dict()])
    mean = (evolved(first).weights + evolved(second).weights) / 2
    used, started = evolved(make(CMAES)), evolved(make(CMAES))
    used.load_state_dict(state)
    started.load_weights(state)
    assert used.weights == pytest.approx(mean)
    assert started.weights == pytest.approx(mean)
    assert used.state_dict()["weights"] == pytest.approx(mean)
    assert np.abs(started.candidates() - mean).max() < 2  # drawn around it
    with pytest.raises(LearningError, match="model 2 has no evolved weights"):
        averaged_state([state, {}])
    with pytest.raises(LearningError, match="do not fit CMAES"):
        used.load_weights({"weights": np.zeros(7)})
