"""Model files: an agent with all that is needed to use it, to judge it, and to resume its training.

A model file says what it is: the algorithm and its settings, the spaces, the environment and its arguments, the
weights, and, if the training can be resumed, its whole state. It is read by ``torch.load(weights_only=True)``,
which runs no code of the file.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from pydantic import BaseModel, ConfigDict, ValidationError

from hdrl.base.errors import LearningError, ReadError, readable
from hdrl.base.files import atomic_write_bytes
from hdrl.learn.agent import Agent, one_line
from hdrl.learn.packing import pack, unpack
from hdrl.learn.spaces import space_as_json, space_from_json
from hdrl.options.problems import problem_of
from hdrl.version import VERSION

FORMAT = "hdrl model"
FORMAT_VERSION = 1

NOT_OURS = "is not a model file of hdrl; hdrl model import reads files of Stable-Baselines3, RLlib and CleanRL"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The content of a model file.

    Attributes
    ----------
    algorithm
        Name of the algorithm, for instance ``"ppo"``, or whatever finds the class of a custom agent.
    config
        Its settings, as JSON.
    observation_space, action_space
        Spaces of the agent, as JSON (`hdrl.learn.spaces.space_as_json`).
    agent
        What `hdrl.learn.agent.Agent.state_dict` returned.
    environment
        Environment of the training, as JSON: for instance ``{"id": "hdrl/JobPick-v0", "arguments": {...}}``.
    training
        What `hdrl.learn.train.Trainer.state_dict` returned, without the agent; empty in a model that is only to be
        used.
    notes
        Whatever else is worth keeping, as JSON: counters, results of validation.
    hdrl_version
        Version that wrote the file.
    """

    algorithm: str
    config: dict[str, Any]
    observation_space: dict[str, Any]
    action_space: dict[str, Any]
    agent: dict[str, Any]
    environment: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)
    hdrl_version: str = VERSION

    def __repr__(self) -> str:
        return f"<Checkpoint of {self.algorithm} in {self.environment.get('id', 'an unknown environment')}>"

    def spaces(self) -> tuple[gym.Space[Any], gym.Space[Any]]:
        """Return the observation and the action space."""
        return space_from_json(self.observation_space), space_from_json(self.action_space)

    def training_state(self) -> dict[str, Any]:
        """Return the state for `hdrl.learn.train.Trainer.load_state_dict`.

        Raise LearningError if the file holds a model without its training.
        """
        if not self.training:
            raise LearningError("the model was saved without its training, so it cannot be resumed")
        return {**self.training, "agent": self.agent}


def checkpoint_of(
    agent: Agent,
    algorithm: str,
    *,
    environment: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
    notes: Mapping[str, Any] | None = None,
) -> Checkpoint:
    """Return the contents of a model file of an agent.

    Parameters
    ----------
    algorithm
        Name by which its class is found.
    training
        What `hdrl.learn.train.Trainer.state_dict` returned; ``None``: the training cannot be resumed.
    notes
        Whatever else is worth keeping; JSON.
    """
    return Checkpoint(
        algorithm=algorithm,
        config=agent.config.as_json(),
        observation_space=space_as_json(agent.observation_space),
        action_space=space_as_json(agent.action_space),
        agent=agent.state_dict(),
        environment=dict(environment or {}),
        training={name: part for name, part in (training or {}).items() if name != "agent"},
        notes=dict(notes or {}),
    )


class _Header(BaseModel):
    """Header of a model file."""

    model_config = ConfigDict(strict=True)

    algorithm: str
    config: dict[str, Any]
    observation_space: dict[str, Any]
    action_space: dict[str, Any]
    environment: dict[str, Any]
    notes: dict[str, Any]
    hdrl_version: str


_JSON = tuple(_Header.model_fields)
_STATES = ("agent", "training")


def save_checkpoint(path: str | Path, checkpoint: Checkpoint) -> None:
    """Write a model file; it appears whole or not at all, and equal content gives equal bytes.

    Parameters
    ----------
    path
        The file to make or to replace; its folder must exist.

    Raises
    ------
    OutputError
        If it cannot be written.
    LearningError
        If it holds what a model file cannot hold.
    """
    try:
        header = json.dumps({name: getattr(checkpoint, name) for name in _JSON}, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise LearningError(f"the header of a model file must be JSON: {error}") from None
    content = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "header": header,
        **{name: pack(getattr(checkpoint, name)) for name in _STATES},
    }
    buffer = io.BytesIO()
    torch.save(content, buffer)
    with atomic_write_bytes(path) as out:
        out.write(buffer.getbuffer())


def load_checkpoint(path: str | Path) -> Checkpoint:
    """Read a model file; nothing in it is run.

    Raises
    ------
    ReadError
        If it is missing, truncated, damaged, of another program, or of a newer version.
    """
    content = _read(Path(path))
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ReadError(path, NOT_OURS)
    version = content.get("format_version")
    if version != FORMAT_VERSION:
        raise ReadError(path, f"is a model file of version {version!r}, expected {FORMAT_VERSION}")
    try:
        header = _Header.model_validate_json(content["header"])
        states = {name: unpack(content[name]) for name in _STATES}
        for name, state in states.items():
            if not isinstance(state, dict):
                raise TypeError(f"{name} is {state!r:.60}, expected a mapping")
        return Checkpoint(**dict(header), **states)
    except ValidationError as error:
        raise ReadError(path, f"is a damaged model file ({problem_of(_Header, error, 'its header')})") from None
    except (KeyError, TypeError, ValueError, RecursionError, LearningError) as error:
        raise ReadError(path, f"is a damaged model file ({one_line(error)})") from None


def _read(path: Path) -> Any:
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise ReadError(path, "no such file, expected a model file") from None
    except IsADirectoryError:
        raise ReadError(path, "is a folder, expected a model file") from None
    except OSError as error:
        raise ReadError(path, f"cannot be read ({error.strerror})") from None
    if zipfile.is_zipfile(io.BytesIO(data)) and "policy.pth" in zipfile.ZipFile(io.BytesIO(data)).namelist():
        raise ReadError(path, NOT_OURS)
    return read_tensors(data, path)


def read_tensors(data: bytes, path: Path) -> Any:
    """Return the contents of a file of ``torch.save``; nothing in it is run.

    Raise ReadError if they are damaged, or hold anything but tensors, numbers, texts, lists and dictionaries.

    ``path``: where they come from, for messages.
    """
    if not zipfile.is_zipfile(io.BytesIO(data)):
        raise ReadError(path, "is not a model file, or a truncated one")
    _check_unpacked(data, path)
    _check_intact(data, path)
    # torch raises whatever its parts do, and no damaged file may show a traceback.
    try:
        return torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")
    except Exception as error:  # noqa: BLE001
        why = one_line(error)
        if type(error).__name__ == "UnpicklingError":  # torch's own words are about how to run it all the same
            why = "it holds more than tensors; save the network's state_dict()"
        raise ReadError(path, f"is a damaged or foreign model file ({why})") from None


def _check_unpacked(data: bytes, path: Path) -> None:
    """Refuse files that would grow while they are read: ``torch.save`` compresses nothing."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            parts = file.infolist()
    except (zipfile.BadZipFile, UnicodeDecodeError, NotImplementedError) as error:
        raise ReadError(path, f"is a damaged or foreign model file ({one_line(error)})") from None
    if any(part.compress_type != zipfile.ZIP_STORED for part in parts):
        raise ReadError(path, "is compressed, expected what torch.save writes")
    if sum(part.file_size for part in parts) > len(data):
        raise ReadError(path, f"describes tensors of more than its {len(data):,} bytes")


def _check_intact(data: bytes, path: Path) -> None:
    """Compare the parts of a file with their checksums, which torch ignores: a flipped bit is another weight."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            damaged = file.testzip()
    except Exception as error:  # noqa: BLE001
        raise ReadError(path, f"is a damaged or foreign model file ({one_line(error)})") from None
    if damaged is not None:
        raise ReadError(path, f"is a damaged model file ({readable(damaged)} differs from its checksum)")
