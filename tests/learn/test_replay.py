"""The replay buffer: what it draws, how often, and over how many steps."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch (the extra learn)")

from hdrl.base.errors import LearningError  # noqa: E402
from hdrl.learn.memory import Finals, Outcome  # noqa: E402
from hdrl.learn.replay import Replay, Schedule  # noqa: E402
from hdrl.learn.sum_tree import SumTree  # noqa: E402


def test_the_sum_tree_finds_slots_by_cumulated_priorities() -> None:
    tree = SumTree(5)
    tree.set(np.arange(5), np.array([1.0, 0.0, 2.0, 3.0, 4.0]))
    assert tree.total == 10.0
    found = tree.find(np.array([0.0, 0.99, 1.0, 2.99, 3.0, 5.99, 6.0, 9.99]))
    assert found.tolist() == [0, 0, 2, 2, 3, 3, 4, 4]
    tree.set(np.array([0, 4]), 0.0)
    assert tree.total == 5.0
    assert tree.find(np.array([0.0, 4.99])).tolist() == [2, 3]
    # A sum that rounding has pushed to the total or beyond still finds a slot with a priority.
    assert tree.find(np.array([5.0, 6.0])).tolist() == [3, 3]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 100])
def test_the_sum_tree_adds_up_for_any_size_and_history(size: int) -> None:
    random = np.random.default_rng(size)
    tree, expected = SumTree(size), np.zeros(size)
    for _ in range(20):
        slots = random.integers(size, size=4)
        priorities = random.random(4)
        tree.set(slots, priorities)
        for slot, priority in zip(slots, priorities, strict=True):
            expected[slot] = priority
    assert tree.priorities.tolist() == expected.tolist()
    assert tree.total == pytest.approx(expected.sum())
    other = SumTree(size)
    other.set(np.arange(size), expected)
    assert other.find(np.array([0.3 * other.total])) == tree.find(np.array([0.3 * tree.total]))


def test_slots_are_drawn_as_often_as_their_priorities_say() -> None:
    tree = SumTree(6)
    priorities = np.array([5.0, 0.0, 1.0, 2.0, 0.5, 1.5])
    tree.set(np.arange(6), priorities)
    draws = tree.find(np.random.default_rng(0).random(100_000) * tree.total)
    shares = np.bincount(draws, minlength=6) / 100_000
    assert shares[1] == 0.0
    assert shares == pytest.approx(priorities / 10.0, abs=0.006)


def outcome(rewards, *, terminated=None, truncated=None, valid=None, finals=None) -> Outcome:
    n = len(rewards)
    none = [False] * n
    return Outcome(
        rewards=torch.tensor(rewards, dtype=torch.float32),
        terminated=torch.tensor(terminated or none),
        truncated=torch.tensor(truncated or none),
        valid=torch.tensor(valid or [True] * n),
        finals=finals,
    )


def replay(n_envs: int = 1, **arguments) -> Replay:
    defaults = {"capacity": 100 * n_envs, "batch_size": 4, "gamma": 0.5, "generator": torch.Generator().manual_seed(0)}
    return Replay(n_envs, **{**defaults, **arguments})


def fill(memory: Replay, outcomes: list[Outcome]) -> None:
    """Step through observations 0, 1, 2, ... (in environment e: 1000 e + these)."""
    for t, one in enumerate(outcomes):
        seen = torch.tensor([[1000.0 * env + t] for env in range(memory.n_envs)])
        memory.record_choice(seen, None, torch.full((memory.n_envs,), t), {})
        memory.record_outcome(one)


def from_slot(memory: Replay, slot: int):
    return memory.transitions(np.array([slot]), torch.ones(1))


def test_n_steps_by_hand() -> None:
    memory = replay(n_steps=3)
    fill(memory, [outcome([r]) for r in (1.0, 2.0, 4.0, 8.0, 16.0)])
    found = from_slot(memory, 0)  # 1 + 0.5 * 2 + 0.25 * 4, then what follows counts 0.125
    assert (found.returns.item(), found.discounts.item(), found.next_observations.item()) == (3.0, 0.125, 3.0)
    # Near the newest entry there are fewer steps: from entry 2, only 4 + 0.5 * 8 and then observation 4.
    found = from_slot(memory, 2)
    assert (found.returns.item(), found.discounts.item(), found.next_observations.item()) == (8.0, 0.25, 4.0)


@pytest.mark.parametrize("is_same_step", [False, True])
def test_n_steps_stop_where_an_episode_ends(*, is_same_step: bool) -> None:
    def end(kind: str) -> Outcome:
        last = Finals(torch.tensor([0]), torch.tensor([[77.0]]), None) if is_same_step else None
        return outcome([2.0], **{kind: [True]}, finals=last)

    for kind, discount in (("terminated", 0.0), ("truncated", 0.25)):
        memory = replay(n_steps=3)
        after = [outcome([0.0], valid=[False])] if not is_same_step else []
        fill(memory, [outcome([1.0]), end(kind), *after, outcome([100.0]), outcome([100.0])])
        found = from_slot(memory, 0)
        assert (found.returns.item(), found.discounts.item()) == (2.0, discount)
        # The last observation of the episode, not the first of the next one.
        assert found.next_observations.item() == (77.0 if is_same_step else 2.0)


def test_only_complete_and_valid_steps_are_drawn() -> None:
    memory = replay(2, batch_size=400)
    ends = outcome([1.0, 1.0], truncated=[True, False])
    fill(memory, [outcome([1.0, 1.0]), ends, outcome([0.0, 1.0], valid=[False, True]), outcome([1.0, 1.0])])
    drawn = set(memory.batch(torch.zeros(2, 1), None).observations.flatten().tolist())
    # Not 2: there an episode began. Not 3 and 1003: what they led to is not known yet.
    assert drawn == {0.0, 1.0, 1000.0, 1001.0, 1002.0}


def test_old_steps_are_forgotten() -> None:
    memory = replay(capacity=4, batch_size=100)
    fill(memory, [outcome([float(t)]) for t in range(10)])
    batch = memory.batch(torch.zeros(1, 1), None)
    assert set(batch.observations.flatten().tolist()) == {6.0, 7.0, 8.0}
    assert torch.equal(batch.returns, batch.observations.flatten())
    assert torch.equal(batch.next_observations, batch.observations + 1.0)


def test_priorities_follow_errors_and_weights_make_up_for_them() -> None:
    memory = replay(batch_size=2000, alpha=0.5, beta=Schedule(1.0, 1.0, 0), smallest_error=0.0)
    fill(memory, [outcome([float(t)]) for t in range(5)])
    first = memory.batch(torch.zeros(1, 1), None)
    assert first.weights.tolist() == [1.0] * 2000  # all have the same priority at first
    errors = torch.tensor([1.0, 4.0, 9.0, 16.0])
    first.errors = errors[first.slots]
    memory.after_learning(first)
    assert memory.tree.priorities[:5].tolist() == [1.0, 2.0, 3.0, 4.0, 0.0]  # square roots
    memory.record_choice(torch.zeros(1, 1), None, torch.zeros(1, dtype=torch.int64), {})
    assert memory.tree.priorities[4] == 4.0  # what is new is as likely as the most surprising
    memory.record_outcome(outcome([0.0]))
    batch = memory.batch(torch.zeros(1, 1), None)
    shares = np.bincount(batch.slots.numpy(), minlength=5) / 2000
    assert shares == pytest.approx(np.array([1, 2, 3, 4, 4]) / 14, abs=0.002)  # one draw from each of 2000 equal parts
    # Weights are inverse to priorities, the largest is 1, and each slot counts the same on average.
    assert batch.weights[batch.slots == 0][0].item() == 1.0
    assert batch.weights[batch.slots == 3][0].item() == pytest.approx(0.25)
    totals = [batch.weights[batch.slots == slot].sum().item() for slot in range(5)]
    assert totals == pytest.approx([totals[0]] * 5, rel=0.02)


def test_beta_moves_evenly() -> None:
    beta = Schedule(0.4, 1.0, 100)
    assert [beta.at(0), beta.at(50), beta.at(100), beta.at(10**9)] == pytest.approx([0.4, 0.7, 1.0, 1.0])
    assert Schedule(0.4, 1.0, 0).at(0) == 1.0


def test_it_waits_for_the_warm_up_and_between_batches() -> None:
    memory = replay(2, warm_up=6, steps_per_batch=2)
    ready = []
    for _ in range(8):
        memory.record_choice(torch.zeros(2, 1), None, torch.zeros(2, dtype=torch.int64), {})
        memory.record_outcome(outcome([0.0, 0.0]))
        ready.append(memory.batch(torch.zeros(2, 1), None) is not None)
    assert ready == [False, False, True, False, True, False, True, False]


def test_a_saved_buffer_draws_the_same() -> None:
    memory = replay(2, batch_size=8, alpha=0.6)
    fill(memory, [outcome([1.0, 2.0]) for _ in range(9)])
    state = memory.state_dict()
    other = replay(2, batch_size=8, alpha=0.6)
    other.load_state_dict(state)
    mine, theirs = (one.batch(torch.zeros(2, 1), None) for one in (memory, other))
    assert torch.equal(mine.slots, theirs.slots)
    assert torch.equal(mine.observations, theirs.observations)
    with pytest.raises(LearningError, match="of another size"):
        replay(1).load_state_dict(state)


def test_a_buffer_without_room_is_refused() -> None:
    with pytest.raises(LearningError, match="too small, expected 2 or more for each of 8"):
        replay(8, capacity=15)
