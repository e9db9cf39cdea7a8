"""Ends of episodes in both modes of autoreset, and masks."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

torch = pytest.importorskip("torch", reason="needs torch (the extra learn)")

from hdrl.agents import make_agent  # noqa: E402
from hdrl.base.errors import LearningError  # noqa: E402
from hdrl.learn import Episodes, Interaction, Rollout, evaluate  # noqa: E402
from hdrl.testing.toys import ConstantEnvs, IdentityEnvs  # noqa: E402

MODES = [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP]


def play(interaction: Interaction, n: int):
    """Do what is right, and return the outcomes."""
    interaction.reset(3)
    return [interaction.step(interaction.observations.argmax(-1)) for _ in range(n)]


def test_the_step_that_begins_an_episode_is_no_transition() -> None:
    interaction = Interaction(IdentityEnvs(2, length=3))
    outcomes = play(interaction, 8)
    assert [bool(one.terminated[0]) for one in outcomes] == [False, False, True, False] * 2
    assert [bool(one.valid[0]) for one in outcomes] == [True, True, True, False] * 2
    assert all(one.finals is None for one in outcomes)


def test_where_episodes_begin_at_once_the_last_observation_is_apart() -> None:
    envs = IdentityEnvs(2, length=3, autoreset_mode=AutoresetMode.SAME_STEP)
    outcomes = play(Interaction(envs), 6)
    assert [bool(one.terminated[0]) for one in outcomes] == [False, False, True] * 2
    assert all(bool(one.valid.all()) for one in outcomes)
    assert [one.finals is not None for one in outcomes] == [False, False, True] * 2
    assert outcomes[2].finals.rows.tolist() == [0, 1]
    assert outcomes[2].finals.observations.shape == (2, 4)


@pytest.mark.parametrize("mode", MODES)
def test_episodes_are_told_with_what_the_environment_says(mode: AutoresetMode) -> None:
    interaction = Interaction(IdentityEnvs(2, length=3, autoreset_mode=mode))
    play(interaction, 3)
    expected = {"return": 3.0, "length": 3, "r": 3.0, "l": 3}
    assert interaction.episodes == [{**expected, "env": 0}, {**expected, "env": 1}]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("is_truncated", [False, True])
def test_gymnasiums_own_vector_environments_work(mode: AutoresetMode, *, is_truncated: bool) -> None:
    make = [lambda: gym.make("CartPole-v1", max_episode_steps=5 if is_truncated else 500)] * 3
    envs = gym.vector.SyncVectorEnv(make, autoreset_mode=mode)
    interaction = Interaction(envs)
    interaction.reset(0)
    assert interaction.mask is None
    ended = []
    for _ in range(60):
        outcome = interaction.step(torch.zeros(3, dtype=torch.int64))
        ended.append((outcome.terminated | outcome.truncated) & outcome.valid)
        if outcome.finals is not None:
            # A pole that has fallen is beyond 12 degrees; the first observation of an episode is not.
            angles = outcome.finals.observations[:, 2].abs()
            assert is_truncated or bool((angles > 0.2).all())
        if is_truncated:
            assert not bool(outcome.terminated.any())
    lengths = [episode["length"] for episode in interaction.episodes]
    assert len(lengths) == int(torch.stack(ended).sum()) > 10
    assert set(lengths) == {5} if is_truncated else max(lengths) < 20
    envs.close()


def test_an_environment_that_does_not_start_over_is_refused() -> None:
    make = [lambda: gym.make("CartPole-v1")]
    envs = gym.vector.SyncVectorEnv(make, autoreset_mode=AutoresetMode.DISABLED)
    with pytest.raises(LearningError, match="autoreset_mode 'Disabled', expected 'NextStep' or 'SameStep'"):
        Interaction(envs)
    envs.close()


def test_a_mask_of_another_size_is_refused() -> None:
    envs = IdentityEnvs(2)
    envs.legal = np.ones((2, 3), dtype=np.int8)
    with pytest.raises(LearningError, match=r"action_mask'\] has shape \(2, 3\), expected \(.., 4\)"):
        Interaction(envs).reset(0)


def gather(memory, envs):
    interaction = Interaction(envs)
    interaction.reset(0)
    agent = make_agent("random", envs.single_observation_space, envs.single_action_space)
    while True:
        acted = agent.act(interaction.observations, interaction.mask, explore=True)
        memory.record_choice(interaction.observations, interaction.mask, acted.actions, {"twice": 2 * acted.actions})
        memory.record_outcome(interaction.step(acted.actions))
        batch = memory.batch(interaction.observations, interaction.mask)
        if batch is not None:
            return batch


def test_a_rollout_keeps_everything_in_order() -> None:
    envs = IdentityEnvs(3, length=4, is_masked=True)
    steps = gather(Rollout(10), envs)
    assert steps.observations.shape == (10, 3, 4)
    assert steps.masks.shape == (10, 3, 4)
    assert torch.equal(steps.stored["twice"], 2 * steps.actions)
    right = (steps.observations.argmax(-1) == steps.actions) & steps.valid
    assert torch.equal(steps.rewards, right.float())
    assert bool(steps.masks.gather(-1, steps.actions.unsqueeze(-1)).all())
    assert steps.valid[:, 0].tolist() == [True] * 4 + [False] + [True] * 4 + [False]


@pytest.mark.parametrize("mode", MODES)
def test_whole_episodes_come_in_equal_numbers_from_each_environment(mode: AutoresetMode) -> None:
    class Uneven(ConstantEnvs):
        """Environment 0 has episodes of 2 steps, the other of 7."""

        def rewards_of(self, actions):
            self.length = np.array([2, 7])
            return super().rewards_of(actions)

    steps = gather(Episodes(2, n_steps=3), Uneven(2, autoreset_mode=mode))
    ended = (steps.terminated & steps.valid).sum(0)
    assert ended.tolist() == [2, 2]
    assert steps.valid.sum(0).tolist() == [4, 14]
    assert float((steps.rewards * steps.valid).sum()) == 18.0


@pytest.mark.parametrize("mode", MODES)
def test_evaluation_takes_equal_shares_and_the_best_actions(mode: AutoresetMode) -> None:
    envs = IdentityEnvs(3, length=4, autoreset_mode=mode)
    agent = make_agent("dqn", envs.single_observation_space, envs.single_action_space, seed=2)
    before = agent.state_dict()["generator"].clone()
    episodes = evaluate(agent, envs, 7, seed=1)
    assert [episode["env"] for episode in episodes] == [0, 1, 2, 0, 1, 2, 0]
    assert evaluate(agent, envs, 7, seed=1) == episodes
    assert torch.equal(agent.state_dict()["generator"], before)  # nothing was drawn
