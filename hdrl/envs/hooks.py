"""Methods that a kind of environment defines to become a batch: see `hdrl.envs.native`."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hdrl.envs.masks import ACTION_MASK

BoolArray: TypeAlias = NDArray[np.bool_]
FloatArray: TypeAlias = NDArray[np.float64]
Info: TypeAlias = dict[str, Any]
Options: TypeAlias = dict[str, Any]
StateDict: TypeAlias = dict[str, NDArray[Any]]
"""Everything that an environment needs to continue as if it had not been interrupted: arrays by name."""


class Hooks:
    """The hooks of `hdrl.envs.native.NativeVectorEnv`: some must be filled in, some may be."""

    @abstractmethod
    def _begin(self, row: int, episode: int, seed: int, options: Options) -> None:
        """Choose the contents of a row's next episode; `_reset_rows` follows.

        - ``episode``: number of the episode, from 0 on after seeding.
        - ``seed``: 64 random bits: all that may be random in the episode depends on them.
        - ``options``: what `_read_options` made of the options of `reset` that this class does not know; empty at an
          autoreset.
        """

    def _read_options(self, options: Options, rows: list[int]) -> Options:
        """Return options of `reset` as `_begin` takes them; nothing has been changed yet if they are refused.

        Parameters
        ----------
        options
            Options of ``_option_names`` that were given.
        rows
            Rows that are going to begin.

        Raises
        ------
        OptionsError
            If one is wrong.
        """
        del rows
        return options

    @abstractmethod
    def _reset_rows(self, chosen: BoolArray) -> None:
        """Begin the episodes of the chosen rows; write their observations and masks. It leads the ``_team``."""

    @abstractmethod
    def _step_rows(self, chosen: BoolArray, actions: NDArray[np.int64]) -> tuple[int, int]:
        """Carry out actions in the chosen rows, and keep count (`hdrl.compiled.counts`); it leads the ``_team``.

        Write their observations, masks, rewards and terminations (or truncations).

        Parameters
        ----------
        actions
            An action for each of all rows; they are copied to ``_actions``.

        Returns
        -------
        tuple
            The first chosen row whose action is illegal, -1 if there is none: nothing has happened otherwise; and how
            many episodes have ended.
        """

    @abstractmethod
    def _help(self, number: int) -> None:
        """Help with `_reset_rows` and `_step_rows` in another thread until nothing has been to do for a while.

        ``chosen`` is ``_chosen`` then.

        ``number``: which of the other threads it is, from 1 on.
        """

    @abstractmethod
    def _episode_infos(self, ended: BoolArray) -> dict[str, FloatArray]:
        """Return the results of the rows whose episodes have ended; the same names every time.

        Parameters
        ----------
        ended
            Mask of the ended rows, at least one.

        Returns
        -------
        dict
            For each name values of all rows, 0 for those whose episodes have not ended.
        """

    @abstractmethod
    def _state_arrays(self) -> StateDict:
        """Return the arrays, not copies, that hold the state of the episodes, by name."""

    def _after_load(self) -> None:
        """Update the values that derive from `_state_arrays` after they have been loaded."""

    @classmethod
    def unsupported_reason(cls, machine: Any, load: Any) -> str | None:
        """Return why a machine and a load are not simulated exactly here; ``None`` if they are.

        ``machine``, ``load``: what would be simulated; their types are those that the environment takes.
        """
        del machine, load
        return None

    @classmethod
    def refuses(cls, machine: Any, load: Any) -> str | None:
        """Return `unsupported_reason`, which had this name in 0.1."""
        warnings.warn(f"{cls.__name__}.refuses is now unsupported_reason", DeprecationWarning, stacklevel=2)
        return cls.unsupported_reason(machine, load)

    mask_names: ClassVar[tuple[str, ...]] = (ACTION_MASK,)
    """Names of the masks in the info."""

    _option_names: ClassVar[frozenset[str]] = frozenset()
    """Names of the options of `reset` that `_begin` understands."""
