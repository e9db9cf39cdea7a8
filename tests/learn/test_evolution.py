"""Evolution: the optimum of a toy is found, the same seed gives the same weights, and going on does, too."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

torch = pytest.importorskip("torch", reason="needs torch (the extra learn)")

from hdrl.agents.cma_es import CMAES  # noqa: E402
from hdrl.agents.openai_es import Mirrored, OpenAIES  # noqa: E402
from hdrl.base.errors import LearningError  # noqa: E402
from hdrl.learn import Trainer, checkpoint_of, evaluate, load_checkpoint, save_checkpoint  # noqa: E402
from hdrl.learn.evolution import EvolutionAgent, averaged_state  # noqa: E402
from hdrl.testing.toys import ShortestRowEnvs  # noqa: E402

BEST = np.array([1.0, -0.5, 0.25])


class Judges(VectorEnv[Any, Any, Any]):
    """A toy whose reward is the distance from the optimum, on a scale that differs between episodes."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, num_envs: int, length: int = 1) -> None:
        self.num_envs, self.length = num_envs, length
        self.single_observation_space = spaces.Box(0, 1, (1,))
        self.single_action_space = spaces.Box(-9, 9, (3,), np.float64)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.random, self.has_ended = np.random.default_rng(0), False

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        if seed is not None:
            self.random = np.random.default_rng(seed)
        self.has_ended = False
        return np.zeros((self.num_envs, 1), np.float32), {}

    def step(self, actions: Any) -> Any:
        never = np.zeros(self.num_envs, bool)
        if self.has_ended:
            return *self.reset()[:1], np.zeros(self.num_envs), never, never, {}
        self.has_ended = self.length == 1
        rewards = -self.random.uniform(0.5, 2) * ((actions - BEST) ** 2).sum(1)
        return np.zeros((self.num_envs, 1), np.float32), rewards, never | self.has_ended, never, {}

    def state_dict(self) -> dict[str, Any]:
        state = self.random.bit_generator.state["state"]
        return {"random": [str(state["state"]), str(state["inc"])], "has_ended": self.has_ended}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        self.has_ended = saved["has_ended"]
        state, inc = (int(text) for text in saved["random"])
        whole = {"bit_generator": "PCG64", "state": {"state": state, "inc": inc}, "has_uint32": 0, "uinteger": 0}
        self.random.bit_generator.state = whole


def make(kind: type[EvolutionAgent], seed: int = 1, population: int = 14, **settings: Any) -> Trainer:
    envs = Judges(population)
    spaces = (envs.single_observation_space, envs.single_action_space)
    agent = kind(*spaces, kind.Config.of(settings), torch.Generator().manual_seed(seed))
    return Trainer(agent, envs, seed=seed, n_threads=1)


def evolved(trainer: Trainer) -> EvolutionAgent:
    assert isinstance(trainer.agent, EvolutionAgent)
    return trainer.agent


@pytest.mark.parametrize(("kind", "n"), [(CMAES, 40), (OpenAIES, 100)])
def test_the_optimum_is_found_and_candidates_are_counted(kind: type[EvolutionAgent], n: int) -> None:
    trainer = make(kind)
    trainer.run(n)
    assert np.abs(evolved(trainer).weights - BEST).max() < 0.05
    assert trainer.n_steps == n * 14
    played = evaluate(evolved(trainer), Judges(4), 4, seed=1)
    assert all(episode["return"] > -0.02 for episode in played)


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


def test_environments_of_another_kind_are_refused() -> None:
    rows = ShortestRowEnvs(2)
    with pytest.raises(LearningError, match=r"actions are Discrete\(\d+\), expected a Box .*job_index"):
        CMAES(rows.single_observation_space, rows.single_action_space)
    envs = Judges(5)
    agent = CMAES(envs.single_observation_space, envs.single_action_space)
    with pytest.raises(LearningError, match="5 environments are the candidates of a generation, expected an even"):
        Trainer(agent, envs)
    with pytest.raises(LearningError, match="an episode goes on after its first action"):
        Trainer(agent, Judges(4, length=2)).run(1)


def test_losses_that_are_no_numbers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make(CMAES)
    monkeypatch.setattr(Judges, "random", None, raising=False)
    trainer.interaction.envs.random = type("Odd", (), {"uniform": lambda *_: np.nan})()  # type: ignore[attr-defined]
    monkeypatch.setattr(Judges, "reset", lambda self, **_: (np.zeros((self.num_envs, 1), np.float32), {}))
    with pytest.raises(LearningError, match="score of a candidate is nan"):
        trainer.run(1)


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
    used = evolved(make(CMAES))
    used.load_state_dict(state)
    assert used.weights == pytest.approx(mean)
    assert used.state_dict()["weights"] == pytest.approx(mean)
    envs = Judges(14)
    started = CMAES(envs.single_observation_space, envs.single_action_space)
    started.load_weights(state)
    Trainer(started, envs, seed=1)
    assert started.weights == pytest.approx(mean)
    assert np.abs(started.candidates() - mean).max() < 2  # drawn around it
    with pytest.raises(LearningError, match="model 2 has no evolved weights"):
        averaged_state([state, {}])
    with pytest.raises(LearningError, match="do not fit CMAES"):
        used.load_weights({"weights": np.zeros(7)})
