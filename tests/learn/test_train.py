"""The training loop: the same seed gives the same weights, and so does going on after an interruption."""

import hashlib
from pathlib import Path

import gymnasium as gym
import pytest
from gymnasium.vector import AutoresetMode

torch = pytest.importorskip("torch", reason="needs torch (the extra learn)")

from hdrl.agents import load_agent, make_agent  # noqa: E402
from hdrl.base.errors import LearningError  # noqa: E402
from hdrl.learn import Trainer, checkpoint_of, load_checkpoint, save_checkpoint  # noqa: E402
from hdrl.testing.toys import IdentityEnvs, ShortestRowEnvs  # noqa: E402

REPLAY = {"warm_up": 20, "updates_per_iteration": 4, "batch_size": 8, "capacity": 64}
CASES = {
    "random": {"n_steps": 8},
    "reinforce": {"has_baseline": True},
    "a2c": {"n_steps": 7},
    "ppo": {"n_steps": 7, "minibatch_size": 10},
    "d3qn": {**REPLAY, "n_return_steps": 2, "target_every": 3},
    "rainbow": {**REPLAY, "target_every": 3},
    "sac": REPLAY,
}


def make(name: str, mode: AutoresetMode = AutoresetMode.NEXT_STEP, seed: int = 1) -> Trainer:
    network = {"network": "kernel"} if name != "random" else {}
    envs = ShortestRowEnvs(3, length=5, autoreset_mode=mode)
    spaces = (envs.single_observation_space, envs.single_action_space)
    return Trainer(make_agent(name, *spaces, seed=seed, **network, **CASES[name]), envs, seed=seed, n_threads=1)


def fingerprint(trainer: Trainer, tmp_path: Path) -> str:
    """Hash everything that may be saved, byte by byte."""
    path = tmp_path / "model.pt"
    save_checkpoint(path, checkpoint_of(trainer.agent, "any", training=trainer.state_dict()))
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("name", CASES)
def test_the_same_seed_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    prints = []
    for seed in (1, 1, 2):
        trainer = make(name, seed=seed)
        trainer.run(3)
        prints.append(fingerprint(trainer, tmp_path))
        torch.rand(3)  # what others draw does not matter
    assert prints[0] == prints[1] != prints[2]


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("name", CASES)
def test_going_on_after_an_interruption_gives_the_same_bytes(name: str, mode: AutoresetMode, tmp_path: Path) -> None:
    whole = make(name, mode)
    whole.run(6)
    part = make(name, mode)
    part.run(2)
    path = tmp_path / "part.pt"
    save_checkpoint(path, checkpoint_of(part.agent, name, training=part.state_dict()))
    checkpoint = load_checkpoint(path)
    resumed = Trainer(load_agent(checkpoint), ShortestRowEnvs(3, length=5, autoreset_mode=mode), n_threads=1)
    resumed.load_state_dict(checkpoint.training_state())
    told: list[int] = []
    resumed.run(6, on_iteration=lambda iteration: told.append(iteration.number))
    assert told == [3, 4, 5, 6]
    assert resumed.n_steps == whole.n_steps
    assert fingerprint(resumed, tmp_path) == fingerprint(whole, tmp_path)


def test_environments_that_cannot_be_saved_begin_new_episodes() -> None:
    envs = gym.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
    spaces = (envs.single_observation_space, envs.single_action_space)
    trainer = Trainer(make_agent("a2c", *spaces), envs)
    trainer.run(2)
    state = trainer.state_dict()
    trainer.load_state_dict(state)
    trainer.run(4)
    assert trainer.n_iterations == 4
    envs.close()


def test_an_iteration_tells_what_happened() -> None:
    trainer = make("ppo")
    told = []
    trainer.run(n_steps=40, on_iteration=told.append)
    assert [one.number for one in told] == [1, 2, 3]
    # Seven steps of three environments; the sixth of seven, and the fifth of the second seven, begin episodes.
    assert [one.n_steps for one in told] == [18, 36, 54]
    assert {"policy_loss", "value_loss", "entropy", "approx_kl"} <= told[0].losses.keys()
    assert [episode["env"] for episode in told[0].episodes] == [0, 1, 2]
    assert all(episode["length"] == 5 for one in told for episode in one.episodes)


def test_it_stops_when_asked_and_goes_on_as_if_it_had_not(tmp_path: Path) -> None:
    whole, stopped, answered = make("ppo"), make("ppo"), make("ppo")
    whole.run(5)
    stopped.run(5, on_iteration=lambda one: stopped.stop() if one.number == 2 else None)
    assert stopped.n_iterations == 2
    stopped.run(5)
    answered.run(5, on_iteration=lambda one: one.number == 3)
    assert answered.n_iterations == 3
    assert fingerprint(stopped, tmp_path) == fingerprint(whole, tmp_path)


def test_what_an_exception_has_broken_off_is_not_saved() -> None:
    trainer = make("ppo")
    trainer.run(1)
    step, n = trainer.interaction.step, 0

    def interrupted(actions):
        nonlocal n
        n += 1
        if n == 3:
            raise KeyboardInterrupt
        return step(actions)

    trainer.interaction.step = interrupted
    with pytest.raises(KeyboardInterrupt):
        trainer.run(2)
    with pytest.raises(LearningError, match="an iteration was interrupted"):
        trainer.state_dict()


def test_the_number_of_threads_is_set_back() -> None:
    before = torch.get_num_threads()
    seen = []
    trainer = make("random")
    trainer.n_threads = before + 1
    trainer.run(1, on_iteration=lambda one: seen.append(torch.get_num_threads()))
    assert seen == [before + 1]
    assert torch.get_num_threads() == before


def test_an_environment_with_other_spaces_is_refused() -> None:
    mine = IdentityEnvs(2, n_actions=3)
    agent = make_agent("ppo", mine.single_observation_space, mine.single_action_space)
    with pytest.raises(LearningError, match=r"made for observations Box\(3,\), but the environment's are Box\(8, 3\)"):
        Trainer(agent, ShortestRowEnvs(2))
    trainer, other = make("ppo"), make("a2c")
    with pytest.raises(ValueError, match="n_iterations or n_steps"):
        trainer.run()
    state = trainer.state_dict()
    del state["memory"]
    with pytest.raises(LearningError, match="the saved state has no 'memory'"):
        other.load_state_dict(state)
