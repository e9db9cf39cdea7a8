"""Which jobs agents are trained, validated and tested on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hdrl.errors import OptionsError
from hdrl.options import Options

if TYPE_CHECKING:
    from hdrl.workload.model import Workload


def episode_arguments(options: Options, name: str, workload: Workload) -> dict[str, Any]:
    """Return the arguments of an environment that say which jobs an episode holds.

    Parameters
    ----------
    options
        The options.
    name
        The range: ``"train"``, ``"validation"`` or ``"test"``.
    workload
        The workload.

    Raises
    ------
    OptionsError
        If the range is too short for an episode.
    """
    episodes = options.learning.episodes
    if episodes.n_jobs is None:
        return {}
    first, last = job_range(options, name, workload)
    if last - first < episodes.n_jobs:
        raise OptionsError(
            f"{options.where}: learning.episodes.{name} holds {last - first:,} of the {workload.n_jobs:,} jobs, "
            f"expected at least learning.episodes.n_jobs = {episodes.n_jobs:,}"
        )
    # Validations draw their windows too: always the same ones, since they have the same seed.
    start = episodes.start if name == "train" else "random"
    return {"n_jobs": episodes.n_jobs, "part": (first, last), "start": start}


def job_range(options: Options, name: str, workload: Workload) -> tuple[int, int]:
    """Return a range as numbers of jobs: the first, and the one after the last.

    Parameters
    ----------
    options
        The options.
    name
        The range: ``"train"``, ``"validation"`` or ``"test"``.
    workload
        The workload.

    Raises
    ------
    OptionsError
        If no job is in it.
    """
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


def test_jobs(options: Options, workload: Workload) -> Workload:
    """Return the jobs of a test: all, or those of the range ``test`` where episodes are windows.

    Parameters
    ----------
    options
        The options.
    workload
        The workload.
    """
    if options.learning.episodes.n_jobs is None:
        return workload
    first, last = job_range(options, "test", workload)
    return workload.window(first, last - first)


test_jobs.__test__ = False  # type: ignore[attr-defined]  # no test, whatever pytest thinks of its name
