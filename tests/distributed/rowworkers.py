"""Environments whose rows can live with several workers, for the tests here and on Ray."""

from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from hdrl.distributed.training.pool import RoleDied


class OwnSeeds(VectorEnv[Any, Any, Any]):
    """Each row draws by a seed of its own what its action, a number, is multiplied by."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs
        self.single_observation_space = spaces.Box(0, 1, (1,))
        self.single_action_space = spaces.Box(-9, 9, (1,), np.float64)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.seeds, self.episode = [0] * num_envs, 0

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        if seed is not None:
            self.seeds, self.episode = (
                [seed + row for row in range(self.num_envs)] if isinstance(seed, int) else seed,
                0,
            )
        return self._seen(), {}

    def step(self, actions: Any) -> Any:
        rewards = self._seen()[:, 0] * actions[:, 0]
        self.episode += 1
        ended = np.ones(self.num_envs, bool)
        final = np.empty(self.num_envs, object)
        final[:] = list(self._seen())
        report = {"r": rewards.copy(), "_r": ended}
        return self._seen(), rewards, ended, ~ended, {"final_obs": final, "final_info": {"results": report}}

    def state_dict(self) -> dict[str, Any]:
        return {"seeds": list(self.seeds), "episode": self.episode}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seeds, self.episode = state["seeds"], state["episode"]

    def _seen(self) -> Any:
        drawn = [np.random.default_rng([seed, self.episode]).random(1) for seed in self.seeds]
        return np.array(drawn, dtype=np.float32)


class DiesOnce(OwnSeeds):
    """The same; whoever sees first that a file is missing makes it and dies in its third episode."""

    def __init__(self, num_envs: int, file: Path) -> None:
        super().__init__(num_envs)
        self.file = file

    def step(self, actions: Any) -> Any:
        if self.episode == 2 and not self.file.exists():
            self.file.touch()
            raise RoleDied("gone")
        return super().step(actions)
