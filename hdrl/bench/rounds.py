"""Rounds with hidden windows: the seeds of their tasks follow from a secret that is committed to first, revealed last.

A round is a file ``NAME.json``. It first holds the hash of a secret, then the hashes of the entries that take part, and
in the end the secret and a public value that was unknown before. Only then the tasks ``TASK@NAME`` exist.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from hdrl.base.commitments import commitment_of, revealed_seed
from hdrl.base.errors import OptionsError, OutputError, ReadError, UnknownName
from hdrl.base.files import expanded, read_json, read_text, write_json
from hdrl.options.block import Block
from hdrl.options.reading import validated

ROUNDS = Path(__file__).parent / "rounds"
"""Rounds that come with hdrl."""

ROUNDS_VARIABLE = "HDRL_ROUNDS"
"""Names folders with other rounds, with colons between them."""

AT = "@"
"""Stands between the name of a task and that of a round."""

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,60}$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Hexadecimal = Annotated[str, Field(pattern=r"^[0-9a-f]{16,128}$")]


class Round(Block):
    """Contents of the file of a round."""

    tasks: Annotated[list[Name], Field(min_length=1)] = Field(description="The tasks whose windows are hidden.")
    public_words: Annotated[str, Field(max_length=400)] = Field(
        description="Description of the public value: the hash of the first commit of a repository after a date."
    )
    commitment: Sha256 = Field(description="Hash of the secret.")
    entries: dict[Sha256, Annotated[str, Field(max_length=200)]] = Field(
        default_factory=dict, description="Hash of each entry that takes part, and its name."
    )
    secret: Hexadecimal | None = Field(default=None, description="The secret, once it is revealed.")
    public: Hexadecimal | None = Field(default=None, description="The public value.")

    @property
    def is_revealed(self) -> bool:
        """True if its windows are known."""
        return self.secret is not None and self.public is not None

    def seed_of(self, task: str) -> int:
        """Return the seed of a task; it must be revealed."""
        return revealed_seed(self.secret or "", self.public or "", task)


def new_round(name: str, tasks: Sequence[str], public_words: str, folder: Path) -> tuple[Path, Path]:
    """Draw a secret and write the file of a round beside the one with the secret; return both.

    Parameters
    ----------
    tasks
        Names of the tasks; their loads are generated, so that any seed gives other windows.

    Raises
    ------
    OutputError
        If one of the files is there already.
    OptionsError
        If the name is no name of a round.
    """
    secret = secrets.token_hex(32)
    data = {"tasks": list(tasks), "public_words": public_words, "commitment": commitment_of(secret)}
    path, kept = folder / f"{name}.json", folder / f"{name}.secret"
    one = validated(Round, data, str(path))
    if AT in name or "/" in name or not name:
        raise OptionsError(f"{name!r} is not a name of a round, expected letters, digits, '.', '_' and '-'")
    for there in (path, kept):
        if there.exists():
            raise OutputError(f"{there}: exists already, expected a new round")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{secret}\n")
    except OSError as error:
        raise OutputError(f"{kept}: cannot be written ({error.strerror})") from None
    write_json(path, one.model_dump(mode="json"))
    return path, kept


def read_round(path: Path) -> Round:
    """Read a round; one that is revealed must fit its commitment.

    Raises
    ------
    ReadError
        If the secret is not the one that was committed to.
    OptionsError
        If the file is no round.
    """
    found = validated(Round, read_json(path), str(path))
    if found.secret is not None and commitment_of(found.secret) != found.commitment:
        raise ReadError(path, "has a secret that does not match its commitment")
    return found


def commit_entries(path: Path, entries: Mapping[str, str]) -> Round:
    """Add entries, a name by the hash of each, to a round that is not revealed yet.

    Raises
    ------
    OptionsError
        If it is revealed.
    """
    found = read_round(path)
    if found.is_revealed:
        raise OptionsError(f"{path}: is revealed already; commit entries before")
    found = found.model_copy(update={"entries": found.entries | dict(entries)})
    write_json(path, found.model_dump(mode="json"))
    return found


def reveal(path: Path, secret_file: Path, public: str) -> Round:
    """Write the secret and the public value into a round: from now on its tasks exist.

    Raises
    ------
    OptionsError
        If it is revealed already, or the public value is none.
    ReadError
        If the secret is another one.
    """
    found = read_round(path)
    if found.is_revealed:
        raise OptionsError(f"{path}: is revealed already")
    secret = read_text(secret_file).strip()
    if commitment_of(secret) != found.commitment:
        raise ReadError(secret_file, f"holds a secret that does not match the commitment of {path}")
    data = found.model_dump(mode="json") | {"secret": secret, "public": public}
    found = validated(Round, data, str(path))
    write_json(path, found.model_dump(mode="json"))
    return found


def round_folders() -> list[Path]:
    """Return the folders in which rounds are looked for."""
    named = os.environ.get(ROUNDS_VARIABLE, "").split(os.pathsep)
    return [ROUNDS, *(expanded(folder) for folder in named if folder)]


def find_round(name: str) -> Round:
    """Return a round by its name.

    Raises
    ------
    UnknownName
        If there is none.
    OptionsError
        If it is not revealed.
    """
    known = {path.stem: path for folder in round_folders() for path in sorted(folder.glob("*.json"))}
    if name not in known:
        raise UnknownName(f"round (in the folders of {ROUNDS_VARIABLE})", name, known)
    found = read_round(known[name])
    if not found.is_revealed:
        raise OptionsError(f"round {name} is not revealed yet: its windows are hidden")
    return found
