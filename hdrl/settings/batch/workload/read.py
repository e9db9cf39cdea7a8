"""Reading a workload whatever its format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from hdrl.base.errors import OptionsError, ReadError, UnknownName, suggest
from hdrl.base.files import find_file, read_json
from hdrl.settings.batch.irmasim import CSV_SUFFIXES, irmasim, is_irmasim_workload
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.simulators import COMPATIBILITY_MODES, IRMASIM
from hdrl.settings.batch.workload.batsim_json import merge, read_custom_workload, workload_of_document
from hdrl.settings.batch.workload.hdeeprm import COMPATIBILITY, hdeeprm_workload
from hdrl.settings.batch.workload.model import Workload
from hdrl.settings.batch.workload.swf import read_swf
from hdrl.settings.batch.workload.swf_jobs import SwfChoices, workload_from_swf

SUFFIXES = (".swf", ".swf.gz", ".json", ".json.gz")
"""Endings of the names of files that `read_workload` reads."""


INSTALLED_FOLDER = Path(__file__).parent / "shipped"
CHECKOUT_FOLDER = Path(__file__).parents[4] / "workloads"


def shipped_workloads() -> dict[str, Path]:
    """Return the workloads that come with hdrl: their files by name, sorted.

    They are in ``workloads/`` of a checkout, and beside this module where hdrl is installed.
    """
    folder = INSTALLED_FOLDER if INSTALLED_FOLDER.is_dir() else CHECKOUT_FOLDER
    files = [path for path in sorted(folder.glob("*")) if path.name.endswith(SUFFIXES)]
    return {path.name.split(".")[0]: path for path in files if not path.name.endswith(".recipe.json")}


def find_workload(name: str | Path) -> Path:
    """Return the file of a workload that is given by a path or by the name of a shipped one.

    Parameters
    ----------
    name
        A path, or for instance ``"lublin_gaia_1000"``. A file of that name in the current folder comes first.

    Raises
    ------
    ReadError
        If there is neither.
    """
    path = find_file(name, shipped_workloads(), "workload")
    if path.is_dir():
        raise ReadError(name, "is a folder, expected a file")
    return path


def file_format(path: str | Path) -> str:
    """Return ``"swf"`` or ``"json"``, from the name of a file.

    Raises
    ------
    ReadError
        If the name ends otherwise.
    """
    name = Path(path).name.lower().removesuffix(".gz")
    for suffix in ("swf", "json"):
        if name.endswith(f".{suffix}"):
            return suffix
    raise ReadError(path, f"unknown format, expected a name that ends in one of {', '.join(SUFFIXES)}")


def read_workload(
    path: str | Path | Sequence[str | Path],
    platform: Platform | None = None,
    *,
    n_jobs: int | None = None,
    start: int = 0,
    custom: bool = False,
    compatibility: str | None = None,
    **choices: Unpack[SwfChoices],
) -> Workload:
    """Read a workload; the name of the file says what it is.

    Parameters
    ----------
    path
        A log (``.swf``), a workload of Batsim or IRMaSim (``.json``) or a table of IRMaSim (``.csv``), each with or
        without ``.gz``; or the name of a shipped workload; or several, which become sources w0, w1, ... of one.
    platform
        The platform; needed for logs and custom workloads, whose seconds it turns into work, and for IRMaSim's.
    n_jobs
        Largest number of jobs to keep, at least 1, the first by submission; ``None`` for all. Of each file where there
        are several.
    start
        Number of usable jobs to skip first, by submission.
    custom
        True if JSON files are custom workloads of HDeepRM, see `read_custom_workload`.
    compatibility
        ``"hdeeprm-0.3.1"`` turns logs into jobs exactly as it does, see `hdeeprm_workload`; of ``choices`` only
        ``seed`` counts then. ``"irmasim"``: jobs of one date are submitted in the order of the file,
        not by id as text, as Batsim does with its files.
    **choices
        Models for logs, see `workload_from_swf`.

    Raises
    ------
    ReadError
        If a file cannot be read.
    WorkloadError
        If it holds jobs that cannot be simulated, or none.
    OptionsError
        If the platform is missing where it is needed, or a number is out of range.
    UnknownName
        If a model or the compatibility mode is unknown.
    """
    if compatibility not in (None, *COMPATIBILITY_MODES):
        raise UnknownName("compatibility mode", str(compatibility), COMPATIBILITY_MODES)
    unknown = sorted(set(choices) - set(SwfChoices.__annotations__))
    if unknown:
        raise OptionsError(f"no workload option {unknown[0]!r}; {suggest(unknown[0], SwfChoices.__annotations__)}")
    for name, number, least in (("start", start, 0), ("n_jobs", n_jobs, 1)):
        if number is not None and number < least:
            raise OptionsError(f"{name} is {number}, expected at least {least}")
    paths = [find_workload(one) for one in ([path] if isinstance(path, (str, Path)) else path)]
    for one in paths if choices.get("think_times") else ():
        if not one.name.lower().endswith((".swf", ".swf.gz")):
            raise OptionsError(f"think_times is true, but only logs in SWF have think times; found {one}")
    parts = []
    for index, one in enumerate(paths):
        if one.name.lower().endswith(CSV_SUFFIXES):
            whole = _from_irmasim(irmasim("workloads").read_csv(one), one, platform, f"w{index}")
            parts.append(_windowed(whole, n_jobs, start))
        elif file_format(one) == "swf":
            machine = _needed(platform, one)
            parts.append(_from_log(one, machine, n_jobs, start, compatibility, choices))
        else:
            whole = (
                read_custom_workload(one, _needed(platform, one), source=f"w{index}")
                if custom
                else _from_json(one, platform, f"w{index}", by_text=compatibility != IRMASIM)
            )
            parts.append(_windowed(whole, n_jobs, start))
    return merge(parts)


def _from_json(path: Path, platform: Platform | None, source: str, *, by_text: bool) -> Workload:
    """Read a workload of Batsim or IRMaSim; the latter submits jobs of one date in the order of the file."""
    content = read_json(path)
    if is_irmasim_workload(content):
        return _from_irmasim(content, path, platform, source)
    return workload_of_document(content, path, source, by_text=by_text)


def _from_irmasim(content: Mapping[str, Any], path: Path, platform: Platform | None, source: str) -> Workload:
    theirs = irmasim("workloads")
    workload = workload_of_document(theirs.batsim_document(content, path, platform), path, source, by_text=False)
    return replace(
        workload, nodes=theirs.nodes_of_jobs(content), requested_energy_j=theirs.energies_of_jobs(content, path)
    )


def _needed(platform: Platform | None, path: str | Path) -> Platform:
    if platform is None:
        if not Path(path).is_file():
            raise ReadError(path, "no such file")
        raise OptionsError(f"{path}: a platform is needed to turn its seconds into work")
    return platform


def _windowed(workload: Workload, n_jobs: int | None, start: int) -> Workload:
    if start == 0 and (n_jobs is None or n_jobs >= workload.n_jobs):
        return workload
    left = max(0, workload.n_jobs - start)
    return workload.window(start, left if n_jobs is None else min(n_jobs, left), shift=False)


def _from_log(
    path: str | Path,
    platform: Platform,
    n_jobs: int | None,
    start: int,
    compatibility: str | None,
    choices: SwfChoices,
) -> Workload:
    log = read_swf(path)
    if compatibility != COMPATIBILITY:
        return workload_from_swf(log, platform, n_jobs=n_jobs, start=start, **choices)
    if start:
        raise OptionsError(f"start is {start}: HDeepRM 0.3.1 always begins with the first job")
    return hdeeprm_workload(log, platform, n_jobs=n_jobs or log.n_rows, seed=choices.get("seed", 0))
