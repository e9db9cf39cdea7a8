"""The runs of folders, and their setting: it says what files hold, what can be drawn and what numbers mean."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from hdrl.base.errors import ReadError
from hdrl.base.pyfiles import UntrustedFile
from hdrl.experiment.run.inputs import SWEEP_FILE, sweep_in
from hdrl.figures.figure import Run
from hdrl.figures.folders import OPTIONS_FILE, PROVENANCE_FILE, read_object, run_folders
from hdrl.setting import BATCH, Setting, find_setting


def setting_of(folder: str | Path, *, trust: bool = False) -> Setting:
    """Return the setting of a folder of a run, a training or a comparison.

    Its options, its sweep or its provenance name it; a folder that names none is of batch jobs, as those of Batsim and
    of HDeepRM are. ``trust`` lets the Python file run that the folder names, once for all folders.
    """
    folder = Path(folder)
    if not folder.exists():
        raise ReadError(folder, "no such folder")
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


def folders_of_runs(folders: Iterable[str | Path], setting: Setting | None = None) -> list[Path]:
    """Return the run folders that folders stand for, in their order.

    Raise ReadError if one is of another setting than ``setting``, or than the first one by default.
    """
    found: list[Path] = []
    for folder in folders:
        own = setting_of(folder)
        found += run_folders(folder, main_file(own))
        setting = setting or own
        if own is not setting:
            raise ReadError(folder, f"is of the setting {own.name}, expected {setting.name} as the others are")
    return found


def read_report_runs(folders: Iterable[str | Path], setting: Setting) -> list[Run]:
    """Read run folders and give the runs names that tell them apart.

    A name is the policy, and where that is not enough the workload, the seed or the folder as well.
    """
    runs = [setting.view.read(path, None) for path in folders_of_runs(folders, setting)]
    return [  # metrics without a value are left out
        dataclasses.replace(run, name=name, metrics={key: n for key, n in run.metrics.items() if math.isfinite(n)})
        for run, name in zip(runs, _distinct_names(runs), strict=True)
    ]


def policy_of(run: Run) -> str:
    """Return the policy of a run, or the name of its folder where that is unknown."""
    return run.policy or run.folder.resolve().name


def _distinct_names(runs: Sequence[Run]) -> list[str]:
    ways: tuple[Callable[[Run], str], ...] = (
        policy_of,
        lambda run: f"{policy_of(run)}, {run.workload}",
        lambda run: f"{policy_of(run)}, seed {run.provenance.get('seed', '?')}",
        lambda run: f"{policy_of(run)}, {run.folder.resolve().name}",
        lambda run: f"{policy_of(run)}, {run.folder.resolve().parent.name}/{run.folder.resolve().name}",
    )
    for way in ways:
        names = [way(run) for run in runs]
        if max(Counter(names).values(), default=1) == 1:
            return names
    return [f"{policy_of(run)} ({index + 1})" for index, run in enumerate(runs)]
