"""Which setting a folder is of: it says what the files hold, what can be drawn and what numbers mean."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from hdrl.base.pyfiles import UntrustedFile
from hdrl.experiment.run.inputs import SWEEP_FILE, sweep_in
from hdrl.figures.folders import OPTIONS_FILE, PROVENANCE_FILE, read_object, run_folders
from hdrl.setting import BATCH, Setting, find_setting


def setting_of(folder: str | Path, *, trust: bool = False) -> Setting:
    """Return the setting of a folder of a run, a training or a comparison.

    Its options, its sweep or its provenance name it; a folder that names none is of batch jobs, as those of Batsim and
    of HDeepRM are. ``trust`` lets the Python file run that the folder names, once for all folders.
    """
    folder = Path(folder)
    inside = next((path for path in (folder, folder / "run_0") if (path / OPTIONS_FILE).is_file()), folder)
    sweep, start = sweep_in(inside) if (inside / SWEEP_FILE).is_file() else ({}, inside)
    for said, base in ((read_object(inside / OPTIONS_FILE), inside), (sweep, start)):
        if isinstance(said.get("setting"), str):
            return _find(said["setting"], base, folder, trust=trust)
    name = read_object(inside / PROVENANCE_FILE).get("setting")
    if isinstance(name, str):
        return _find(name, inside, folder, trust=trust)
    return find_setting(BATCH)


def _find(name: str, base: Path, folder: Path, *, trust: bool) -> Setting:
    try:
        return find_setting(name, base, trust=trust)
    except UntrustedFile as error:
        raise UntrustedFile(folder, error.name, error.instead, error.what) from None


def trust_folders(folders: Iterable[str | Path]) -> None:
    """Let the Python files of settings run that folders of results name, on the word of the user."""
    for folder in folders:
        setting_of(folder, trust=True)


def main_file(setting: Setting) -> str:
    """Return the file without which a folder is no run of a setting."""
    return setting.view.files[0].names[0]


def folders_of_runs(folders: Sequence[str | Path]) -> list[Path]:
    """Return the run folders that folders stand for, in their order."""
    return [path for folder in folders for path in run_folders(folder, main_file(setting_of(folder)))]
