"""The agent API of HDeepRM: what its classes compute, in both versions of the API."""

from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="agents that learn need torch")

from hdrl.agents import classic  # noqa: E402
from hdrl.compat.hdeeprm.bases import (  # noqa: E402
    Agent,
    ClassicAgent,
    LearningAgent,
    PolicyLearningAgent,
    ValueLearningAgent,
)

OBSERVATION = np.array([0.25, 0.5], dtype=np.float32)


class Fixed(PolicyLearningAgent):
    """Its probabilities do not depend on anything."""

    def __init__(self, probabilities=(0.1, 0.7, 0.2)) -> None:
        super().__init__(0.5)
        self.logits = torch.nn.Parameter(torch.log(torch.tensor([probabilities])))

    def forward_policy(self, observation):
        assert observation.shape == (1, 2)
        return torch.softmax(self.logits, dim=1)


class Both(PolicyLearningAgent, ValueLearningAgent):
    """An actor-critic."""

    def __init__(self) -> None:
        super().__init__(0.5)
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward_policy(self, observation):
        return torch.softmax(self.weight * torch.ones((1, 3)), dim=1)

    def forward_value(self, observation):
        return self.weight + observation.sum(dim=1, keepdim=True)


def with_rewards(agent: LearningAgent, *rewards: float) -> LearningAgent:
    agent.rewards = list(rewards)
    return agent


def test_an_agent_meets_its_environment_in_hdeeprms_words():
    calls = []
    environment = SimpleNamespace(
        observation=lambda: OBSERVATION, step=lambda action: calls.append(action), reward=lambda: 2.5
    )
    agent = Agent()
    assert agent.observe(environment) is OBSERVATION
    agent.alter(4, environment)
    agent.rewarded(environment)
    assert (calls, agent.rewards) == ([4], [2.5])
    with pytest.raises(NotImplementedError):
        agent.decide(OBSERVATION)


def test_there_is_one_classic_agent():
    assert ClassicAgent is classic.ClassicAgent


def test_returns_are_discounted_then_standardised():
    """With gamma 0.5: 1 + 0.5 * 3 = 2.5, 2 + 0.5 * 2 = 3 and 2; mean 2.5, deviation of a sample 0.5."""
    agent = with_rewards(LearningAgent(0.5), 1.0, 2.0, 2.0)
    assert agent.transform_rewards() == pytest.approx([0.0, 1.0, -1.0], abs=1e-6)


def test_a_single_return_stays_as_it_is():
    assert with_rewards(LearningAgent(0.5), -6.25).transform_rewards() == [-6.25]
    assert LearningAgent(0.5).transform_rewards() == []


def test_equal_returns_are_zero_and_not_nan():
    assert with_rewards(LearningAgent(0.0), 3.0, 3.0).transform_rewards() == [0.0, 0.0]


def test_the_loss_of_a_policy_by_hand():
    agent = with_rewards(Fixed(), 1.0, 2.0, 2.0)
    agent.log_probs = [torch.log(torch.tensor([p])) for p in (0.5, 0.25, 0.125)]
    # Minus the logarithms, 0.693, 1.386, 2.079, times 0, 1, -1.
    assert float(agent.loss()) == pytest.approx(np.log(4) - np.log(8), abs=1e-5)


def test_the_loss_of_a_value_is_hubers():
    agent = with_rewards(ValueLearningAgent(0.5), 4.0)
    agent.save_value(torch.tensor([[1.0]]))
    assert float(agent.loss()) == pytest.approx(3.0 - 0.5), "beyond 1 it grows by the distance"
    agent.values = [torch.tensor([[3.5]])]
    assert float(agent.loss()) == pytest.approx(0.125), "within 1 it is half the square"


def test_a_learning_agent_draws_and_a_tested_one_takes_the_best():
    torch.manual_seed(0)
    drawn = [Fixed().train().decide(OBSERVATION) for _ in range(300)]
    assert {drawn.count(action) // 75 for action in (0, 2)} == {0}
    assert 150 < drawn.count(1) < 270
    assert {Fixed().eval().decide(OBSERVATION) for _ in range(20)} == {1}


def test_in_compatibility_mode_a_tested_agent_draws_too():
    torch.manual_seed(0)
    agent = Fixed((0.34, 0.33, 0.33)).eval()
    agent.samples_in_test = True
    assert len({agent.decide(OBSERVATION) for _ in range(60)}) == 3


def test_the_first_probabilities_are_noted():
    agent = Fixed()
    agent.decide(OBSERVATION)
    agent.logits.data += torch.tensor([[5.0, 0.0, 0.0]])
    agent.decide(OBSERVATION)
    assert agent.probs == pytest.approx([0.1, 0.7, 0.2])
    assert len(agent.log_probs) == 2
    assert agent.log_probs[0].shape == (1,)
    assert agent.log_probs[0].requires_grad


def test_a_forward_that_does_nothing_means_process():
    """The examples of HDeepRM end with it."""

    class Idle(Fixed):
        def forward(self, *inp):
            pass

    assert Idle().eval().decide(OBSERVATION) == 1


def test_process_of_the_older_api_may_be_overridden():
    class Older(Fixed):
        def process(self, observation):
            return torch.tensor([[0.0, 0.0, 1.0]])

    assert Older().decide(OBSERVATION) == 2


def test_an_actor_critic_needs_no_decide_of_its_own():
    agent = Both()
    agent.decide(OBSERVATION)
    assert [value.shape for value in agent.values] == [(1, 1)]
    assert float(agent.values[0].detach()) == pytest.approx(0.75)
    assert len(agent.log_probs) == 1


def test_process_gives_what_there_is():
    probabilities, value = Both().process(OBSERVATION)
    assert probabilities.shape == (1, 3)
    assert value.shape == (1, 1)
    assert Fixed().process(OBSERVATION).shape == (1, 3)
    with pytest.raises(NotImplementedError):
        LearningAgent(0.9)(OBSERVATION)
    with pytest.raises(NotImplementedError):
        PolicyLearningAgent(0.9).decide(OBSERVATION)


def test_the_gradient_makes_good_actions_likelier():
    torch.manual_seed(3)
    agent = Fixed((0.25, 0.25, 0.5))
    optimizer = torch.optim.Adam(agent.parameters(), lr=0.05)
    for _ in range(60):
        agent.rewards, agent.log_probs = [], []
        for _ in range(8):
            agent.rewards.append(1.0 if agent.decide(OBSERVATION) == 0 else 0.0)
        agent.gamma = 0.0
        optimizer.zero_grad()
        agent.loss().backward()
        optimizer.step()
    assert float(agent.process(OBSERVATION)[0, 0].detach()) > 0.9
