"""The folder of a training: its files, its lock, and how it begins anew."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

from hdrl.base.errors import OutputError
from hdrl.base.files import output_errors, write_json
from hdrl.experiment.locks import FolderLock
from hdrl.experiment.plan import RunPlan
from hdrl.experiment.run.inputs import RESUME_FILE
from hdrl.experiment.run.insights import INSIGHTS_FILE
from hdrl.experiment.run.manifest import write_manifest
from hdrl.experiment.train.decisions import DECISION_FILES
from hdrl.experiment.train.log import EPISODES_FILE, LOGS, PROBABILITIES_FILE, TRAINING_FILE
from hdrl.experiment.train.resuming import write_resume_file
from hdrl.options.sweep import MODEL_FILE

CHECKPOINT_FILE = "checkpoint.pt"
BEST_FILE = "best.pt"
FILES = (
    *(CHECKPOINT_FILE, BEST_FILE, MODEL_FILE, RESUME_FILE, TRAINING_FILE, EPISODES_FILE, *LOGS, PROBABILITIES_FILE),
    *("options.resolved.json", "metrics.json", "provenance.json", "timing.json", INSIGHTS_FILE, *DECISION_FILES),
)
"""Files that a training writes besides those of its setting for a simulation."""


class TrainingFolder(FolderLock):
    """The folder of a training, locked against other processes.

    ``checkpoint``, ``best`` and ``model`` are the paths of the last checkpoint, of the best model by validation and of
    the last model.
    """

    def __init__(self, plan: RunPlan) -> None:
        super().__init__(plan.out)
        self.path, self._options = plan.out, plan.request
        self._names = {*FILES, *(name for one in plan.setting.view.files for name in one.names)}
        self.checkpoint, self.best, self.model = (plan.out / name for name in (CHECKPOINT_FILE, BEST_FILE, MODEL_FILE))

    @property
    def has_not_begun(self) -> bool:
        """True if its training was killed before its first checkpoint."""
        return not self.checkpoint.exists() and (self.path / RESUME_FILE).is_file()

    def make(self) -> bool:
        """Make and lock the folder, and write down the options; return whether there was none."""
        is_new = not self.path.exists()
        with output_errors(self.path, "made"):
            self.path.mkdir(parents=True, exist_ok=True)
        self.take()
        write_json(self.path / "options.resolved.json", self._options.portable())
        write_resume_file(self.path, self._options)
        self.write_manifest(is_final=False)
        return is_new

    def begin_anew(self) -> None:
        """Take back what a training has left that was killed before its first checkpoint."""
        for name in FILES:
            (self.path / name).unlink(missing_ok=True)

    def take_back(self, *, is_gone: bool) -> None:
        """Take back a folder in which nothing was reached."""
        if is_gone:
            shutil.rmtree(self.path, ignore_errors=True)
            return
        for entry in os.scandir(self.path):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                Path(entry.path).unlink(missing_ok=True)

    def write_manifest(self, *, is_final: bool) -> None:
        """Write down which files of the folder are ours."""
        write_manifest(self.path, self._names, is_final=is_final)


def check_writable(output: Path | None) -> None:
    """Refuse a model file that cannot be written, or would replace something else, before hours are spent on it."""
    if output is None:
        return
    if not output.parent.is_dir():
        raise OutputError(f"{output}: cannot be written (no such folder)")
    if output.is_dir():
        raise OutputError(f"{output}: is a folder, expected the name of a file for the model")
    if not os.access(output if output.exists() else output.parent, os.W_OK):
        raise OutputError(f"{output}: cannot be written (permission denied)")
    # Options of others name it, too: what else the user has stays.
    if output.exists() and not (output.is_file() and (output.stat().st_size == 0 or zipfile.is_zipfile(output))):
        raise OutputError(
            f"{output}: is there already and is not a model, expected the name of a model or of a new file"
        )
