"""A single environment is a batch of one row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from hdrl.base.errors import OptionsError
from hdrl.envs.hooks import BoolArray, Info, Options, StateDict
from hdrl.envs.masks import LegalDiscrete
from hdrl.envs.native import NativeVectorEnv


class SingleEnv(gymnasium.Env[NDArray[Any], np.int64]):
    """One environment: a batch of one row.

    A subclass says as ``batch_class`` what its batches are; it then takes their arguments, except ``num_envs``,
    ``autoreset_mode`` and ``n_threads``.

    Parameters
    ----------
    batch
        A batch of one row without autoreset; ``None``: one of ``batch_class``.

    Attributes
    ----------
    batch
        It.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012
    batch_class: ClassVar[Callable[..., NativeVectorEnv]]

    def __init__(self, batch: NativeVectorEnv | None = None, /, **arguments: Any) -> None:
        if batch is None:
            batch = type(self).batch_class(1, autoreset_mode=AutoresetMode.DISABLED, **arguments)
        if batch.num_envs != 1 or batch.autoreset_mode is not AutoresetMode.DISABLED:
            raise OptionsError("a single environment needs a batch of one row without autoreset")
        self.batch = batch
        self.render_mode = None
        self.observation_space = batch.single_observation_space
        self.action_space = LegalDiscrete(batch.legal_actions(0))

    def reset(self, *, seed: int | None = None, options: Options | None = None) -> tuple[NDArray[Any], Info]:
        """Begin an episode.

        Parameters
        ----------
        seed
            Seed; ``None``: continue with the next episode of the present seed.
        options
            ``episode``: which episode to begin with instead of the next one; and what the environment itself knows.

        Returns
        -------
        tuple
            The observation, and the info with the ``action_mask``.
        """
        super().reset(seed=seed)  # for those who use np_random; nothing of ours does
        observations, info = self.batch.reset(seed=seed, options=options)
        return observations[0], self._masks(info)

    def step(self, action: int | np.int64) -> tuple[NDArray[Any], float, bool, bool, Info]:
        """Carry out an action.

        Returns
        -------
        tuple
            Observation, reward, whether the episode has ended, whether it was cut off, and the info: the
            ``action_mask``, and at the end the results as ``episode``.

        Raises
        ------
        DecisionError
            If the action is illegal, or the episode has ended.
        """
        observations, rewards, terminations, truncations, info = self.batch.step(np.asarray(action).reshape(1))
        shown = self._masks(info)
        if "results" in info:
            shown["results"] = {
                name: values[0].item() for name, values in info["results"].items() if not name.startswith("_")
            }
        return observations[0], float(rewards[0]), bool(terminations[0]), bool(truncations[0]), shown

    def _masks(self, info: Info) -> Info:
        """Return the masks of the only row."""
        return {name: info[name][0] for name in self.batch.mask_names}

    def trace(self) -> Any:
        """Return the trace of the last episode: see ``trace`` of the batch."""
        return self.batch.trace()  # type: ignore[attr-defined]  # settings' batches have it, others need not

    def action_masks(self) -> BoolArray:
        """Return the mask of legal actions, shape ``(n_actions,)``; the interface of sb3-contrib."""
        return np.asarray(self.batch.action_masks()[0])

    def state_dict(self) -> StateDict:
        """Return the whole state: see `NativeVectorEnv.state_dict`."""
        return self.batch.state_dict()

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from where another environment was: see `NativeVectorEnv.load_state_dict`."""
        self.batch.load_state_dict(state)

    def close(self) -> None:
        """End the threads, if any."""
        self.batch.close()
