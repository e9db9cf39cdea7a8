"""Simulation for training, validation and test of an agent: machine, jobs and environment."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from hdrl.base.errors import OptionsError
from hdrl.base.windows import Span, range_of_shares
from hdrl.experiment.plan import Plan, plan_of
from hdrl.experiment.recognition import generator_seed, sketch_of
from hdrl.experiment.run.inputs import parse_options
from hdrl.experiment.train.environments import environment_of, fingerprints_of, run_length_of
from hdrl.experiment.train.learning import environment_errors
from hdrl.options.file import OptionsFile
from hdrl.setting import Load, Machine

Share = tuple[int, int]
"""Whose configurations: the number of a worker from 0, and how many there are."""


class TrainingWorld:
    """A machine, its load, and the environment in which an agent decides about it."""

    def __init__(self, plan: Plan[OptionsFile]) -> None:
        self.options, self.setting = plan.request, plan.setting
        self.machine, self.load = plan.machine, plan.load
        self.spec = environment_of(self.options, self.setting)

    def batch(self, part: str, n_envs: int, share: Share | None = None) -> Any:
        """Make a batch of environments.

        ``part`` is ``"train"`` or ``"validation"``; ``share`` says which of its configurations (``None``: all).
        """
        self.spec.check_exact(self.machine, self.load, self.options.where)
        arguments = _episode_arguments(self.options, part, self.load)
        if share is not None:
            arguments |= {"part": self._shares(share[1])[share[0]]}
        if part == "train":
            arguments |= self._imitation_arguments()
        with self._argument_errors():
            return self.spec.batch(n_envs, self.machine, self.load, **arguments)

    def _imitation_arguments(self) -> dict[str, Any]:
        """Return the arguments with the policy to imitate, and the windows to learn from."""
        learning = self.options.learning
        imitation, filtered = learning.imitation, learning.episodes.filter
        requested: dict[str, Any] = {}
        if imitation is not None:
            requested["guide"] = imitation.policy
        if filtered is not None:
            requested["keeps"] = (filtered.priority, *(filtered.range or ()))
        for name, key in (("guide", "learning.imitation"), ("keeps", "learning.episodes.filter")):
            if name in requested and name not in self.spec.spec.given:
                raise OptionsError(
                    f"{self.options.where}: {key}: {self.spec.id} has none, expected learning.environment 'job_pick'"
                )
        return requested

    def check_shares(self, n: int, what: str = "allotment") -> None:
        """Refuse to share the configurations to train on among more workers than there are, or in pieces too short.

        ``what`` is the key of ``learning.distributed`` that asks for it.
        """
        options, episodes = self.options, self.options.learning.episodes
        shares = self._shares(n)
        value = getattr(options.learning.distributed, what)
        holder = "those of worker" if what == "allotment" else "configuration"
        if isinstance(episodes.start, int):
            raise OptionsError(
                f"{options.where}: learning.episodes.start is {episodes.start:,}, an index in one configuration alone, "
                f"expected 'random' or 'consecutive' with learning.distributed.{what} {value!r}"
            )
        for number, (first, last) in enumerate(shares):
            if last - first < (episodes.most_jobs or 1):
                raise OptionsError(
                    f"{options.where}: learning.distributed.{what} is {value!r}, but {holder} {number} "
                    f"hold{'' if what == 'allotment' else 's'} {last - first:,} jobs, expected at least "
                    f"learning.episodes.n_jobs = {episodes.most_jobs:,}"
                )

    def _shares(self, n: int) -> list[Span]:
        """Return the part to train on in n pieces that begin where configurations do."""
        begins = self._begins()
        if len(begins) < n:
            raise OptionsError(
                f"{self.options.where}: learning.distributed.allotment is 'configurations', but there "
                f"{'is' if len(begins) == 1 else 'are'} {len(begins)} of {self.load.name} to train on for {n} workers, "
                f"expected at least as many, or allotment 'simulations'"
            )
        return _in_pieces([*begins, part_of(self.options, "train", self.load)[1]], n)

    def _begins(self) -> list[int]:
        """Return the first items of the configurations to train on."""
        first, last = part_of(self.options, "train", self.load)
        return [first, *(position for position in self.spec.configurations(self.load) if first < position < last)]

    def configuration_coordinates(self) -> list[tuple[float, ...]]:
        """Return the coordinates of the configurations to train on."""
        begins, points = self._begins(), self.spec.configuration_coordinates(self.load)
        positions = self.spec.configurations(self.load)
        return [points[bisect.bisect_right(positions, first) - 1] for first in begins]

    def check_test(self) -> None:
        """Refuse a test without jobs, which would be found after the training."""
        part_of(self.options, "test", self.load)

    def test(self, folder: Path | None = None) -> Any:
        """Make the environment of the test: all jobs, or those of the range ``test`` where episodes are windows.

        ``folder``: for the files of a simulator outside; ``None``: they are discarded.
        """
        tested = self.tested()
        with self._argument_errors():
            if self.spec.is_compatible:  # reproduces numbers that were made in that mode
                self.spec.check_exact(self.machine, tested, self.options.where)
                return self.spec.single(self.machine, tested)
            return self.spec.player_outside(self.machine, tested, self.options, folder)

    def tested(self) -> Load:
        """Return the load of the test."""
        if self.options.learning.episodes.n_jobs is None:
            return self.load
        first, last = part_of(self.options, "test", self.load)
        return self.load.window(first, last - first)

    def trained_on(self, *, is_validated: bool = False) -> dict[str, Any]:
        """Return on which jobs a model is trained, so that a test on the same ones gives a warning.

        If the best model by validation is kept, ``"chosen_by"`` says by which jobs.
        """
        first, last = part_of(self.options, "train", self.load)
        shares = first / self.load.n_items, last / self.load.n_items
        further = self.spec.extra_training_data(shares)
        chosen = [part_of(self.options, "validation", self.load)] if is_validated else []
        record, *of_choice = self._records(self.machine, self.load, (first, last), *chosen)
        if further:
            record["further"] = [one for machine, load, part in further for one in self._records(machine, load, part)]
        if of_choice:
            (record["chosen_by"],) = of_choice
        return record

    def _records(self, machine: Machine, load: Load, *parts: Span) -> list[dict[str, Any]]:
        """Return a model file's entries about parts of one load, which is hashed once for all of them."""
        fingerprints, sha256 = fingerprints_of(self.spec.spec, machine, load), load.sha256()
        run_length = run_length_of(self.spec.spec)
        return [
            {
                "workload": load.name,
                "workload_sha256": sha256,
                "n_jobs": load.n_items,
                "first_job": first,
                "last_job": last - 1,
                "platform": machine.name,
                **({} if (seed := generator_seed(load)) is None else {"seed": seed}),
                **({} if fingerprints is None else {"sketch": sketch_of(fingerprints[first:last], run_length)}),
            }
            for first, last in parts
        ]

    def score(self, episodes: Sequence[Mapping[str, float]]) -> float:
        """Return the score of a validation; higher is better."""
        _, sign = self.spec.objective()
        return sum(sign * row["objective"] for row in episodes) / len(episodes)

    def _argument_errors(self) -> AbstractContextManager[None]:
        return environment_errors(f"{self.options.where}: learning.arguments")


class TrainingEnvs:
    """Makes environments to learn in, here or in another process, which reads again what is simulated."""

    def __init__(self, world: TrainingWorld) -> None:
        self._world: TrainingWorld | None = world
        options = world.options
        self._given = (options.model_dump(mode="json"), options.where, options.folder)

    def __call__(self, n_envs: int, share: Share | None = None) -> Any:
        """Make a number of environments."""
        if self._world is None:
            values, where, folder = self._given
            self._world = TrainingWorld(plan_of(parse_options(values, where=where, folder=folder)))
        return self._world.batch("train", n_envs, share)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to send to other processes: options, no world."""
        return {"_world": None, "_given": self._given}


def _in_pieces(bounds: Sequence[int], n: int) -> list[Span]:
    """Return n ranges that follow each other, each with about as many of the pieces that lie between bounds."""
    n_pieces = len(bounds) - 1
    cuts = [bounds[number * n_pieces // n] for number in range(n + 1)]
    return list(itertools.pairwise(cuts))


def _episode_arguments(options: OptionsFile, name: str, load: Load) -> dict[str, Any]:
    """Return the arguments of an environment that say which jobs an episode holds."""
    episodes = options.learning.episodes
    most = episodes.most_jobs
    if most is None:
        return {}
    first, last = part_of(options, name, load)
    if last - first < most:
        raise OptionsError(
            f"{options.where}: learning.episodes.{name} holds {last - first:,} of the {load.n_items:,} jobs, "
            f"expected at least learning.episodes.n_jobs = {most:,}"
        )
    # Validations draw their windows too: always the same ones, since they have the same seed.
    start = episodes.start if name == "train" else "random"
    if isinstance(start, int) and not first <= start <= last - most:
        raise OptionsError(
            f"{options.where}: learning.episodes.start is {start:,}, expected {first:,} to {last - most:,}, "
            "where an episode has room in the part to train on"
        )
    return {"n_jobs": episodes.n_jobs, "part": (first, last), "start": start}


def part_of(options: OptionsFile, name: str, load: Load) -> Span:
    """Return a part of a load as positions of items: the first, and the one after the last.

    The part is ``"train"``, ``"validation"`` or ``"test"``.
    """
    if options.learning.episodes.n_jobs is None:
        return 0, load.n_items
    shares = getattr(options.learning.episodes, name)
    what = f"{options.where}: learning.episodes.{name}"
    return range_of_shares(shares, load.n_items, what=what, items=f"jobs of {load.name}")
