"""Shares of environments and batches for each worker: settings hold for all workers together."""

from __future__ import annotations

from typing import Any, TypeVar

from hdrl.base.errors import OptionsError
from hdrl.learn.config import Config, ReplayConfig
from hdrl.options.distributed import DistributedOptions

C = TypeVar("C", bound=Config)


def check_room(config: Config, options: DistributedOptions, n_envs: int, where: str) -> None:
    """Refuse a replay of apex that a few messages of the actors would fill."""
    if options.scheme != "apex" or not isinstance(config, ReplayConfig):
        return
    least = n_envs * (2 * options.push_every + 2)
    if config.capacity < least:
        raise OptionsError(
            f"{where}: learning.settings.capacity is {config.capacity}, expected at least {least} for {n_envs} "
            f"environments that send {options.push_every} steps at a time"
        )


def shared_envs(n_envs: int, n_workers: int, where: str) -> int:
    """Return the number of environments of each worker, the same for all."""
    if n_envs % n_workers:
        raise OptionsError(
            f"{where}: learning.n_envs is {n_envs}, expected a multiple of learning.distributed.workers, {n_workers}: "
            f"{-(-n_envs // n_workers) * n_workers}, for instance"
        )
    return n_envs // n_workers


def shared_config(config: C, options: DistributedOptions, where: str) -> C:
    """Return the settings of one worker: its share of each batch, of what is remembered, and of the steps to go.

    Parameters
    ----------
    config
        The settings of all workers together.
    options
        Number of workers. By ``apex`` nothing is shared: one learner has all of it.
    where
        Source of the options, for messages.

    Raises
    ------
    OptionsError
        If a batch cannot be shared evenly.
    """
    n = options.workers
    if options.scheme == "apex" or n == 1:
        return config
    changes: dict[str, Any] = {}
    for name in ("batch_size", "minibatch_size"):
        size = getattr(config, name, None)
        if size is None:
            continue
        if size % n:
            raise OptionsError(
                f"{where}: learning.settings.{name} is {size}, expected a multiple of learning.distributed.workers, {n}"
            )
        changes[name] = size // n
    if isinstance(config, ReplayConfig):
        changes |= {"capacity": max(2, config.capacity // n), "warm_up": -(-config.warm_up // n)}
    if hasattr(config, "epsilon_steps"):
        changes["epsilon_steps"] = config.epsilon_steps // n
    return config.model_copy(update=changes)
