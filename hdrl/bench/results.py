"""The folder of a result: who was judged, on which tasks, with what budget, and the points of every window.

``card.json`` says what it is; ``entry/`` holds the file of the policy, or the models; ``tasks/NAME/`` is a comparison
with the baseline of the task; ``manifest.json`` has the hash of every file.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from hdrl.base.errors import ReadError, readable
from hdrl.base.files import is_plain_file, read_json, read_text
from hdrl.base.pyfiles import CPP_SUFFIX, SUFFIX
from hdrl.bench.tasks import Named
from hdrl.experiment.compare.candidates import MODEL_SUFFIXES, Candidate
from hdrl.experiment.run.manifest import read_manifest
from hdrl.options.block import Block
from hdrl.options.reading import validated
from hdrl.options.sweep import Sweep

CARD_FILE, ENTRY_FOLDER, TASKS_FOLDER = "card.json", "entry", "tasks"
WITHDRAWN_FILE = "withdrawn.txt"
"""Why the sender has withdrawn a result, in a sentence: the file may be added later, and is in no manifest."""

MAX_TEXT_BYTES = 1 << 20
"""Size of the card, and of the sentence."""

Division = Literal["untrained", "trained", "clairvoyant"]

DIVISIONS: tuple[Division, ...] = ("untrained", "trained", "clairvoyant")
"""Information about the load: none, its part before the windows that judge, or true run times."""

Text = Annotated[str, Field(min_length=1, max_length=200)]
SafeName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+@~,-]{0,199}$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class TrainingCost(Block):
    """Cost of learning; 0 throughout for an entry without learning."""

    core_minutes: Annotated[float, Field(ge=0, le=1e9)] = Field(
        default=0.0, description="Core-minutes of all trainings, those included that were lost."
    )
    words: str = Field(default="", max_length=2000, description="Description of the training.")


class Card(Block):
    """Contents of ``card.json``."""

    name: SafeName = Field(description="Name of the entry on the board.")
    kind: Literal["policy", "python", "program", "models"] = Field(
        description="A policy by name, a Python file, a scheduler in C++, or models."
    )
    setting: Text = Field(description="Its setting; of a policy that several settings know, the first of them.")
    policy: str = Field(max_length=200, description="The policy, or what follows a Python file (+easy); else nothing.")
    files: list[SafeName] = Field(default_factory=list, description="Files in entry/.")
    division: Division = Field(description="In which division it enters.")
    tasks: dict[SafeName, Sha256] = Field(min_length=1, description="The tasks, with the SHA-256 of what they say.")
    training: TrainingCost = Field(default_factory=TrainingCost, description="Cost of learning.")
    hdrl: Text = Field(description="Version of hdrl that has made the result.")
    command: str = Field(max_length=2000, description="The command that makes it again, from within its folder.")


@dataclass(frozen=True, slots=True)
class BenchResult:
    """A result that was read.

    Attributes
    ----------
    folder
        Its folder.
    card
        Its card.
    """

    folder: Path
    card: Card

    def points(self, task: str) -> Path:
        """Return the folder of the comparison of a task."""
        return self.folder / TASKS_FOLDER / task

    def sweep(self, named: Named) -> Sweep:
        """Return the comparison that the result holds of a task, as the task of today has it."""
        return named.sweep([candidate_text(self.card, self.folder.absolute())])

    def withdrawn(self) -> str:
        """Return the reason of its withdrawal; empty if there was none."""
        path = self.folder / WITHDRAWN_FILE
        if not is_plain_file(path, MAX_TEXT_BYTES):
            return ""
        try:
            return readable(" ".join(read_text(path).split())) or "withdrawn"
        except ReadError as error:
            return str(error)

    def entry_sha256(self) -> str:
        """Return the hash of what decides: the policy, or the files of ``entry/``, whatever it is judged on."""
        card, there = self.card, read_manifest(self.folder).files
        files = {name: there.get(f"{ENTRY_FOLDER}/{name}") for name in card.files}
        data = {"kind": card.kind, "policy": card.policy, "setting": card.setting, "files": files}
        return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def candidate_text(card: Card, folder: Path) -> str:
    """Return the entry as a sweep names candidates."""
    place = folder / ENTRY_FOLDER
    if card.kind == "policy":
        return f"{card.name}={card.policy}"
    if card.kind in ("python", "program"):
        return f"{card.name}={place / card.files[0]}{card.policy}"
    one = card.files[0] if len(card.files) == 1 else f"*{Path(card.files[0]).suffix}"
    return f"{card.name}={place / one}"


def kind_of(candidate: Candidate) -> str:
    """Return the kind of an entry, as its card says it."""
    if candidate.is_model:
        return "models"
    if not candidate.is_file:
        return "policy"
    return "program" if candidate.files[0].endswith(CPP_SUFFIX) else "python"


def read_result(folder: str | Path) -> BenchResult:
    """Return a finished result.

    Raises
    ------
    ReadError
        If it holds none.
    OptionsError
        If its card is wrong.
    """
    folder = Path(folder)
    path = folder / CARD_FILE
    if not is_plain_file(path, MAX_TEXT_BYTES):
        most = f"{MAX_TEXT_BYTES >> 20} MiB"
        raise ReadError(
            folder, f"holds no finished result: no file {CARD_FILE} of at most {most} (hdrl bench run makes one)"
        )
    card = validated(Card, read_json(path), str(path))
    n_files = {"policy": 0, "python": 1, "program": 1}.get(card.kind)
    if n_files != len(card.files) if n_files is not None else not card.files:
        raise ReadError(path, f"names {len(card.files)} files, expected {n_files or 'at least 1'} for kind {card.kind}")
    if card.kind != "policy" and "/" in card.policy:
        raise ReadError(path, f"has policy {card.policy!r}, expected what follows a file, such as '+easy'")
    suffixes = {"python": (SUFFIX,), "program": (CPP_SUFFIX,), "models": MODEL_SUFFIXES}.get(card.kind, ())
    if not all(name.endswith(suffixes) for name in card.files):
        raise ReadError(path, f"names {card.files[0]}, expected files that end in {' or '.join(suffixes)}")
    return BenchResult(folder, card)
