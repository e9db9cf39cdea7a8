"""Going on with a training: what it was asked for, and whether it is still the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hdrl.errors import OptionsError, ReadError
from hdrl.experiment.run.agentfile import AgentChoice
from hdrl.experiment.run.inputs import RESUME_FILE, parse_options
from hdrl.experiment.train.modelfile import read_checkpoint
from hdrl.files import read_json, write_json
from hdrl.options.file import OptionsFile

if TYPE_CHECKING:
    from hdrl.learn.checkpoint import Checkpoint

MAY_CHANGE = frozenset(
    (
        *("runs", "learning.iterations", "learning.checkpoint_every", "learning.tensorboard", "learning.device"),
        *("agent.output_model", "pybatsim.agent.output_model", "pybatsim.log_level"),
    )
)
"""Options that may differ when a training is resumed: how long it takes, where, and how it reports its progress."""


def write_resume_file(folder: Path, options: OptionsFile) -> None:
    """Note what a training was asked for, so that its folder is all that resuming needs."""
    data = {
        "where": options.where,
        "folder": str(options.folder.absolute()),
        "options": options.model_dump(mode="json"),
    }
    write_json(folder / RESUME_FILE, data)


def resumed_options(folder: str | Path, overrides: Sequence[str] = ()) -> OptionsFile:
    """Return the options of a training to resume.

    Parameters
    ----------
    folder
        Folder of the training.
    overrides
        Changes such as ``"learning.iterations=200"``; only some are possible.

    Raises
    ------
    ReadError
        If the folder is not that of a training.
    OptionsError
        If a change is wrong.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ReadError(folder, "no such folder, expected that of a training")
    if not (folder / RESUME_FILE).is_file():
        raise ReadError(folder, f"has no {RESUME_FILE}, expected the folder of a training")
    data = read_json(folder / RESUME_FILE)
    try:
        where, start, values = str(data["where"]), Path(data["folder"]), data["options"]
    except (KeyError, TypeError):
        raise ReadError(folder / RESUME_FILE, "must hold where, folder and options") from None
    return parse_options(values, where=where, folder=start, overrides=overrides)


def read_resumed(path: Path, choice: AgentChoice) -> Checkpoint:
    """Read the checkpoint of a training.

    Raises
    ------
    ReadError
        If it cannot be read, or holds no training.
    OptionsError
        If the agent's file has changed.
    """
    checkpoint = read_checkpoint(path)
    if not checkpoint.training or "options" not in checkpoint.notes:
        raise ReadError(path, "holds a model without its training")
    if (checkpoint.notes.get("agent_sha256") or "") != choice.sha256:
        raise OptionsError(f"{choice.path}: has changed since the training in {path.parent} began")
    return checkpoint


def check_same_training(options: OptionsFile, jobs: Mapping[str, Any], before: Mapping[str, Any], folder: Path) -> None:
    """Refuse to resume a training that is another one now.

    Parameters
    ----------
    options
        The options now.
    jobs
        On which jobs it would train now, with the hash of their workload.
    before
        The notes of its checkpoint: its portable ``options``, and the jobs that it was ``trained_on``.
    folder
        Its folder.

    Raises
    ------
    OptionsError
        If an option differs that makes another training of it, or the jobs do.
    """
    now, then = dict(_flat(options.portable())), dict(_flat(before["options"]))
    for key in (*now, *(key for key in then if key not in now)):
        if key not in MAY_CHANGE and now.get(key) != then.get(key):
            raise OptionsError(
                f"{folder}: was trained with {key} = {then.get(key)!r}, not {now.get(key)!r}; a resumed training "
                "keeps its options"
            )
    known = before.get("trained_on") or {}
    # Older versions said less of them.
    if "workload_sha256" not in known or any(jobs.get(key) != value for key, value in known.items()):
        raise OptionsError(
            f"{folder}: the jobs of {jobs['workload']} have changed since the training began;"
            " a resumed training keeps its jobs"
        )


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _flat(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, value
