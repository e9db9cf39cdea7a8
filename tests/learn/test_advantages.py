"""Returns and advantages, against sums written out from their definitions and against numbers found by hand."""

import itertools

import pytest

torch = pytest.importorskip("torch", reason="needs torch (the extra learn)")

from hdrl.learn.advantages import discounted_returns, explained_variance, gae, standardise  # noqa: E402
from hdrl.learn.rollout import Steps  # noqa: E402


def column(*numbers):
    return torch.tensor(numbers, dtype=torch.float64).unsqueeze(-1)


def flags(*numbers):
    return torch.tensor(numbers, dtype=torch.bool).unsqueeze(-1)


def test_gae_by_hand() -> None:
    # gamma 0.5, lambda 0.5. delta_2 = 3 - 1 = 2 (terminal),
    # delta_1 = 2 + 0.5 * 1 - 2 = 0.5, delta_0 = 1 + 0.5 * 2 - 4 = -2.
    # A_2 = 2, A_1 = 0.5 + 0.25 * 2 = 1, A_0 = -2 + 0.25 * 1 = -1.75.
    found = gae(column(1, 2, 3), column(4, 2, 1), column(2, 1, 99), flags(0, 0, 1), flags(0, 0, 0), gamma=0.5, lam=0.5)
    assert found.squeeze(-1).tolist() == [-1.75, 1.0, 2.0]


def test_an_episode_that_is_cut_off_counts_what_would_have_followed() -> None:
    # The same, but cut off after the second step, where the last observation is worth 10: delta_1 = 2 + 5 - 2 = 5.
    found = gae(column(1, 2, 3), column(4, 2, 1), column(2, 10, 0), flags(0, 0, 1), flags(0, 1, 0), gamma=0.5, lam=0.5)
    assert found.squeeze(-1).tolist() == [-0.75, 5.0, 2.0]


def expected_gae(rewards, values, after, terminated, truncated, gamma, lam):
    """The definition: a sum of discounted one-step errors up to the end of the episode."""
    n = len(rewards)
    result = []
    for t in range(n):
        total, weight = 0.0, 1.0
        for k in range(t, n):
            total += weight * (rewards[k] + gamma * (0.0 if terminated[k] else after[k]) - values[k])
            weight *= gamma * lam
            if terminated[k] or truncated[k]:
                break
        result.append(total)
    return result


ENDS = ("none", "terminated", "truncated", "both kinds", "every step")


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize(("gamma", "lam"), list(itertools.product((0.0, 0.9, 1.0), (0.0, 0.95, 1.0))))
def test_gae_is_the_sum_of_its_definition(gamma: float, lam: float, ends: str) -> None:
    generator = torch.Generator().manual_seed(3)
    rewards, values, after = torch.randn((3, 12, 2), generator=generator, dtype=torch.float64)
    terminated, truncated = torch.zeros((2, 12, 2), dtype=torch.bool)
    terminated[4, 0] = ends in ("terminated", "both kinds")
    terminated[11, 1] = ends in ("terminated", "both kinds")
    truncated[7, 0] = truncated[2, 1] = ends in ("truncated", "both kinds")
    terminated[:] |= ends == "every step"
    found = gae(rewards, values, after, terminated, truncated, gamma, lam)
    for env in range(2):
        parts = (part[:, env].tolist() for part in (rewards, values, after, terminated, truncated))
        assert found[:, env].tolist() == pytest.approx(expected_gae(*parts, gamma, lam))


def test_gae_with_lambda_one_is_return_minus_value() -> None:
    generator = torch.Generator().manual_seed(1)
    rewards, values = torch.randn((2, 9, 3), generator=generator, dtype=torch.float64)
    after = torch.cat([values[1:], torch.zeros((1, 3), dtype=torch.float64)])
    terminated = torch.zeros((9, 3), dtype=torch.bool)
    terminated[4, 1] = terminated[8] = True
    truncated = torch.zeros_like(terminated)
    returns = discounted_returns(rewards, terminated, truncated, 0.9)
    torch.testing.assert_close(gae(rewards, values, after, terminated, truncated, 0.9, 1.0), returns - values)


def test_discounted_returns_by_hand() -> None:
    rewards = column(1, 2, 4, 8)
    end_after_two = flags(0, 1, 0, 0)
    none = flags(0, 0, 0, 0)
    assert discounted_returns(rewards, none, none, 0.5).flatten().tolist() == [4.0, 6.0, 8.0, 8.0]
    assert discounted_returns(rewards, end_after_two, none, 0.5).flatten().tolist() == [2.0, 2.0, 8.0, 8.0]
    assert discounted_returns(rewards, none, end_after_two, 0.5).flatten().tolist() == [2.0, 2.0, 8.0, 8.0]


def test_standardised_numbers_have_mean_zero_and_deviation_one_over_those_that_count() -> None:
    numbers = torch.tensor([1.0, 3.0, 1000.0])
    found = standardise(numbers, torch.tensor([True, True, False]))
    assert found[:2].tolist() == pytest.approx([-(0.5**0.5), 0.5**0.5])
    assert standardise(torch.full((5,), 7.0)).tolist() == [0.0] * 5
    assert standardise(torch.tensor([3.0])).tolist() == [0.0]


def test_explained_variance() -> None:
    found = torch.tensor([1.0, 2.0, 3.0])
    assert explained_variance(found, found) == 1.0
    assert explained_variance(torch.zeros(3), found) == pytest.approx(0.0)
    assert explained_variance(-found, found) == pytest.approx(-3.0)
    assert explained_variance(found, torch.ones(3)) == 0.0
    assert explained_variance(found[:1], found[:1]) == 0.0


def test_values_after_each_step_come_from_where_the_next_observation_is() -> None:
    from hdrl.learn.memory import Finals

    zeros = torch.zeros((2, 2))
    observations = torch.tensor([[[1.0], [2.0]], [[3.0], [4.0]]])
    finals = Finals(torch.tensor([1]), torch.tensor([[50.0]]), None)
    steps = Steps(
        observations=observations,
        masks=None,
        actions=zeros.long(),
        rewards=zeros,
        terminated=zeros.bool(),
        truncated=torch.tensor([[False, True], [False, False]]),
        valid=~zeros.bool(),
        stored={},
        last_observations=torch.tensor([[5.0], [6.0]]),
        last_masks=None,
        finals=[(0, finals)],
    )
    found = steps.next_values(observations.squeeze(-1), lambda seen, mask: seen.squeeze(-1))
    assert found.tolist() == [[3.0, 50.0], [5.0, 6.0]]
