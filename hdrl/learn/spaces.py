"""Spaces as the agents need them, and as JSON."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from hdrl.base.errors import LearningError
from hdrl.base.rowspace import RowDiscrete, n_per_row_of

LARGEST_OBSERVATION = 10**8
"""Numbers of an observation that a description may ask for: more of them do not fit into any memory."""

_LARGEST = float(np.finfo(np.float32).max)


def observation_shape_of(space: gym.Space[Any]) -> tuple[int, ...]:
    """Return the shape of the observations of a space.

    Raise LearningError if it is no `gymnasium.spaces.Box`, or an empty one.
    """
    if not isinstance(space, spaces.Box) or math.prod(space.shape) == 0:
        raise LearningError(f"observations are {shown(space)}, expected a Box with at least one number")
    return tuple(space.shape)


def n_actions_of(space: gym.Space[Any]) -> int:
    """Return the number of actions of a space.

    Raise LearningError if it is no `gymnasium.spaces.Discrete`, or does not begin with 0.
    """
    if not isinstance(space, spaces.Discrete) or int(space.start) != 0:
        raise LearningError(f"actions are {shown(space)}, expected a Discrete that begins with 0")
    return int(space.n)


def n_numbers_of(space: gym.Space[Any]) -> int:
    """Return the number of numbers of an action of a space.

    Raise LearningError if it is no `gymnasium.spaces.Box` of one dimension.
    """
    if not isinstance(space, spaces.Box) or len(space.shape) != 1 or space.shape[0] == 0:
        raise LearningError(
            f"actions are {shown(space)}, expected a Box of one dimension, as in the environment job_index"
        )
    return int(space.shape[0])


def action_size_of(space: gym.Space[Any]) -> int:
    """Return `n_numbers_of` a Box, and `n_actions_of` any other space."""
    return n_numbers_of(space) if isinstance(space, spaces.Box) else n_actions_of(space)


def space_as_json(space: gym.Space[Any]) -> dict[str, Any]:
    """Describe a Box or a Discrete by what JSON can hold; raise LearningError for other spaces.

    Bounds of a Box are two numbers if they are the same everywhere.
    """
    if isinstance(space, spaces.Discrete):
        n_per_row = n_per_row_of(space)
        plain = {"kind": "Discrete", "n": n_actions_of(space)}
        return plain if n_per_row == 1 else {**plain, "n_per_row": n_per_row}
    shape = observation_shape_of(space)
    assert isinstance(space, spaces.Box)  # noqa: S101 - all others are refused
    bounds = {name: _bound(array) for name, array in (("low", space.low), ("high", space.high))}
    return {"kind": "Box", "shape": list(shape), "dtype": str(space.dtype), **bounds}


def space_from_json(data: dict[str, Any]) -> gym.Space[Any]:
    """Make the space that `space_as_json` has described; raise LearningError if it describes none."""
    try:
        if data["kind"] == "Discrete":
            n, n_per_row = int(data["n"]), int(data.get("n_per_row", 1))
            return spaces.Discrete(n) if n_per_row == 1 else RowDiscrete(n, n_per_row)
        shape = tuple(int(n) for n in data["shape"])
        if math.prod(shape) > LARGEST_OBSERVATION:
            raise ValueError(f"a shape of {shape} has more than {LARGEST_OBSERVATION:,} numbers")
        dtype = np.dtype(data["dtype"])
        with np.errstate(over="ignore"):  # a bound that is too large becomes infinite, which is refused below or holds
            low, high = (
                np.broadcast_to(np.array(data[name], dtype=np.float64), shape).astype(dtype) for name in ("low", "high")
            )
        return spaces.Box(low, high, shape=shape, dtype=dtype.type)
    except (KeyError, TypeError, ValueError, OverflowError, AssertionError, SyntaxError) as error:
        message = " ".join(str(error).split())
        raise LearningError(f"the description of a space is wrong: {message[:160]}") from None


def check_same_spaces(
    expected: tuple[gym.Space[Any], gym.Space[Any]], found: tuple[gym.Space[Any], gym.Space[Any]], what: str
) -> None:
    """Raise LearningError if the spaces of an environment are not those that an agent expects.

    ``what`` says where the agent comes from. Shapes and numbers of actions count.
    """
    if observation_shape_of(expected[0]) != observation_shape_of(found[0]):
        raise LearningError(
            f"{what}: made for observations {shown(expected[0])}, but the environment's are {shown(found[0])}; "
            "they depend on the machine and on the environment's arguments"
        )
    kinds = {isinstance(space, spaces.Box) for space in (expected[1], found[1])}
    if len(kinds) > 1 or action_size_of(expected[1]) != action_size_of(found[1]):
        raise LearningError(
            f"{what}: made for actions {shown(expected[1])}, but the environment's are {shown(found[1])}"
        )


def shown(space: gym.Space[Any]) -> str:
    """Return a short name of a space, for messages."""
    if isinstance(space, spaces.Box):
        return f"Box{tuple(space.shape)}"
    if isinstance(space, spaces.Discrete):
        start = f", start={int(space.start)}" if int(space.start) else ""
        return f"Discrete({int(space.n)}{start})"
    return type(space).__name__


def _bound(array: np.ndarray[Any, Any]) -> float | list[Any]:
    """Return one number for a bound that is the same everywhere; infinities become the largest number."""
    finite = np.nan_to_num(array.astype(np.float64), posinf=_LARGEST, neginf=-_LARGEST)
    first = float(finite.flat[0])
    return first if bool((finite == first).all()) else finite.tolist()
