"""Which setting a folder is of: it says what the files hold, what can be drawn and what numbers mean."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hdrl.experiment.run.inputs import SWEEP_FILE, sweep_in
from hdrl.figures.folders import OPTIONS_FILE, PROVENANCE_FILE, read_object, run_folders
from hdrl.setting import BATCH, Setting, find_setting


def setting_of(folder: str | Path) -> Setting:
    """Return the setting of a folder of a run, a training or a comparison.

    Parameters
    ----------
    folder
        The folder; its options, its sweep or its provenance name its setting. One that names none is of batch jobs,
        as those of Batsim and of HDeepRM are.

    Raises
    ------
    ReadError
        If a file of it is damaged.
    HdrlError
        If there is no such setting.
    """
    folder = Path(folder)
    inside = next((path for path in (folder, folder / "run_0") if (path / OPTIONS_FILE).is_file()), folder)
    sweep, start = sweep_in(inside) if (inside / SWEEP_FILE).is_file() else ({}, inside)
    for said, base in ((read_object(inside / OPTIONS_FILE), inside), (sweep, start)):
        if isinstance(said.get("setting"), str):
            return find_setting(said["setting"], base)
    name = read_object(inside / PROVENANCE_FILE).get("setting")
    if isinstance(name, str):
        return find_setting(name, inside)
    return find_setting(BATCH)


def main_file(setting: Setting) -> str:
    """Return the file without which a folder is no run of a setting."""
    return setting.files[0].names[0]


def folders_of_runs(folders: Sequence[str | Path]) -> list[Path]:
    """Return the run folders that folders stand for, in their order.

    Parameters
    ----------
    folders
        Run folders, or folders of experiments with several runs.

    Raises
    ------
    ReadError
        If one is no run.
    """
    return [path for folder in folders for path in run_folders(folder, main_file(setting_of(folder)))]
