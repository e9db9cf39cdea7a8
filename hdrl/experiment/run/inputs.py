"""Options and sweeps from files and command lines: the setting that they name says what they may hold."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hdrl.errors import OptionsError, ReadError, UnknownName
from hdrl.files import read_json, write_json
from hdrl.options.file import OptionsFile
from hdrl.options.problems import shown
from hdrl.options.reading import override, validated
from hdrl.options.sweep import Sweep, from_here
from hdrl.setting import BATCH, Setting, find_setting

SETTING_KEY = "setting"

SWEEP_FILE = "sweep.json"

RESUME_FILE = "resume.json"
"""What was asked for, with the folder that its paths start from, which is a matter of this machine."""


def setting_of(data: object, folder: Path, given: str | None = None) -> tuple[Setting, str]:
    """Return the setting that an options or a sweep file names, and what it calls it.

    Parameters
    ----------
    data
        What the file holds.
    folder
        Folder that relative paths start from.
    given
        What the command line says instead; its paths start from the current folder.

    Raises
    ------
    HdrlError
        If there is no such setting.
    """
    if given is not None:
        return find_setting(given), str(Path(given).absolute()) if given.endswith(".py") else given
    named = data.get(SETTING_KEY, BATCH) if isinstance(data, Mapping) else BATCH
    if not isinstance(named, str):
        raise OptionsError(f"{SETTING_KEY} is {shown(named)}, expected the name of a setting")
    return find_setting(named, folder), named


def read_options(path: str | Path, *, overrides: Sequence[str] = (), setting: str | None = None) -> OptionsFile:
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

    Raises
    ------
    ReadError
        If the file cannot be read or is no JSON.
    OptionsError
        If a key or value is wrong.
    """
    path = Path(path)
    return parse_options(read_json(path), where=str(path), folder=path.parent, overrides=overrides, setting=setting)


def parse_options(
    data: object,
    *,
    where: str = "options",
    folder: str | Path = ".",
    overrides: Sequence[str] = (),
    setting: str | None = None,
) -> OptionsFile:
    """Make options from what a JSON file holds.

    Parameters
    ----------
    data
        The content of an options file; it is not changed.
    where
        Name of the source for messages.
    folder
        Folder that relative paths start from.
    overrides
        Changes, see `read_options`.
    setting
        The setting, instead of the one that the data name.

    Raises
    ------
    OptionsError
        If a key or value is wrong.
    """
    try:
        found, name = setting_of(data, Path(folder), setting)
    except (OptionsError, UnknownName) as error:
        raise OptionsError(f"{where}: {error}") from None
    model = found.Options
    merged: Any = copy.deepcopy(dict(data)) if isinstance(data, Mapping) else data
    changed: list[str] = []
    if isinstance(merged, dict):
        _name_setting(merged, model, name)
        try:
            merged = model.translated(merged, Path(folder))
        except OptionsError as error:
            raise OptionsError(f"{where}: {error}") from None
        changed = [override(merged, _placed(text, model)) for text in overrides]
    options = validated(model, merged, where, changed).placed(where, Path(folder))
    _check_named(found, name, options, where)
    return options


def read_sweep(path: str | Path, *, changes: Mapping[str, Any] | None = None, setting: str | None = None) -> Sweep:
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

    Raises
    ------
    ReadError
        If the file cannot be read or is no JSON.
    OptionsError
        If a key or value is wrong.
    """
    path = Path(path)
    data, folder = read_json(path), path.parent
    if not isinstance(data, Mapping):
        raise OptionsError(f"{path}: expected an object that describes a comparison")
    if path.name == SWEEP_FILE and path.with_name(RESUME_FILE).is_file():
        data, folder = sweep_in(path.parent)
    merged = dict(data)
    for key, value in (changes or {}).items():
        ours, theirs = from_here(key, value), data.get(key)
        if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
            ours = {**theirs, **ours}
        merged[key] = ours
    return make_sweep(merged, where=str(path), folder=folder, setting=setting)


def write_sweep(folder: Path, sweep: Sweep) -> None:
    """Write into its folder what was compared, the same bytes wherever the folder lies, and where its files are."""
    data = {"folder": str(sweep.folder.absolute()), "sweep": sweep.model_dump(mode="json")}
    write_json(folder / RESUME_FILE, data)
    write_json(folder / SWEEP_FILE, sweep.portable())


def sweep_in(folder: Path) -> tuple[Mapping[str, Any], Path]:
    """Return what the folder of a comparison was asked for, and the folder that its paths start from.

    Parameters
    ----------
    folder
        The folder; without a sweep in it, nothing was asked for.

    Raises
    ------
    ReadError
        If a file of it is damaged.
    """
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

    Parameters
    ----------
    data
        What a sweep file holds.
    where
        Name of the source for messages.
    folder
        Folder that relative paths start from.
    setting
        The setting, instead of the one that the data name.

    Raises
    ------
    OptionsError
        If a key or value is wrong.
    """
    try:
        found, name = setting_of(data, Path(folder), setting)
    except (OptionsError, UnknownName) as error:
        raise OptionsError(f"{where}: {error}") from None
    merged = dict(data)
    _name_setting(merged, found.Sweep, name)
    sweep = validated(found.Sweep, merged, where).placed(where, Path(folder))
    _check_named(found, name, sweep, where)
    for metric in (*(sweep.metrics or ()), *(sweep.tails or ())):
        if metric not in found.metrics:
            raise OptionsError(f"{where}: {UnknownName('metric', metric, found.metrics)}")
    return sweep


def _name_setting(data: dict[str, Any], model: type[OptionsFile | Sweep], name: str) -> None:
    """Write the setting's name where files of the setting have it."""
    data.pop(SETTING_KEY, None)
    if SETTING_KEY in model.model_fields:
        data[SETTING_KEY] = name


def _check_named(setting: Setting, name: str, made: OptionsFile | Sweep, where: str) -> None:
    """Refuse options that would be run in another setting than the one that was asked for."""
    if find_setting(made.setting_name, made.folder) is not setting:
        raise OptionsError(
            f"{where}: the setting {name} takes options that say {made.setting_name!r}; derive them from "
            "ExperimentOptions, and its sweeps from SettingSweep"
        )


def _placed(text: str, model: type[OptionsFile]) -> str:
    """Return a change with the block of the agent by the name that the setting's files have for it."""
    block = "agent."
    return f"{model.agent_block}.{text.removeprefix(block)}" if text.startswith(block) else text
