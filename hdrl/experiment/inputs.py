"""The platform and the workload that options ask for."""

from __future__ import annotations

from pathlib import Path

from hdrl.errors import OptionsError
from hdrl.options import Options
from hdrl.platform import Platform, pstate_rules, read_platform
from hdrl.workload import Workload, check_fits, read_custom_workload, read_workload


def load_platform(options: Options) -> Platform:
    """Read the platform of an experiment.

    Parameters
    ----------
    options
        The options; ``platform_file_path`` is a file, or the name of a shipped platform.

    Raises
    ------
    OptionsError
        If the platform does not have as many cores as the options say.
    HdrlError
        If the platform cannot be read.
    """
    rules = pstate_rules(options.contention, compatibility=options.compatibility)
    platform = read_platform(_file_or_name(options, options.platform_file_path), rules=rules)
    if options.nb_resources is not None and options.nb_resources != platform.n_cores:
        raise OptionsError(
            f"{options.where}: nb_resources is {options.nb_resources}, but platform {platform.name!r} has "
            f"{platform.n_cores} cores"
        )
    return platform


def load_workload(options: Options, platform: Platform) -> Workload:
    """Read or generate the workload of an experiment, and check that its jobs can run.

    Parameters
    ----------
    options
        The options.
    platform
        The platform that it will run on.

    Raises
    ------
    HdrlError
        If the workload cannot be read, or a job of it can never run.
    """
    choices = options.workload
    if choices.custom is not None:
        workload = read_custom_workload(options.path_of(choices.custom), platform)
    else:
        workload = read_workload(
            _file_or_name(options, options.workload_file_path),
            platform,
            n_jobs=options.nb_jobs,
            start=choices.start,
            run_time=choices.run_time,
            memory=choices.memory,
            bandwidth=choices.bandwidth,
            estimates=choices.estimates,
            walltime=choices.walltime,
            walltime_factor=choices.walltime_factor,
            shift=choices.shift,
            seed=options.seed,
            compatibility=options.compatibility,
        )
    return check_fits(workload, platform, oversized=choices.oversized)


def _file_or_name(options: Options, text: str) -> str | Path:
    """Return the path of a file, or the text itself where it can only be the name of something shipped."""
    path = options.path_of(text)
    if "/" not in text and "." not in text and not path.exists():
        return text
    return path
