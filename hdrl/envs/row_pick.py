"""Pick a row of a table, or one of a few extra actions: the choice that environments of all kinds have in common.

A row is something that may be picked: a waiting job, a job in a place, a ready task on a kind of unit. The observation
is the table, ``(n_rows, n_columns)``; action ``i`` picks row ``i``, and extra actions (*skip*, *wait*) follow the rows.
Two masks go with it: the *row mask* says which rows hold something, the *action mask* which actions are legal now. They
differ: a job may be seen that cannot be picked.

What is in the rows, and what a pick does, is up to the subclass. Nothing here knows what is scheduled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from hdrl.base.errors import OptionsError, suggest
from hdrl.base.rowspace import RowDiscrete
from hdrl.envs.hooks import BoolArray, Info
from hdrl.envs.native import NativeVectorEnv
from hdrl.envs.single import SingleEnv

ROW_MASK = "row_mask"
"""Key of the row mask in the info: int8, shape ``(n_rows,)``, of a batch ``(num_envs, n_rows)``."""


@dataclass(frozen=True, slots=True)
class RowLayout:
    """Layout of the table, and the actions.

    Attributes
    ----------
    n_rows
        Rows of the table, at least 1.
    n_columns
        Columns of the table, at least 1.
    extra_actions
        Names of the actions that pick no row, in their order.
    low, high
        Bounds of all values.
    n_per_row
        Number of actions of each row: action ``k * n_rows + i`` is the ``k``-th of row ``i``.
    """

    n_rows: int
    n_columns: int
    extra_actions: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 1.0
    n_per_row: int = 1

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return self.n_row_actions + len(self.extra_actions)

    @property
    def n_row_actions(self) -> int:
        """Number of actions that belong to rows."""
        return self.n_rows * self.n_per_row

    @property
    def observation_space(self) -> spaces.Box:
        """The space of one environment's observation: float32, shape ``(n_rows, n_columns)``."""
        return spaces.Box(self.low, self.high, (self.n_rows, self.n_columns), np.float32)

    @property
    def action_space(self) -> spaces.Discrete:
        """The space of one environment's action; with several actions for each row a `RowDiscrete`."""
        return spaces.Discrete(self.n_actions) if self.n_per_row == 1 else RowDiscrete(self.n_actions, self.n_per_row)

    def action(self, name: str) -> int:
        """Return the number of an extra action.

        Raises
        ------
        OptionsError
            If there is none of that name.
        """
        if name not in self.extra_actions:
            raise OptionsError(f"no extra action {name!r}; {suggest(name, self.extra_actions)}")
        return self.n_row_actions + self.extra_actions.index(name)

    def name_of(self, action: int) -> str | None:
        """Return the name of an extra action, ``None`` for one that picks a row."""
        return None if action < self.n_row_actions else self.extra_actions[action - self.n_row_actions]


class RowPickVectorEnv(NativeVectorEnv):
    """A batch of environments in which rows of a table are picked.

    A subclass does what `NativeVectorEnv` asks for, and writes ``_row_masks`` (int8, shape ``(num_envs, n_rows)``)
    where it writes ``_masks``.

    Attributes
    ----------
    layout
        The table and the actions.

    Notes
    -----
    ``info["row_mask"]`` says which rows hold something, beside ``info["action_mask"]``.
    """

    mask_names: ClassVar[tuple[str, ...]] = (*NativeVectorEnv.mask_names, ROW_MASK)

    def __init__(
        self,
        num_envs: int,
        layout: RowLayout,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        n_threads: int = 1,
    ) -> None:
        super().__init__(
            num_envs,
            layout.observation_space,
            layout.action_space,
            autoreset_mode=autoreset_mode,
            copy=copy,
            n_threads=n_threads,
        )
        self.layout = layout
        self._row_masks = np.zeros((self.num_envs, layout.n_rows), dtype=np.int8)

    def row_masks(self) -> BoolArray:
        """Return the mask of the filled rows, shape ``(num_envs, n_rows)``."""
        return np.not_equal(self._row_masks, 0)

    def _mask_info(self, chosen: BoolArray) -> Info:
        info = super()._mask_info(chosen)
        info[ROW_MASK] = self._shown(self._row_masks)
        info["_row_mask"] = info["_action_mask"]
        return info


class RowPickEnv(SingleEnv):
    """One environment in which rows of a table are picked: a batch of one."""

    batch: RowPickVectorEnv

    @property
    def layout(self) -> RowLayout:
        """The table and the actions."""
        return self.batch.layout

    def row_mask(self) -> BoolArray:
        """Return the mask of the filled rows, shape ``(n_rows,)``."""
        return np.asarray(self.batch.row_masks()[0])
