"""Checks that every registered environment must pass, single and as a batch.

They use what Gymnasium defines and what `hdrl.envs.native` adds to it: masks, seeds, saving. What fails raises an
`AssertionError` that says where.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import env_checker
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from hdrl.base.errors import DecisionError
from hdrl.base.seeding import stream
from hdrl.envs import NativeVectorEnv, SingleEnv
from hdrl.envs.row_pick import ROW_MASK, RowPickVectorEnv

_N_ROWS = 3


def _require(condition: object, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def _equal(left: Any, right: Any) -> bool:
    """Return whether two results are equal to the last bit."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(left[name], right[name]) for name in left)
    if left is None or right is None:
        return left is right
    a, b = np.asarray(left), np.asarray(right)
    if a.dtype == object:
        return a.shape == b.shape and all(_equal(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True))
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def legal_actions(masks: NDArray[Any], rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw a legal action for each row."""
    return np.asarray(np.where(masks, rng.random(masks.shape), -1.0).argmax(axis=1), dtype=np.int64)


def _check_rows(env: RowPickVectorEnv, info: dict[str, Any], where: str) -> None:
    """Check the row mask of a batch in which rows are picked."""
    rows, mask = info[ROW_MASK], info["action_mask"]
    n_rows = env.layout.n_rows
    _require(rows.dtype == np.int8 and rows.shape == (env.num_envs, n_rows), f"{where}: row mask of {rows.dtype}")
    _require(np.array_equal(rows != 0, env.row_masks()), f"{where}: row_masks() differs from the info")
    is_empty_picked = (mask[:, :n_rows] != 0) & (rows == 0)
    # After the end, action 0 alone is legal, and is ignored.
    _require(not np.any(is_empty_picked[:, 1:]), f"{where}: a row can be picked that holds nothing")


class _Checker:
    """Makes the environments of one id and one set of arguments."""

    def __init__(self, name: str, seed: int, n_steps: int, arguments: dict[str, Any]) -> None:
        self.name, self.seed, self.n_steps, self.arguments = name, seed, n_steps, arguments

    def single(self) -> SingleEnv:
        env = gymnasium.make(self.name, **self.arguments).unwrapped
        _require(isinstance(env, SingleEnv), f"{self.name} is not a SingleEnv")
        return env  # type: ignore[return-value]

    def batch(self, n_rows: int = _N_ROWS, **more: Any) -> NativeVectorEnv:
        env = gymnasium.make_vec(self.name, num_envs=n_rows, **self.arguments, **more)
        _require(isinstance(env, NativeVectorEnv), f"{self.name} is not a NativeVectorEnv")
        return env  # type: ignore[return-value]

    def rng(self, what: str) -> np.random.Generator:
        return stream(self.seed, f"check_env/{what}")

    # -------------------------------------------------------------- what is checked

    def gymnasiums_own_checks(self) -> None:
        env_checker.check_env(self.single(), skip_render_check=True)

    def observations_and_masks(self) -> None:
        env, rng = self.batch(), self.rng("observations")
        observations, info = env.reset(seed=self.seed)
        for step in range(self.n_steps):
            where = f"step {step}"
            _require(observations in env.observation_space, f"{where}: an observation lies outside of its space")
            _require(np.all(np.isfinite(observations)), f"{where}: an observation is not finite")
            mask = info["action_mask"]
            _require(
                mask.dtype == np.int8 and mask.shape == (env.num_envs, env.n_actions), f"{where}: mask of {mask.dtype}"
            )
            _require(np.all((mask == 0) | (mask == 1)), f"{where}: a mask holds something else than 0 and 1")
            _require(np.all(mask.any(axis=1)), f"{where}: no action is legal")
            _require(np.array_equal(mask != 0, env.action_masks()), f"{where}: action_masks() differs from the info")
            if isinstance(env, RowPickVectorEnv):
                _check_rows(env, info, where)
            observations, rewards, _, _, info = env.step(legal_actions(mask, rng))
            _require(np.all(np.isfinite(rewards)), f"{where}: a reward is not finite")

    def legal_and_illegal_actions(self) -> None:
        env, other, rng = self.batch(1), self.batch(1), self.rng("actions")
        other.reset(seed=self.seed + 1)
        _, info = env.reset(seed=self.seed)
        for step in range(min(self.n_steps, 40)):
            before = env.state_dict()
            for action in range(env.n_actions):
                other.load_state_dict(before)
                if info["action_mask"][0, action]:
                    other.step(np.array([action]))
                else:
                    self._check_refusal(other, action, step)
            _require(_equal(env.state_dict(), before), f"step {step}: another environment's steps changed this one")
            info = self._go_on(env, legal_actions(info["action_mask"], rng))

    def _check_refusal(self, env: NativeVectorEnv, action: int, step: int) -> None:
        before = env.state_dict()
        try:
            env.step(np.array([action]))
        except DecisionError as error:
            _require("\n" not in str(error), f"step {step}: the error has more than one line")
            _require(_equal(env.state_dict(), before), f"step {step}: a refused action changed something")
        else:
            raise AssertionError(f"step {step}: the illegal action {action} was carried out")

    def _go_on(self, env: NativeVectorEnv, actions: NDArray[np.int64]) -> dict[str, Any]:
        """Step, and once more where an episode has ended (its mask does not count); return the info."""
        _, _, terminations, truncations, info = env.step(actions)
        if np.any(terminations | truncations):
            info = env.step(np.zeros(env.num_envs, dtype=np.int64))[4]
        return info

    def determinism(self) -> None:
        self._same(self.batch(), self.batch(), "two environments with one seed")
        self._same(self.batch(), self.batch(n_threads=2), "two threads")
        self._same(self.batch(), self.batch(copy=False), "without copies")

    def _same(self, left: NativeVectorEnv, right: NativeVectorEnv, what: str) -> None:
        rng = self.rng("determinism")
        results: list[Any] = [env.reset(seed=self.seed) for env in (left, right)]
        for step in range(self.n_steps):
            _require(all(_equal(a, b) for a, b in zip(*results, strict=True)), f"{what}: results differ at step {step}")
            actions = legal_actions(left.action_masks(), rng)
            results = [env.step(actions) for env in (left, right)]
        left.close()
        right.close()

    def fresh_resets(self) -> None:
        used, fresh, rng = self.batch(), self.batch(), self.rng("resets")
        used.reset(seed=self.seed + 7)
        for _ in range(self.n_steps):
            used.step(legal_actions(used.action_masks(), rng))
        self._same(used, fresh, "a reset environment beside a fresh one")
        left, right = used.reset(), fresh.reset()
        _require(_equal(left[0], right[0]), "after the same episodes, a reset without a seed differs")

    def batch_against_singles(self) -> None:
        batch, rng = self.batch(autoreset_mode=AutoresetMode.SAME_STEP), self.rng("singles")
        singles = [self.single() for _ in range(batch.num_envs)]
        observations, info = batch.reset(seed=self.seed)
        for row, env in enumerate(singles):
            observation, alone = env.reset(seed=self.seed + row)
            same = _equal(observations[row], observation) and _equal(info["action_mask"][row], alone["action_mask"])
            _require(same, f"row {row}: a single environment begins otherwise")
        for step in range(self.n_steps):
            actions = legal_actions(info["action_mask"], rng)
            observations, rewards, terminations, truncations, info = batch.step(actions)
            for row, env in enumerate(singles):
                observation, reward, terminated, truncated, _ = env.step(int(actions[row]))
                ended = (bool(terminations[row]), bool(truncations[row]))
                _require(
                    (terminated, truncated) == ended, f"row {row}, step {step}: a single environment ends otherwise"
                )
                if terminated or truncated:
                    _require(_equal(info["final_obs"][row], observation), f"row {row}: the final observations differ")
                    observation, _ = env.reset()
                same = _equal(observations[row], observation) and rewards[row] == reward
                _require(same, f"row {row}, step {step}: a single environment does something else")

    def autoreset_modes(self) -> None:
        results = []
        for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
            env = self.batch(autoreset_mode=mode)
            env.reset(seed=self.seed)
            rngs = [self.rng(f"modes/{row}") for row in range(env.num_envs)]
            results.append(self._episodes(env, rngs))
        for row, (left, right) in enumerate(zip(*results, strict=True)):
            n = min(len(left), len(right))
            _require(left[:n] == right[:n], f"row {row}: episodes under NEXT_STEP and SAME_STEP differ")

    def _episodes(self, env: NativeVectorEnv, rngs: list[np.random.Generator]) -> list[list[dict[str, float]]]:
        """Return the results of the episodes of each row, whose actions come from a generator of its own."""
        episodes: list[list[dict[str, float]]] = [[] for _ in rngs]
        ignored = np.zeros(env.num_envs, dtype=np.bool_)
        at_once = env.autoreset_mode is AutoresetMode.SAME_STEP
        for _ in range(self.n_steps):
            masks, actions = env.action_masks(), np.zeros(env.num_envs, dtype=np.int64)
            for row in np.flatnonzero(~ignored).tolist():
                actions[row] = legal_actions(masks[row : row + 1], rngs[row])[0]
            _, _, terminations, truncations, info = env.step(actions)
            ended = terminations | truncations
            shown = info.get("final_info", {}) if at_once else info
            for row in np.flatnonzero(ended).tolist():
                names = [name for name in shown["results"] if not name.startswith("_")]
                episodes[row].append({name: shown["results"][name][row].item() for name in names})
            if not at_once:
                ignored = ended
        return episodes

    def saving(self) -> None:
        for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
            other = self.batch(autoreset_mode=mode)

            def loaded(env: NativeVectorEnv, other: NativeVectorEnv = other) -> NativeVectorEnv:
                other.load_state_dict(env.state_dict())
                return other

            self._twins(self.batch(autoreset_mode=mode), loaded, f"{mode.value}, loaded")

    def copies(self) -> None:
        for n_threads in (1, 2):
            self._twins(self.batch(n_threads=n_threads), copy.deepcopy, f"{n_threads} threads, copied")

    def _twins(self, env: NativeVectorEnv, twin_of: Callable[[NativeVectorEnv], NativeVectorEnv], what: str) -> None:
        """Check that a twin that is made on the way does what the environment itself does."""
        rng = self.rng("twins")
        env.reset(seed=self.seed)
        for _ in range(self.n_steps // 2):
            env.step(legal_actions(env.action_masks(), rng))
        other = twin_of(env)
        for step in range(self.n_steps):
            actions = legal_actions(env.action_masks(), rng)
            same = all(_equal(a, b) for a, b in zip(env.step(actions), other.step(actions), strict=True))
            _require(same, f"{what}: {step} steps later, results differ")
        env.close()
        other.close()


def check_env(name: str, *, seed: int = 0, n_steps: int = 200, **arguments: Any) -> None:
    """Check an environment, single and as a batch.

    Gymnasium's own checks; observations within their space, finite, masks good; every legal action can be taken and
    every illegal one is refused with one line and without effect; equal seeds give equal bytes, whatever the number of
    threads; a reset environment is as good as a new one; a batch does what single environments do; both modes of
    autoreset give the same episodes; a saved state continues as if nothing had happened, and so does a copy.

    Parameters
    ----------
    name
        Its id, for instance ``"hdrl/JobPick-v0"``.
    n_steps
        Steps of each check; several episodes should fit into them.

    Raises
    ------
    AssertionError
        If a check fails.
    """
    checker = _Checker(name, seed, n_steps, arguments)
    checks: tuple[Callable[[], None], ...] = (
        checker.gymnasiums_own_checks,
        checker.observations_and_masks,
        checker.legal_and_illegal_actions,
        checker.determinism,
        checker.fresh_resets,
        checker.batch_against_singles,
        checker.autoreset_modes,
        checker.saving,
        checker.copies,
    )
    for check in checks:
        try:
            check()
        except AssertionError as error:
            what = check.__name__.replace("_", " ")
            raise AssertionError(f"{name}: {what}: {error}") from error
