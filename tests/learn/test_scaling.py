"""How large returns are: by hand, over batches, and where rewards come one by one."""

import math

import pytest

torch = pytest.importorskip("torch", reason="needs torch (the extra learn)")

from hdrl.learn import RewardScale  # noqa: E402
from hdrl.learn.memory import Outcome  # noqa: E402
from hdrl.learn.scaling import SEGMENT  # noqa: E402


def see(scale: RewardScale, *rewards: float, ends: tuple[int, ...] = (), invalid: tuple[int, ...] = ()) -> None:
    """Let a scale see steps of one environment; some of them are ends, some are no steps at all."""
    steps = torch.arange(len(rewards))[:, None]
    ended = torch.isin(steps, torch.tensor(ends, dtype=torch.int64))
    valid = ~torch.isin(steps, torch.tensor(invalid, dtype=torch.int64))
    scale.see(torch.tensor(rewards)[:, None], ended, torch.zeros_like(ended), valid)


def test_it_is_the_root_mean_square_of_discounted_sums() -> None:
    scale = RewardScale(gamma=0.5)
    see(scale, 4.0, 2.0, 8.0, ends=(1,))
    # From the beginning of the episode: 4, 2 + 2 = 4, 8. To its end: 4 + 1 = 5, 2, 8.
    assert scale.n == 3
    assert scale.value == pytest.approx(math.sqrt((16 + 16 + 64) / 3))


def test_rewards_at_the_end_count_for_all_steps_before() -> None:
    scale = RewardScale(gamma=1.0)
    see(scale, 0.0, 0.0, 0.0, -6.0, ends=(3,))
    assert scale.value == 6.0


def test_an_episode_goes_on_over_batches() -> None:
    scale = RewardScale(gamma=1.0)
    see(scale, 1.0, 1.0)
    see(scale, 1.0, 1.0, ends=(1,))
    see(scale, 1.0)
    assert scale.value == pytest.approx(math.sqrt((1 + 4 + 9 + 16 + 1) / 5))


def test_what_is_no_step_does_not_count() -> None:
    scale = RewardScale(gamma=1.0)
    see(scale, 3.0, 0.0, 3.0, ends=(0, 2), invalid=(1,))
    assert (scale.n, scale.value) == (2, 3.0)


@pytest.mark.parametrize("rewards", [(), (0.0, 0.0)])
def test_without_rewards_nothing_is_divided(rewards: tuple[float, ...]) -> None:
    scale = RewardScale(gamma=0.9)
    if rewards:
        see(scale, *rewards)
    assert scale.value == 1.0


def outcome(reward: float, *, ends: bool = False) -> Outcome:
    yes, no = torch.tensor([True]), torch.tensor([False])
    return Outcome(torch.tensor([reward]), yes if ends else no, no, yes, None)


def test_single_steps_are_seen_together() -> None:
    single, together = RewardScale(gamma=1.0), RewardScale(gamma=1.0)
    for step in range(SEGMENT):
        assert single.n == 0
        single.add(outcome(float(step), ends=step % 10 == 9))
    see(together, *map(float, range(SEGMENT)), ends=tuple(range(9, SEGMENT, 10)))
    assert (single.n, single.value) == (SEGMENT, together.value)


def test_the_first_use_does_not_wait() -> None:
    scale = RewardScale(gamma=1.0)
    scale.add(outcome(5.0, ends=True))
    scale.settle()
    assert scale.value == 5.0
    scale.add(outcome(50.0, ends=True))
    scale.settle()
    assert scale.value == 5.0, "later steps are seen together"


def test_it_goes_on_where_it_was_saved() -> None:
    scale = RewardScale(gamma=0.9)
    see(scale, 1.0, 2.0)
    scale.add(outcome(3.0))
    again = RewardScale(gamma=0.9)
    again.load_state_dict(scale.state_dict())
    for one in (scale, again):
        for _ in range(SEGMENT):
            one.add(outcome(4.0))
        see(one, 5.0)
    assert (again.n, again.value) == (scale.n, scale.value)
    assert again.n == 2 + SEGMENT + 1
