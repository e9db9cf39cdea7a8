"""DDPG and the measure of devices that it is for."""

import json

import gymnasium as gym
import numpy as np
import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch", reason="agents that learn need torch")

from hdrl.agents.ddpg import DDPG, DDPGConfig, Transition  # noqa: E402
from hdrl.base.errors import LearningError, OptionsError  # noqa: E402
from hdrl.experiment import devices  # noqa: E402
from hdrl.launcher.main import cli  # noqa: E402

SEEN, DONE = gym.spaces.Box(-1, 1, (1,), np.float32), gym.spaces.Box(-2, 4, (1,), np.float32)


def learned(seed: int, *, best: float, n_steps: int = 400) -> DDPG:
    """Learn to give the action ``best`` in episodes of one step, whatever is seen."""
    agent = DDPG(SEEN, DONE, DDPGConfig(hidden=(32, 32), noise=0.5, lr=3e-3, tau=0.1), seed=seed)
    random = np.random.default_rng(seed)
    for _ in range(n_steps):
        seen = random.uniform(-1, 1, 1).astype(np.float32)
        action = agent.act(seen, explore=True)
        agent.remember(Transition(seen, action, -float((action[0] - best) ** 2), seen, terminated=True))
        agent.learn()
    return agent


def test_the_best_action_is_learned_within_its_bounds():
    agent = learned(1, best=2.5)
    assert agent.act(np.zeros(1, np.float32), explore=False)[0] == pytest.approx(2.5, abs=0.3)
    assert agent.n_updates == 400 - 63
    drawn = [float(agent.act(np.zeros(1, np.float32), explore=True)[0]) for _ in range(200)]
    assert -2.0 <= min(drawn) < max(drawn) <= 4.0


def test_equal_seeds_learn_the_same_and_old_steps_go():
    first, second = (learned(2, best=0.0, n_steps=100).act(np.ones(1, np.float32), explore=False) for _ in range(2))
    assert np.array_equal(first, second)
    small = DDPG(SEEN, DONE, DDPGConfig(hidden=(4,), capacity=3, batch_size=2))
    for reward in range(5):
        small.remember(Transition(np.zeros(1), np.ones(1), float(reward), np.zeros(1), terminated=False))
    assert sorted(small._buffer[:, -2]) == [2.0, 3.0, 4.0]


def test_spaces_that_do_not_fit_are_refused():
    with pytest.raises(LearningError, match="expected a Box of one axis"):
        DDPG(SEEN, gym.spaces.Discrete(3))
    with pytest.raises(LearningError, match="expected bounds"):
        DDPG(SEEN, gym.spaces.Box(-np.inf, np.inf, (1,)))


def test_rates_are_taken_of_windows(monkeypatch: pytest.MonkeyPatch):
    """A clock by which the first two windows take 4 s each, the others 2 s, but one of them 1 s."""
    now_s, durations_s = [0.0], iter([4.0, 4.0, 2.0, 2.0, 2.0, 1.0])

    def episode(*told: object) -> None:
        now_s[0] += next(durations_s)

    monkeypatch.setattr(devices, "_episode", episode)
    speed = devices.measure_device("cpu", max_steps=1200, clock=lambda: now_s[0])
    assert (speed.n_steps, speed.mean_per_s, speed.steady_per_s) == (1200, 80.0, 100.0)
    assert speed.spread_per_s == pytest.approx(57.735, abs=1e-3)
    assert speed.best_return is None, "nothing was evaluated"
    rows = devices.compared([speed])
    assert [row[2] for row in rows] == [296.0, 198.0, 100.0, 90.0, 58.0, 34.0]


def test_the_command(tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(devices, "SETTINGS", devices.SETTINGS | {"hidden": (8,)})
    result = CliRunner().invoke(
        cli, ["benchmark", "devices", "-d", "cpu", "--steps", "200", "-o", str(tmp_path / "speeds.json")]
    )
    assert result.exit_code == 0, result.output
    assert "Cirrus, V100 (published)" in result.output
    (told,) = json.loads((tmp_path / "speeds.json").read_text())
    assert (told["device"], told["n_steps"]) == ("cpu", 200)
    with pytest.raises(OptionsError, match="device 'tpu': torch finds cpu"):
        devices.measure_device("tpu")
