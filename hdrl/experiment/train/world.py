"""What is simulated while an agent learns, is validated and tested: all that a training knows of machines and jobs."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from hdrl.errors import OptionsError
from hdrl.experiment.run.inputs import load_platform, load_workload
from hdrl.experiment.run.provenance import workload_sha256
from hdrl.experiment.train.environments import environment_of
from hdrl.experiment.train.learning import asked_for
from hdrl.experiment.train.loop import EpisodeRow
from hdrl.options import Options

if TYPE_CHECKING:
    from hdrl.platform.model import Platform
    from hdrl.workload.model import Workload


class World:
    """A machine, its jobs, and the environment in which an agent decides about them.

    Parameters
    ----------
    options
        The options.
    platform, workload
        What is simulated; ``None``: what the options say.

    Attributes
    ----------
    platform, workload
        What is simulated.
    spec
        The environment.

    Raises
    ------
    HdrlError
        If the options ask for something that does not exist.
    """

    def __init__(self, options: Options, platform: Platform | None = None, workload: Workload | None = None) -> None:
        self._options = options
        self.platform = load_platform(options) if platform is None else platform
        self.workload = load_workload(options, self.platform) if workload is None else workload
        self.spec = environment_of(options)

    def batch(self, part: str, n_envs: int) -> Any:
        """Make a batch of environments.

        Parameters
        ----------
        part
            On which jobs: ``"train"`` or ``"validation"``.
        n_envs
            How many environments.

        Raises
        ------
        HdrlError
            If the part is too short for an episode, or an argument of the environment is wrong.
        """
        arguments = _episode_arguments(self._options, part, self.workload)
        with self._asked_for():
            return self.spec.batch(n_envs, self.platform, self.workload, **arguments)

    def check_test(self) -> None:
        """Refuse a test without jobs, which would be found after the training.

        Raises
        ------
        OptionsError
            If it has none.
        """
        _job_range(self._options, "test", self.workload)

    def test(self) -> Any:
        """Make the environment of the test: all jobs, or those of the range ``test`` where episodes are windows.

        Raises
        ------
        HdrlError
            If no job is in it, or an argument of the environment is wrong.
        """
        jobs = self.workload
        if self._options.learning.episodes.n_jobs is not None:
            first, last = _job_range(self._options, "test", jobs)
            jobs = jobs.window(first, last - first)
        with self._asked_for():
            return self.spec.single(self.platform, jobs)

    def trained_on(self) -> dict[str, Any]:
        """Return on which jobs a model is trained, so that nobody tests it on the same ones by accident.

        Raises
        ------
        OptionsError
            If there are none.
        """
        first, last = _job_range(self._options, "train", self.workload)
        return {
            "workload": self.workload.name,
            "workload_sha256": workload_sha256(self.workload),
            "n_jobs": self.workload.n_jobs,
            "first_job": first,
            "last_job": last - 1,
            "platform": self.platform.name,
        }

    def score(self, episodes: list[EpisodeRow]) -> float:
        """Return how good a validation was, the more the better."""
        metric, sign = self._goal()
        values = [sign * row[metric] if metric in row else row["return"] for row in episodes]
        return sum(values) / len(values)

    def _goal(self) -> tuple[str, int]:
        """Return the metric that the objective is, and 1 where more of it is better, else -1."""
        if "PolicyPair" not in self.spec.id:
            return "return", 1
        from hdrl.envs.rewards import read_objective

        objective = read_objective(self.spec.arguments["objective"])
        return objective.metric, objective.sign

    def _asked_for(self) -> AbstractContextManager[None]:
        return asked_for(f"{self._options.where}: learning.arguments")


def _episode_arguments(options: Options, name: str, workload: Workload) -> dict[str, Any]:
    """Return the arguments of an environment that say which jobs an episode holds."""
    episodes = options.learning.episodes
    if episodes.n_jobs is None:
        return {}
    first, last = _job_range(options, name, workload)
    if last - first < episodes.n_jobs:
        raise OptionsError(
            f"{options.where}: learning.episodes.{name} holds {last - first:,} of the {workload.n_jobs:,} jobs, "
            f"expected at least learning.episodes.n_jobs = {episodes.n_jobs:,}"
        )
    # Validations draw their windows too: always the same ones, since they have the same seed.
    start = episodes.start if name == "train" else "random"
    return {"n_jobs": episodes.n_jobs, "part": (first, last), "start": start}


def _job_range(options: Options, name: str, workload: Workload) -> tuple[int, int]:
    """Return a range as numbers of jobs: the first, and the one after the last."""
    if options.learning.episodes.n_jobs is None:
        return 0, workload.n_jobs
    low, high = getattr(options.learning.episodes, name)
    first, last = round(low * workload.n_jobs), round(high * workload.n_jobs)
    if first == last:
        raise OptionsError(
            f"{options.where}: learning.episodes.{name} is [{low:g}, {high:g}], which holds none of the"
            f" {workload.n_jobs:,} jobs, expected a wider range"
        )
    return first, last
