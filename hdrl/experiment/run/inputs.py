"""The platform and the workload that options ask for."""

from __future__ import annotations

from pathlib import Path

from hdrl.errors import OptionsError, UnknownName, suggest
from hdrl.options import Options
from hdrl.platform.model import Platform
from hdrl.platform.pstates import pstate_rules
from hdrl.platform.reader import read_platform
from hdrl.workload import model as workload_model
from hdrl.workload.fit import check_fits
from hdrl.workload.model import Workload
from hdrl.workload.read import read_workload

WORKLOAD_FOLDER = Path(workload_model.__file__).parent
INSTALLED_FOLDER = WORKLOAD_FOLDER / "shipped"
CHECKOUT_FOLDER = WORKLOAD_FOLDER.parents[1] / "workloads"
WORKLOAD_SUFFIXES = (".swf", ".swf.gz", ".json", ".json.gz")


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
    try:
        if choices.custom is not None:
            # All of it: nb_jobs says how many jobs to make of a log.
            workload = read_workload(options.path_of(choices.custom), platform, custom=True)
        else:
            workload = read_workload(
                _workload_file(options),
                platform,
                n_jobs=options.nb_jobs,
                start=choices.start,
                compatibility=options.compatibility,
                run_time=choices.run_time,
                memory=choices.memory,
                bandwidth=choices.bandwidth,
                estimates=choices.estimates,
                walltime=choices.walltime,
                walltime_factor=choices.walltime_factor,
                shift=choices.shift,
                seed=options.seed,
            )
    except UnknownName as error:
        raise OptionsError(f"{options.where}: workload: {error}") from None
    return check_fits(workload, platform, oversized=choices.oversized)


def shipped_workloads() -> dict[str, Path]:
    """Return the workloads that come with hdrl: their files by name, sorted.

    They are in ``workloads/`` of a checkout, and beside `hdrl.workload` where hdrl is installed.
    """
    folder = INSTALLED_FOLDER if INSTALLED_FOLDER.is_dir() else CHECKOUT_FOLDER
    files = [path for path in sorted(folder.glob("*")) if path.name.endswith(WORKLOAD_SUFFIXES)]
    return {path.name.split(".")[0]: path for path in files if not path.name.endswith(".recipe.json")}


def _workload_file(options: Options) -> Path:
    text = options.workload_file_path
    named = _file_or_name(options, text)
    if isinstance(named, Path):
        return named
    shipped = shipped_workloads()
    if named not in shipped:
        raise OptionsError(
            f"{options.where}: workload_file_path is {text!r}: no such file, and no shipped workload of that name; "
            f"{suggest(text, shipped)}"
        )
    return shipped[named]


def _file_or_name(options: Options, text: str) -> str | Path:
    """Return the path of a file, or the text itself where it can only be the name of something shipped."""
    path = options.path_of(text)
    if "/" not in text and "." not in text and not path.is_file():
        return text
    return path
