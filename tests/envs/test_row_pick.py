"""Picking rows: the layout, the two masks, and what the generic pieces do not know."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from hdrl.base.errors import DecisionError, OptionsError
from hdrl.compiled.counts import ALL_LEGAL
from hdrl.envs.row_pick import ROW_MASK, RowLayout, RowPickEnv, RowPickVectorEnv
from hdrl.settings.batch.envs.job_pick import JobPickEnv, JobPickVectorEnv

ROOT = Path(__file__).parents[2]

BATCH_JOBS = (
    "settings",
    "platform",
    "workload",
    "simulation",
    "policies",
    "metrics",
    "batsim",
    "kernel.state",
    "kernel.engine",
    "kernel.pool",
)


class Countdown(RowPickVectorEnv):
    """Each row holds a number; picking one takes it away, passing costs 1; the episode ends when all are gone."""

    def __init__(self, num_envs: int = 1, **arguments: Any) -> None:
        super().__init__(num_envs, RowLayout(3, 1, ("pass",)), **arguments)

    def _begin(self, row: int, episode: int, seed: int, options: dict[str, Any]) -> None:
        del episode, options
        self._row_masks[row] = 0
        self._row_masks[row, : 1 + seed % 3] = 1

    def _write(self, row: int) -> None:
        self._observations[row, :, 0] = self._row_masks[row] / (1.0 + np.arange(3))
        self._masks[row, :3] = self._row_masks[row]
        self._masks[row, 3] = 1
        if not self._row_masks[row].any():
            self._masks[row] = [1, 0, 0, 0]

    def _reset_rows(self, chosen: Any) -> None:
        for row in np.flatnonzero(chosen):
            self._write(row)

    def _step_rows(self, chosen: Any, actions: Any) -> tuple[int, int]:
        self._actions[:] = actions
        rows = np.flatnonzero(chosen).tolist()
        illegal = [row for row in rows if not self._masks[row, actions[row]]]
        if illegal:
            return illegal[0], 0
        for row in rows:
            if self.layout.name_of(int(actions[row])) is None:
                self._row_masks[row, actions[row]] = 0
            self._rewards[row] = -float(actions[row] == self.layout.action("pass"))
            self._terminations[row] = self._has_ended[row] = not self._row_masks[row].any()
            self._write(row)
            self._lengths[row] += 1
            self._returns[row] += self._rewards[row]
        return ALL_LEGAL, int(np.count_nonzero(self._has_ended))

    def _help(self, number: int) -> None:
        raise NotImplementedError(number)

    def _episode_infos(self, ended: Any) -> dict[str, Any]:
        return {"objective": np.where(ended, -self._returns, 0.0)}

    def _state_arrays(self) -> dict[str, Any]:
        return {"row_masks": self._row_masks}


def test_the_layout_says_what_there_is() -> None:
    layout = RowLayout(4, 3, ("wait", "stop"))
    assert layout.n_actions == layout.action_space.n == 6
    assert layout.observation_space.shape == (4, 3)
    assert [layout.name_of(action) for action in range(6)] == [None] * 4 + ["wait", "stop"]
    assert [layout.action(name) for name in ("wait", "stop")] == [4, 5]
    with pytest.raises(OptionsError, match="no extra action 'wat'; did you mean 'wait'"):
        layout.action("wat")


def test_a_batch_and_a_single_environment_tell_both_masks() -> None:
    batch = Countdown(2)
    _, info = batch.reset(seed=0)
    assert info[ROW_MASK].shape == (2, 3)
    assert info["_row_mask"].all()
    env = RowPickEnv(Countdown(1, autoreset_mode=AutoresetMode.DISABLED))
    observation, info = env.reset(seed=0)
    n = int(info[ROW_MASK].sum())
    assert env.row_mask().tolist() == (info[ROW_MASK] != 0).tolist() == [row < n for row in range(3)]
    assert observation.shape == (3, 1)
    assert env.layout.n_actions == env.action_space.n
    _, reward, ended, _, info = env.step(3)
    assert (reward, ended, info["action_mask"][3]) == (-1.0, False, 1)
    for _ in range(n):
        _, reward, ended, _, info = env.step(int(np.argmax(info[ROW_MASK])))
    assert ended
    assert info["results"]["objective"] == 1.0
    assert not info[ROW_MASK].any()
    batch.reset(seed=2)
    empty = np.argmin(batch.row_masks(), axis=1)
    with pytest.raises(DecisionError, match="is illegal here"):
        batch.step(empty)


@pytest.mark.parametrize("backfilling", ["easy", "easy_priority"])
def test_a_job_may_be_seen_that_cannot_be_picked(backfilling: str) -> None:
    env = JobPickVectorEnv.of(3, n_procs=32, n_jobs=60, max_jobs=16, backfilling=backfilling, skip=True)
    rng = np.random.default_rng(0)
    observations, info = env.reset(seed=1)
    differed = False
    for _ in range(300):
        rows, legal = info[ROW_MASK] != 0, info["action_mask"][:, :16] != 0
        # A row without a job is 0 1 1 1 1 1 1 0.
        is_padding = (observations == np.array([0, 1, 1, 1, 1, 1, 1, 0], dtype=np.float32)).all(axis=2)
        assert np.array_equal(rows, ~is_padding)
        over = ~rows.any(axis=1)
        assert not (legal & ~rows)[~over].any()
        differed = differed or bool((rows & ~legal).any())
        actions = np.where(info["action_mask"], rng.random(info["action_mask"].shape), -1).argmax(axis=1)
        observations, _, _, _, info = env.step(actions)
    assert differed == (backfilling == "easy_priority")
    other = JobPickVectorEnv.of(3, n_procs=32, n_jobs=60, max_jobs=16, backfilling=backfilling, skip=True)
    other.load_state_dict(env.state_dict())
    assert np.array_equal(env.row_masks(), other.row_masks())
    assert env.layout.extra_actions == ("skip",)
    single = JobPickEnv(n_procs=32, n_jobs=20)
    single.reset(seed=0)
    assert single.row_mask().sum() == 1


def imported_by(module: str) -> set[str]:
    """Return the modules of hdrl that a module imports, and those that these import."""
    found: set[str] = set()
    waiting = [module]
    while waiting:
        path = ROOT / f"{waiting.pop().replace('.', '/')}.py"
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if path.is_file() else []
        names = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
        fresh = {name for name in names if name.startswith("hdrl.")} - found
        found |= fresh
        waiting += fresh
    return found


@pytest.mark.parametrize("name", ["native", "single", "masks", "row_pick", "helpers", "sb3"])
def test_the_generic_pieces_know_nothing_of_batch_jobs(name: str) -> None:
    """Environments of other settings are made of them."""
    found = {one.removeprefix("hdrl.") for one in imported_by(f"hdrl.envs.{name}")}
    assert {one for one in found if any(one == known or one.startswith(f"{known}.") for known in BATCH_JOBS)} == set()
