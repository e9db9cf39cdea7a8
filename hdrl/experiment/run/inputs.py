"""Options and sweeps from files and command lines: the setting that they name says what they may hold."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hdrl.base.errors import OptionsError, ReadError, UnknownName
from hdrl.base.files import expanded, read_json, write_json
from hdrl.base.pyfiles import UntrustedFile, is_policy_file, refuse_python
from hdrl.options.file import OptionsFile
from hdrl.options.problems import shown
from hdrl.options.reading import override, validated
from hdrl.options.sweep import Sweep, from_here, model_in_folder
from hdrl.setting import BATCH, Setting, find_setting, loaded_file

SETTING_KEY = "setting"

SWEEP_FILE = "sweep.json"

RESUME_FILE = "resume.json"
"""The options or the sweep, with the folder that its paths start from, which depends on this machine."""


RESOLVED_FILE = "options.resolved.json"
"""The options of a run, every default filled in; it lies in the folder of its results."""

_PROVENANCE = "provenance.json"
_RESULT_FILES = (_PROVENANCE, "manifest.json", "summary.json", "points.jsonl", RESUME_FILE, RESOLVED_FILE)
_EXPERIMENT_FILE = "experiment.json"


def is_in_results(path: Path) -> bool:
    """Return whether a file lies in a folder of results or of an experiment: it is data and lets no Python file run.

    Links are followed; folders within one of results belong to it.
    """
    folders = (path.absolute().parent, path.resolve().parent)
    markers = (*_RESULT_FILES, _EXPERIMENT_FILE)
    return any((folder / name).is_file() for folder in folders for name in markers) or any(
        (above / _PROVENANCE).is_file() for folder in folders for above in folder.parents
    )


def setting_of(data: object, folder: Path, given: str | None = None, *, trust: bool = True) -> tuple[Setting, str]:
    """Return the setting that an options or a sweep file names, and what it calls it.

    ``given`` is what the command line says instead; its paths start from the current folder, others from ``folder``.
    Without ``trust``, a Python file that the data name serves only if it has run before.
    """
    if given is not None:
        return find_setting(given), str(Path(given).absolute()) if given.endswith(".py") else given
    named = data.get(SETTING_KEY, BATCH) if isinstance(data, Mapping) else BATCH
    if not isinstance(named, str):
        raise OptionsError(f"{SETTING_KEY} is {shown(named)}, expected the name of a setting")
    return find_setting(named, folder, trust=trust), named


def read_options(
    path: str | Path, *, overrides: Sequence[str] = (), setting: str | None = None, trust: bool | None = None
) -> OptionsFile:
    """Read an options file.

    Parameters
    ----------
    path
        The file; relative paths within it start from its folder.
    overrides
        Changes such as ``"learning.iterations=20"``: a key and a JSON value, or else text. ``agent.`` stands for the
        block of the agent, wherever the setting's files have it.
    setting
        The setting, instead of the one that the file names.
    trust
        True if Python files may run that the file names; ``None``: unless it lies in a folder of results.
    """
    path = Path(path)
    data, may_run = read_json(path), not is_in_results(path) if trust is None else trust
    return parse_options(data, where=str(path), folder=path.parent, overrides=overrides, setting=setting, trust=may_run)


def parse_options(
    data: object,
    *,
    where: str = "options",
    folder: str | Path = ".",
    overrides: Sequence[str] = (),
    setting: str | None = None,
    trust: bool = True,
) -> OptionsFile:
    """Make options from what a JSON file holds.

    Parameters
    ----------
    data
        The content of an options file; it is not changed.
    where
        Name of the source for messages.
    trust
        True if Python files may run that the data name.
    """
    if not trust:
        setting = _setting_without_python(data, where, Path(folder), setting)
    found, name = _setting_at(where, data, Path(folder), setting)
    model = found.inputs.Options
    merged: Any = copy.deepcopy(dict(data)) if isinstance(data, Mapping) else data
    changed: list[str] = []
    if isinstance(merged, dict):
        _name_setting(merged, model, name)
        try:
            merged = model.translated(merged, Path(folder))
        except OptionsError as error:
            raise OptionsError(f"{where}: {error}") from None
        if not trust:
            _refuse_python(merged, where)
        changed = [override(merged, _placed(text, model)) for text in overrides]
        if not trust:
            _refuse_programs(merged, model, where, changed)
    options = validated(model, merged, where, changed).located(where, Path(folder))
    _check_named(found, name, options, where)
    return options


def _setting_at(where: str, data: object, folder: Path, given: str | None) -> tuple[Setting, str]:
    """Return the result of `setting_of`, with the source in its error messages."""
    try:
        return setting_of(data, folder, given)
    except (OptionsError, UnknownName) as error:
        raise OptionsError(f"{where}: {error}") from None


def _setting_without_python(data: object, where: str, folder: Path, given: str | None) -> str | None:
    """Return the setting to take instead of that of the data, if any; refuse one of a file that has not run yet."""
    named = data.get(SETTING_KEY) if isinstance(data, Mapping) else None
    if given is not None or not isinstance(named, str) or not is_policy_file(named):
        return given
    known = loaded_file((folder / expanded(named)).absolute())
    if known is None:
        raise UntrustedFile(where, named, "--setting FILE with your own copy")
    return str(known)


def _refuse_python(data: Mapping[str, Any], where: str) -> None:
    """Refuse data that name Python files other than that of the setting."""
    refuse_python({key: data[key] for key in data if key != SETTING_KEY}, where)


def _refuse_programs(data: Mapping[str, Any], model: type[OptionsFile], where: str, changed: Sequence[str]) -> None:
    """Refuse data that name another program than hdrl would start by itself, unless the user has changed that."""
    for key in model.program_keys:
        block, _, name = key.partition(".")
        inner, kind = data.get(block), model.model_fields[block].annotation
        if key in changed or not isinstance(inner, Mapping) or name not in inner or kind is None:
            continue
        if inner[name] != kind.model_fields[name].get_default(call_default_factory=True):
            raise UntrustedFile(where, shown(inner[name]), f"--set {key}=VALUE", f"as {key}")


def read_sweep(
    path: str | Path,
    *,
    changes: Mapping[str, Any] | None = None,
    setting: str | None = None,
    trust: bool | None = None,
) -> Sweep:
    """Read a sweep file.

    Parameters
    ----------
    path
        The file, JSON; relative paths within it start from its folder.
    changes
        Values by key that replace those of the file, within a block only those of the named keys; relative paths in
        them start from the current folder.
    setting
        The setting, instead of the one that the file names.
    trust
        True if Python files may run that the file or a model names; ``None``: files that the file names,
        unless it lies in a folder of results.
    """
    path = Path(path)
    data, folder = read_json(path), path.parent
    if not isinstance(data, Mapping):
        raise OptionsError(f"{path}: expected an object that describes a comparison")
    if path.name == SWEEP_FILE and path.with_name(RESUME_FILE).is_file():
        data, folder = sweep_in(path.parent)
    if not (not is_in_results(path) if trust is None else trust):
        _refuse_python(data, str(path))
        setting = _setting_without_python(data, str(path), folder, setting)
    merged = dict(data)
    for key, value in (changes or {}).items():
        ours, theirs = from_here(key, value), data.get(key)
        if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
            ours = {**theirs, **ours}
        merged[key] = ours
    made = make_sweep(merged, where=str(path), folder=folder, setting=setting)
    return made.trusting() if trust else made


def write_sweep(folder: Path, sweep: Sweep) -> None:
    """Write into its folder what was compared, the same bytes wherever the folder lies, and where its files are."""
    data = {"folder": str(sweep.folder.absolute()), "sweep": sweep.model_dump(mode="json")}
    write_json(folder / RESUME_FILE, data)
    write_json(folder / SWEEP_FILE, sweep.portable())


def sweep_in(folder: Path) -> tuple[Mapping[str, Any], Path]:
    """Return the sweep in the folder of a comparison, and the folder that its paths start from."""
    path = folder / RESUME_FILE
    if not path.is_file():
        sweep = read_json(folder / SWEEP_FILE) if (folder / SWEEP_FILE).is_file() else {}
        return (sweep if isinstance(sweep, Mapping) else {}), folder
    data = read_json(path)
    sweep, start = (data.get("sweep"), data.get("folder")) if isinstance(data, Mapping) else (None, None)
    if not isinstance(sweep, Mapping) or not isinstance(start, str):
        raise ReadError(path, "must hold folder and sweep")
    return sweep, Path(start)


def make_sweep(
    data: Mapping[str, Any], *, where: str = "sweep", folder: str | Path = ".", setting: str | None = None
) -> Sweep:
    """Make a sweep of plain values.

    Messages call the source ``where``; relative paths start from ``folder``. ``setting`` replaces the one that the data
    name.
    """
    found, name = _setting_at(where, data, Path(folder), setting)
    merged = dict(data)
    _name_setting(merged, found.inputs.Sweep, name)
    candidates = merged.get("candidates")
    if isinstance(candidates, list):
        merged["candidates"] = [
            model_in_folder(one, Path(folder)) if isinstance(one, str) else one for one in candidates
        ]
    sweep = validated(found.inputs.Sweep, merged, where).located(where, Path(folder))
    _check_named(found, name, sweep, where)
    known = found.measures.metrics
    for metric in (*(sweep.metrics or ()), *(sweep.tails or ())):
        if metric not in known:
            raise OptionsError(f"{where}: {UnknownName('metric', metric, known)}")
    for metric in sweep.tails or ():
        if known[metric].lower_is_better is None:
            sided = ", ".join([name for name, info in known.items() if info.lower_is_better is not None][:4])
            raise OptionsError(
                f"{where}: tails holds {metric}, which has no worse side; expected others, for instance {sided}"
            )
    return sweep


def _name_setting(data: dict[str, Any], model: type[OptionsFile | Sweep], name: str) -> None:
    """Write the setting's name where files of the setting have it."""
    data.pop(SETTING_KEY, None)
    if SETTING_KEY in model.model_fields:
        data[SETTING_KEY] = name


def _check_named(setting: Setting, name: str, made: OptionsFile | Sweep, where: str) -> None:
    """Refuse options that would be run in another setting than the requested one."""
    if find_setting(made.setting_name, made.folder) is not setting:
        raise OptionsError(
            f"{where}: the setting {name} takes options that say {made.setting_name!r}; derive them from "
            "ExperimentOptions, and its sweeps from SettingSweep"
        )


def _placed(text: str, model: type[OptionsFile]) -> str:
    """Return a change with the block of the agent by the name that the setting's files have for it."""
    block = "agent."
    return f"{model.agent_block}.{text.removeprefix(block)}" if text.startswith(block) else text
