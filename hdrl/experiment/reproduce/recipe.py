"""Experiments that are claimed: what each of them shows, what it runs, and what it needs.

An experiment is a folder with ``experiment.json``, the options or sweep files that it names, and ``reference.csv``, the
results that are claimed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from hdrl import experiments
from hdrl.base.errors import ReadError, UnknownName
from hdrl.base.files import expanded, read_json, unsafe_reason, user_folder
from hdrl.base.hashing import sha256_of_file
from hdrl.experiment.reproduce.claims import Claim
from hdrl.experiment.reproduce.resulttable import read_reference
from hdrl.experiments.findings import Finding, Place
from hdrl.options.block import Block
from hdrl.options.reading import validated

RECIPE = "experiment.json"
REFERENCE = "reference.csv"
TRACES_VARIABLE = "HDRL_TRACES"
"""Name of the environment variable with folders in which traces are looked for."""

FOLDER = Path(experiments.__file__).parent
INSTALLED_FOLDER = Path(__file__).parents[2] / "experiments"
"""Folder of the experiments unless hdrl runs from a checkout."""

Text = Annotated[str, Field(min_length=1)]
FileName = Annotated[str, Field(pattern=r"^[^/\\\x00]+$")]


class TraceNeed(Block):
    """A trace that usually cannot be shipped: a file, or a folder of files."""

    is_folder: bool = Field(default=False, description="True if it is a folder.")
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = Field(
        default=None, description="SHA-256 of the file as it is, if only one version will do."
    )
    how: Text = Field(description="Instructions to get it, a sentence.")

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        if self.is_folder and self.sha256 is not None:
            raise ValueError("sha256 is for a file, not for a folder")
        return self


class Effect(Block):
    """A number that is an effect, though its protocol does not say so: what it is held against."""

    row: Text = Field(description="Its row.")
    column: Text = Field(description="Its column.")
    against: float | Text = Field(description="The number without the effect, or the row that holds it.")


class Recipe(Block):
    """Contents of ``experiment.json``."""

    title: Text = Field(description="Title, a line.")
    question: Text = Field(description="The question that it answers.")
    source: Text = Field(description="Source of the claim.")
    notes: list[Text] = Field(default_factory=list, description="Further notes for readers.")
    kind: Literal["options", "sweep", "protocol", "training"] = Field(description="Kind of run.")
    options: dict[Text, FileName] = Field(
        default_factory=dict, description="Options files by the name of their row: kind options, and training."
    )
    starts_from: dict[Text, Text] = Field(
        default_factory=dict,
        description="kind training: the row whose model of the same seed a row starts from, by row.",
    )
    sweep: FileName | None = Field(default=None, description="Sweep file: kind sweep; what judges a training.")
    setting: Text = Field(default="batch", description="The setting that knows the protocol.")
    protocol: Text | None = Field(
        default=None, description="Name of a function: kind protocol; what judges a training."
    )
    judges: Literal["rows", "all"] = Field(
        default="rows", description="kind training: whether the protocol is given the models of a row, or of all rows."
    )
    seeds: list[Annotated[int, Field(ge=0)]] = Field(default_factory=list, description="Seeds of trainings.")
    metrics: list[Text] = Field(default_factory=list, description="Metrics of runs that are claimed.")
    logged: list[Text] = Field(
        default_factory=list, description="Columns of training.csv whose last values are claimed, means over the seeds."
    )
    by_workload: bool = Field(
        default=True, description="True if the numbers of single workloads are claimed beside those of all: of a sweep."
    )
    effects: list[Effect] = Field(
        default_factory=list, description="Reference values of numbers that are neither ratios nor differences."
    )
    traces: dict[FileName, TraceNeed] = Field(default_factory=dict, description="Traces that it needs, by file name.")
    is_long: bool = Field(default=False, description="True if it takes more than some minutes.")
    relative_tolerance: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=1e-6, description="By which share of a claimed number a result may differ."
    )

    @model_validator(mode="after")
    def _check_runs(self) -> Self:
        wanted = {
            "options": bool(self.options and self.metrics),
            "sweep": self.sweep is not None,
            "protocol": self.protocol is not None,
            "training": bool(self.options and self.seeds) and (self.sweep is None) != (self.protocol is None),
        }
        if not wanted[self.kind]:
            needs = {
                "options": "options and metrics",
                "sweep": "sweep",
                "protocol": "protocol",
                "training": "options, seeds and either sweep or protocol",
            }
            raise ValueError(f"kind {self.kind!r} needs {needs[self.kind]}")
        _ = self.generations()
        return self

    def nulls(self, results: Mapping[Place, Finding]) -> dict[Place, float]:
        """Return the number without an effect of each of `effects`, by row and column."""
        found: dict[Place, float] = {}
        for one in self.effects:
            positions = [(one.row, one.column)]
            if isinstance(one.against, str):
                positions.append((one.against, one.column))
            for position in positions:
                if position not in results:
                    raise ValueError(
                        f"effects names {position[0]!r}, {position[1]!r}, which is not a number of this experiment"
                    )
            found[positions[0]] = results[positions[1]].value if isinstance(one.against, str) else one.against
        return found

    def generations(self) -> list[list[str]]:
        """Return the rows of trainings in an order in which they can be trained: those that need no other one first."""
        for row, parent in self.starts_from.items():
            for name in (row, parent):
                if name not in self.options:
                    raise ValueError(f"starts_from names {name!r}, which is not a row of options")
        found: list[list[str]] = []
        left = list(self.options)
        while left:
            ready = [row for row in left if self.starts_from.get(row) not in left]
            if not ready:
                raise ValueError(f"starts_from has a cycle: {', '.join(left)}")
            found.append(ready)
            left = [row for row in left if row not in ready]
        return found


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment that can be reproduced."""

    name: str
    folder: Path
    recipe: Recipe  # contents of its file

    def sha256(self) -> str:
        """Return the SHA-256 of all files of the experiment but the reference, names included."""
        digest = hashlib.sha256()
        folders = [self.folder / name for name, need in self.recipe.traces.items() if need.is_folder]
        for path in sorted([*self.folder.iterdir(), *(path for folder in folders for path in folder.rglob("*"))]):
            name = path.relative_to(self.folder).as_posix()
            if path.is_file() and name != REFERENCE:
                digest.update(json.dumps([name, path.stat().st_size]).encode())
                digest.update(path.read_bytes())
        return digest.hexdigest()

    def claims(self) -> list[Claim]:
        """Return its claims; none if it has no reference."""
        path = self.folder / REFERENCE
        return read_reference(path, self.recipe.relative_tolerance) if path.is_file() else []


def shipped_experiments() -> dict[str, Path]:
    """Return the experiments that come with hdrl: their folders by name, sorted.

    They are in ``experiments/`` of a checkout, which is installed as `hdrl.experiments`.
    """
    return {path.parent.name: path.parent for path in sorted(FOLDER.glob(f"*/{RECIPE}"))}


def read_experiment(name: str | Path) -> Experiment:
    """Read an experiment.

    The name is that of a shipped one, or a folder that holds ``experiment.json``.
    """
    folder = Path(name)
    shipped = shipped_experiments()
    if not (folder / RECIPE).is_file():
        if str(name) not in shipped:
            if folder.is_dir() or len(folder.parts) > 1:
                problem = f"has no {RECIPE}" if folder.is_dir() else "no such folder"
                raise ReadError(name, f"{problem}, expected the folder of an experiment or the name of a shipped one")
            raise UnknownName("experiment", str(name), shipped)
        folder = shipped[str(name)]
    path = folder / RECIPE
    recipe = validated(Recipe, read_json(path), str(path))
    files = [*recipe.options.values(), *([recipe.sweep] if recipe.sweep is not None else [])]
    for file in files:
        if not (folder / file).is_file():
            raise ReadError(path, f"names {file!r}, which is not in its folder")
    return Experiment(folder.resolve().name, folder, recipe)


def trace_folders(given: Sequence[str | Path] = ()) -> list[Path]:
    """Return the folders to search for traces: those given, those of ``HDRL_TRACES``, that of fetched logs."""
    named = os.environ.get(TRACES_VARIABLE, "").split(os.pathsep)
    fetched = user_folder("workloads")
    ours = [] if unsafe_reason(fetched) else [fetched]  # where others cannot replace logs
    return [*(expanded(folder) for folder in (*given, *named) if str(folder)), *ours]


def missing_traces(experiment: Experiment, folders: Sequence[Path]) -> list[str]:
    """Return the names of the traces that an experiment needs and that are in none of the folders, nor shipped."""
    return [name for name in experiment.recipe.traces if _find(experiment, name, folders) is None]


def find_traces(experiment: Experiment, folders: Sequence[Path]) -> dict[str, Path]:
    """Return the traces that an experiment needs, by file name; what is shipped is looked at last."""
    found = {}
    for name, need in experiment.recipe.traces.items():
        path = _find(experiment, name, folders)
        if path is None:
            where, what = ", ".join(map(str, folders)), "folder" if need.is_folder else "trace"
            raise ReadError(
                experiment.name,
                f"needs the {what} {name}, which cannot be shipped; looked in: {where}. {need.how} Then name its "
                f"folder: --traces DIR, or {TRACES_VARIABLE}=DIR",
            )
        if need.sha256 is not None and (mine := sha256_of_file(path)) != need.sha256:
            raise ReadError(path, f"is another version: its SHA-256 is {mine}, expected {need.sha256}")
        found[name] = path
    return found


def _find(experiment: Experiment, name: str, folders: Sequence[Path]) -> Path | None:
    need = experiment.recipe.traces[name]
    paths = (folder / name for folder in (*folders, experiment.folder))
    return next((path for path in paths if (path.is_dir() if need.is_folder else path.is_file())), None)
