"""The settings of hdrl by name, and those of users' Python files."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from hdrl.base.errors import OptionsError, UnknownName
from hdrl.base.files import expanded
from hdrl.base.pyfiles import UntrustedFile, is_policy_file, run_file
from hdrl.setting.setting import Setting

BATCH = "batch"
"""The setting of options files that name none: HDeepRM's."""

# Of what several settings have under one name, the first one's is taken where no setting is named.
_MODULES = {
    BATCH: "hdrl.settings.batch.setting",
    "adaptation": "hdrl.settings.adaptation.setting",
    "gpu": "hdrl.settings.gpu.setting",
    "pipelines": "hdrl.settings.pipelines.setting",
}


class Settings:
    """The settings by name; each is loaded on first use."""

    def __init__(self, homes: Mapping[str, str]) -> None:
        self._homes = dict(homes)
        self._found: dict[str, Setting] = {}

    def __getitem__(self, name: str) -> Setting:
        """Return a setting; raise `UnknownName` with a suggestion if there is none of that name."""
        if name not in self._found:
            if name not in self._homes:
                raise UnknownName("setting", name, self)
            self._found[name] = importlib.import_module(self._homes[name]).SETTING
        return self._found[name]

    def add(self, setting: Setting) -> None:
        """Make a setting known for as long as the process runs.

        It takes the place of another one of its name.
        """
        self._found[setting.name] = setting

    def remove(self, name: str) -> None:
        """Forget a setting that was added."""
        self._found.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter({**self._homes, **self._found})

    def __len__(self) -> int:
        """Return the number of names."""
        return len({**self._homes, **self._found})

    def __contains__(self, name: object) -> bool:
        """Return whether there is a setting of that name."""
        return isinstance(name, str) and (name in self._homes or name in self._found)


SETTINGS = Settings(_MODULES)


def find_setting(text: str, folder: str | Path = Path(), *, trust: bool = True) -> Setting:
    """Return a setting by its name, or from the Python file of a user.

    Parameters
    ----------
    text
        A name of `SETTINGS`, or the path of a file that defines ``SETTING``.
    folder
        Folder that a relative path starts from.
    trust
        True if a file may run. Otherwise only files serve that have run in this process before, by their names.

    Raises
    ------
    UnknownName
        If there is no such setting.
    UntrustedFile
        If the file may not run.
    OptionsError
        If the file defines none.
    HdrlError
        If the file cannot be read, or fails.
    """
    folder = Path(folder)
    if not is_policy_file(text):
        return SETTINGS[text]
    path = (folder / expanded(text)).absolute()
    if not trust or not path.is_file():
        # Folders of results name the file without its folder: one of that name may have been given before.
        path = loaded_file(path) or path
    if path not in _FROM_FILES:
        if not trust:
            raise UntrustedFile(folder, text, f"--setting {path.name} with your own copy")
        module, _ = run_file(path, trust=trust)
        if not hasattr(module, "SETTING"):
            raise OptionsError(f"{path}: defines no setting, expected SETTING = ...")
        if not isinstance(module.SETTING, Setting):
            kind = type(module.SETTING).__name__
            raise OptionsError(f"{path}: SETTING is of {kind}, expected hdrl.setting.Setting")
        _FROM_FILES[path] = module.SETTING
    return _FROM_FILES[path]


def loaded_file(path: str | Path) -> Path | None:
    """Return the file of that path or name whose setting has been loaded in this process; ``None`` if none has."""
    path = Path(path)
    return path if path in _FROM_FILES else next((own for own in _FROM_FILES if own.name == path.name), None)


_FROM_FILES: dict[Path, Setting] = {}
"""Settings from files, each made once in a process: what they register with Gymnasium, they register once."""


class SettingRef(str):
    """Name or path of a setting that other processes can find: what they get after it may be of its classes."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Callable[[str], SettingRef], tuple[str]]:
        """Load the setting where this text is unpacked, before what follows it."""
        return _loaded, (str(self),)


def setting_ref(text: str, folder: str | Path = Path()) -> SettingRef:
    """Return a setting's name, or the absolute path of its file."""
    return SettingRef((Path(folder) / expanded(text)).absolute() if is_policy_file(text) else text)


def _loaded(text: str) -> SettingRef:
    find_setting(text)
    return SettingRef(text)
