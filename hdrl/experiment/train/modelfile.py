"""Model files: what an agent has learned, with all that using it needs, whichever API it has.

The format is that of `hdrl.learn.checkpoint`. Its ``algorithm`` is the name of a built-in algorithm, or ``file:`` and
the name of the agent file. A file of HDeepRM (``{"model_state_dict": ...}``, or bare weights) can be started from, too.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from hdrl.base.errors import LearningError, OptionsError, ReadError, readable
from hdrl.base.files import atomic_write_bytes
from hdrl.base.pyfiles import located_errors
from hdrl.experiment.recognition import DIGITS, is_sketch
from hdrl.experiment.run.agentfile import AgentChoice, AgentKind
from hdrl.experiment.train.environments import ChosenEnvironment, environment_from
from hdrl.options.problems import shown
from hdrl.options.reading import checked
from hdrl.setting import BATCH, SETTINGS, Setting

if TYPE_CHECKING:
    from hdrl.learn.agent import Agent
    from hdrl.learn.checkpoint import Checkpoint
    from hdrl.learn.library import Specialist


FILE = "file:"
"""Prefix of the algorithm of an agent from a file."""

AVERAGED = "averaged_sha256"
"""Note of a model that is the average of others: the hashes of their files."""

IS_UNTRAINED = "is_untrained"
"""Note of a model with the weights that a training began with."""


def algorithm_of(choice: AgentChoice) -> str:
    """Return the name of an agent's algorithm in a model file."""
    return choice.name if choice.path is None else f"{FILE}{choice.path.name}"


def checkpoint_of_choice(
    choice: AgentChoice,
    agent: Agent,
    environment: Mapping[str, Any],
    notes: Mapping[str, Any],
    training: Mapping[str, Any] | None = None,
    specialists: Sequence[Specialist] = (),
) -> Checkpoint:
    """Return the contents of a model file of an agent.

    ``notes`` is whatever else is worth keeping, as JSON. Without ``training``, it cannot be resumed.
    """
    from hdrl.learn.checkpoint import checkpoint_of
    from hdrl.learn.library import with_specialists

    known = {"agent_sha256": choice.sha256 or None, "api": choice.kind.value, **notes}
    found = checkpoint_of(agent, algorithm_of(choice), environment=environment, training=training, notes=known)
    return replace(found, agent=with_specialists(found.agent, specialists))


def load_weights(agent: Agent, model: Mapping[str, Any], where: str, path: Path | None = None) -> None:
    """Let an agent start from the weights of a model file."""
    try:
        with located_errors(path):
            agent.load_weights(model)
    except LearningError as error:
        raise LearningError(f"{where}: {error}") from None


class _LoadPart(BaseModel):
    """Jobs of one load; nothing of it need be there."""

    model_config = ConfigDict(strict=True, extra="allow", defer_build=True)

    workload: str = ""
    workload_sha256: str = ""
    n_jobs: int = 0
    first_job: int = 0
    last_job: int = 0
    platform: str = ""
    seed: int | None = None  # of a generated load
    sketch: str = ""

    @field_validator("sketch")
    @classmethod
    def _check_sketch(cls, sketch: str) -> str:
        if not is_sketch(sketch):
            raise ValueError(f"sketch is {shown(sketch)}, expected hexadecimal digits, {DIGITS} for each hash")
        return sketch


class _TrainedOn(_LoadPart):
    """Jobs on which a model was trained."""

    further: list[_LoadPart] = Field(default_factory=list)
    chosen_by: _LoadPart | None = None


class _Notes(BaseModel):
    """Notes of a training in its model file; models that were saved in Python have none of it."""

    model_config = ConfigDict(strict=True, extra="allow", defer_build=True)

    api: Literal["learning", "hdeeprm"] = "learning"
    agent_sha256: str | None = None
    trained_on: _TrainedOn = _TrainedOn()
    state_layout: str = ""


class _Environment(BaseModel):
    """Environment in which a model decides."""

    model_config = ConfigDict(strict=True, defer_build=True)

    id: str
    arguments: dict[str, Any] = Field(default_factory=dict)

    @field_validator("arguments")
    @classmethod
    def _check_actions(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        actions = arguments.get("actions")
        if isinstance(actions, dict):
            actions = [actions]
        if actions is not None and not (
            isinstance(actions, list) and all(isinstance(one, (str, dict)) for one in actions)
        ):
            raise ValueError(f"arguments: actions is {shown(actions)}, expected a list of texts")
        return arguments


def read_checkpoint(path: str | Path) -> Checkpoint:
    """Read a model file and what a training has noted in it."""
    from hdrl.learn.checkpoint import load_checkpoint

    checkpoint = load_checkpoint(path)
    checked(_Notes, checkpoint.notes, path, message="is a damaged model file (notes: {})", whole="")
    try:
        checkpoint.spaces()
    except LearningError as error:
        raise ReadError(path, f"is a damaged model file ({error})") from None
    return checkpoint


def api_of(checkpoint: Checkpoint) -> str:
    """Return the kind of the agent of a model file: a value of `AgentKind`."""
    return str(checkpoint.notes.get("api", "learning"))


def spec_of(checkpoint: Checkpoint, path: str | Path, setting: Setting | None = None) -> ChosenEnvironment:
    """Return the environment in which the model of a file decides; without a setting, one of any shipped setting."""
    settings = [SETTINGS[name] for name in SETTINGS] if setting is None else [setting]
    known = {one.id: one for each in settings for one in each.environments.values()}
    if not checkpoint.environment:
        *_, example = (setting or SETTINGS[BATCH]).environments.values()
        raise ReadError(
            path,
            "names no environment; save it with checkpoint_of(..., "
            f"environment={{'id': '{example.id}', 'arguments': {{}}}})",
        )
    message = "is a damaged model file (environment: {})"
    found = checked(_Environment, checkpoint.environment, path, message=message, whole="")
    if found.id not in known and setting is not None:
        for other in (SETTINGS[name] for name in SETTINGS):
            if found.id in {one.id for one in other.environments.values()}:
                raise ReadError(path, f"is a model of setting {other.name}, expected one of setting {setting.name}")
    if found.id not in known:
        raise ReadError(
            path, f"is a damaged model file (environment: id is {found.id!r}, expected {' or '.join(known)})"
        )
    given = sorted(set(found.arguments) & (known[found.id].given - known[found.id].physics))
    if given:
        text = f"environment: arguments is an object, expected no {given[0]}: what is simulated says that"
        raise ReadError(path, f"is a damaged model file ({text})")
    return environment_from(known[found.id], found.arguments)


def check_same_file(choice: AgentChoice, checkpoint: Checkpoint, path: Path) -> None:
    """Refuse an agent file that is not the one that a model was trained with."""
    trained = checkpoint.notes.get("agent_sha256")
    if choice.path is not None and trained and trained != choice.sha256:
        raise OptionsError(
            f"{choice.path}: is not the file that trained {path}: its SHA-256 begins with {choice.sha256[:12]}, "
            f"expected {readable(trained[:12])}"
        )


def read_model(path: Path, choice: AgentChoice) -> tuple[Mapping[str, Any], Checkpoint | None]:
    """Read a model file for an agent.

    The first is for `load_weights`, the second the whole content of a file of ours, ``None`` for one of HDeepRM.
    """
    try:
        checkpoint = read_checkpoint(path)
    except ReadError as error:
        foreign = _model_of_hdeeprm(path) if choice.kind is AgentKind.HDEEPRM else None
        if foreign is None:
            raise error from None
        return foreign, None
    if api_of(checkpoint) != choice.kind.value or (choice.path is None and checkpoint.algorithm != choice.name):
        raise OptionsError(f"{path}: is a model of {checkpoint.algorithm}, not of {algorithm_of(choice)}")
    return checkpoint.agent, checkpoint


def check_hdeeprm_layout(choice: AgentChoice, output: Path | None) -> None:
    """Refuse to save a model as HDeepRM does if HDeepRM could not load it."""
    if output is None:
        raise OptionsError("--hdeeprm-model sets the format of --outmodel FILE, which is missing")
    if choice.kind is not AgentKind.HDEEPRM:
        raise OptionsError(f"--hdeeprm-model is for agents of HDeepRM's API; {choice.name} has another API")


def write_hdeeprm_model(source: Path, target: Path) -> None:
    """Write the weights and the optimiser of a model file as HDeepRM 0.3.1 does."""
    import torch

    agent = read_checkpoint(source).agent
    with atomic_write_bytes(target) as out:
        torch.save({name: agent[name] for name in ("model_state_dict", "optimizer_state_dict")}, out)


def _model_of_hdeeprm(path: Path) -> Mapping[str, Any] | None:
    """Return the contents of a model file of HDeepRM, ``None`` if it is none."""
    import torch

    from hdrl.learn.checkpoint import read_tensors

    try:
        if zipfile.is_zipfile(path):
            content = read_tensors(path.read_bytes(), path)
        else:  # as torch wrote before 1.6
            content = torch.load(path, weights_only=True, map_location="cpu")
    except Exception:  # noqa: BLE001 - torch raises whatever its parts do; the reader of our files has said what is wrong
        return None
    if not isinstance(content, dict):
        return None
    weights = content.get("model_state_dict", content)
    is_model = isinstance(weights, dict) and all(isinstance(value, torch.Tensor) for value in weights.values())
    return content if is_model else None
