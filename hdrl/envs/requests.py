"""Checks of users' arguments for a batch of environments."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from types import NoneType

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from hdrl.base.errors import NoPictures, OptionsError, suggest
from hdrl.envs.seeds import checked_seed

MAX_EPISODE = 2**62
"""Episodes have numbers below it: no environment can count beyond what an int64 holds."""


def read_autoreset_mode(mode: AutoresetMode | str) -> AutoresetMode:
    """Return a mode of autoreset by its name.

    Parameters
    ----------
    mode
        A mode, or the text ``"NextStep"``, ``"SameStep"`` or ``"Disabled"``.

    Raises
    ------
    OptionsError
        If there is no such mode.
    """
    known = {one.value: one for one in AutoresetMode}
    if isinstance(mode, AutoresetMode):
        return mode
    if not isinstance(mode, str) or mode not in known:
        raise OptionsError(f"autoreset_mode is {mode!r}; {suggest(str(mode), known)}")
    return known[mode]


def check_choice(what: str, name: object, known: Collection[str]) -> None:
    """Refuse a name that is not known."""
    if not isinstance(name, str) or name not in known:
        raise OptionsError(f"{what} is {name!r}; {suggest(str(name), known)}")


def chosen_errors(errors: Iterable[str] | None, known: Collection[str], usual: Collection[str]) -> tuple[str, ...]:
    """Return the names of the errors of another program that are reproduced.

    Parameters
    ----------
    errors
        Their names, or one; ``None``: the usual ones.
    known, usual
        All of its errors, and those that are reproduced unless errors are named.

    Raises
    ------
    OptionsError
        If there is no such error.
    """
    if not isinstance(errors, (Iterable, NoneType)):
        raise OptionsError(f"errors is {errors!r}, expected a list of {', '.join(known)}")
    names = tuple(usual) if errors is None else (errors,) if isinstance(errors, str) else tuple(errors)
    for name in names:
        if name not in known:
            raise OptionsError(f"errors holds {name!r}; {suggest(str(name), known)}")
    return names


def rows_to_reset(mask: object, num_envs: int) -> NDArray[np.bool_]:
    """Return the mask of the rows that begin an episode.

    Parameters
    ----------
    mask
        Booleans of shape ``(num_envs,)`` with at least one true; ``None``: all rows.

    Raises
    ------
    OptionsError
        If it is something else.
    """
    if mask is None:
        return np.ones(num_envs, dtype=np.bool_)
    array = np.asarray(mask)
    if array.shape != (num_envs,) or array.dtype != np.bool_ or not array.any():
        raise OptionsError(
            f"reset_mask is of {array.dtype} and shape {array.shape},"
            f" expected booleans of shape {(num_envs,)} with at least one true"
        )
    return array


def check_flags(**flags: object) -> None:
    """Refuse flags that are neither true nor false: a text such as ``"no"`` would count as true."""
    for name, value in flags.items():
        if not isinstance(value, (bool, np.bool_)):
            raise OptionsError(f"{name} is {value!r}, expected True or False")


def check_texts(**texts: object) -> None:
    """Refuse names that are not text."""
    for name, value in texts.items():
        if not isinstance(value, str):
            raise OptionsError(f"{name} is {value!r}, expected a name")


def checked_numbers(name: str, value: object) -> tuple[float, ...]:
    """Return a list of numbers; raise OptionsError if it is something else."""
    try:
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise TypeError
        return tuple(map(float, value))
    except (TypeError, ValueError):
        raise OptionsError(f"{name} is {value!r}, expected a list of numbers") from None


def checked_count(name: str, value: object, *, or_else: str = "") -> int:
    """Return a requested number of something.

    Parameters
    ----------
    value
        A whole number of at least 1.
    or_else
        Alternative value, for the message.

    Raises
    ------
    OptionsError
        If it is something else.
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise OptionsError(f"{name} is {value!r}, expected a whole number of at least 1{or_else}")
    return int(value)


def check_render_mode(render_mode: object) -> None:
    """Refuse to make pictures."""
    if render_mode is not None:
        raise NoPictures(f"render_mode is {render_mode!r}, expected None: there are no pictures")


def check_reset_options(options: Iterable[str], more: Iterable[str]) -> None:
    """Refuse unknown options of a reset.

    Parameters
    ----------
    more
        Names that the environment knows in addition to ``reset_mask`` and ``episode``.

    Raises
    ------
    OptionsError
        If there is another one.
    """
    known = ("episode", *sorted(more))
    for name in options:
        if name not in known:
            raise OptionsError(f"no reset option {name!r}; {suggest(str(name), ('reset_mask', *known))}")


def seed_of_each_row(seed: int | Sequence[int | None] | None, num_envs: int) -> list[int | None]:
    """Return the seed of each row, ``None`` where none is given.

    Parameters
    ----------
    seed
        The seed of the first row, the others following; or one of each row; or ``None``.

    Raises
    ------
    OptionsError
        If one is no seed, or their number differs.
    """
    if seed is None:
        return [None] * num_envs
    if isinstance(seed, (int, np.integer, str)) or not isinstance(seed, Iterable):
        first = checked_seed(seed)
        return [checked_seed(first + row) for row in range(num_envs)]
    seeds = [None if one is None else checked_seed(one) for one in seed]
    if len(seeds) != num_envs:
        raise OptionsError(f"seed has {len(seeds)} numbers, expected one for each of {num_envs} rows")
    return seeds


def episode_of_each_row(episodes: object, num_envs: int) -> NDArray[np.int64]:
    """Return the number of the episode with which each row is to begin, shape ``(num_envs,)``.

    Raises
    ------
    OptionsError
        If it is something else.
    """
    array = np.asarray(episodes)
    is_number = array.dtype.kind in "iu" and array.shape in ((), (num_envs,))
    if not is_number or not np.all((array >= 0) & (array < MAX_EPISODE)):
        raise OptionsError(
            f"episode is {episodes!r}, expected a number from 0 to 2^62 - 1, or one for each of {num_envs} rows"
        )
    return np.broadcast_to(array, num_envs).astype(np.int64)
