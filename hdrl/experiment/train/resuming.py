"""Going on with a training: its options, and whether they are still the same."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hdrl.base.errors import LearningError, OptionsError, ReadError
from hdrl.base.files import read_json, write_json
from hdrl.base.pyfiles import UntrustedFile
from hdrl.experiment.run.agentfile import AgentChoice
from hdrl.experiment.run.inputs import RESUME_FILE, parse_options
from hdrl.experiment.train.modelfile import read_checkpoint
from hdrl.options.file import OptionsFile
from hdrl.version import VERSION

if TYPE_CHECKING:
    from hdrl.learn.checkpoint import Checkpoint

MAY_CHANGE = frozenset(
    (
        *("runs", "learning.iterations", "learning.checkpoint_every", "learning.tensorboard", "learning.device"),
        *("agent.output_model", "pybatsim.agent.output_model", "pybatsim.log_level"),
    )
)
"""Options that may differ when a training is resumed: how long it takes, where, and how it reports its progress."""

LAYOUT = "state_layout"
"""Under which name a checkpoint notes how the environments of its version keep their episodes (`layout_of`)."""

_ADVICE = "train anew, or go on with the version that wrote it"


def write_resume_file(folder: Path, options: OptionsFile) -> None:
    """Write down the options of a training, so that its folder is all that resuming needs."""
    data = {
        "where": options.where,
        "folder": str(options.folder.absolute()),
        "options": options.model_dump(mode="json"),
    }
    write_json(folder / RESUME_FILE, data)


def resumed_options(folder: str | Path, overrides: Sequence[str] = (), *, trust: bool = False) -> OptionsFile:
    """Return the options of a training to resume.

    Parameters
    ----------
    overrides
        Changes such as ``"learning.iterations=200"``; only some are possible.
    trust
        True if the Python files may run that the folder names: of the agent, the setting, the objective.
    """
    folder = Path(folder)
    if not folder.is_dir():
        problem = "is a file, expected the folder" if folder.exists() else "no such folder, expected that"
        raise ReadError(folder, f"{problem} of a training")
    if not (folder / RESUME_FILE).is_file():
        raise ReadError(folder, f"has no {RESUME_FILE}, expected the folder of a training")
    data = read_json(folder / RESUME_FILE)
    try:
        where, start, values = str(data["where"]), Path(data["folder"]), data["options"]
    except (KeyError, TypeError):
        raise ReadError(folder / RESUME_FILE, "holds no options of a training (where, folder, options)") from None
    try:
        return parse_options(values, where=where, folder=start, overrides=overrides, trust=trust)
    except UntrustedFile as error:  # it is this folder that names it now
        raise UntrustedFile(folder / RESUME_FILE, error.name, error.instead, error.what) from None


def read_resumed(path: Path, choice: AgentChoice) -> Checkpoint:
    """Read the checkpoint of a training."""
    checkpoint = read_checkpoint(path)
    if not checkpoint.training or "options" not in checkpoint.notes:
        raise ReadError(path, "holds a model without its training")
    if (checkpoint.notes.get("agent_sha256") or "") != choice.sha256:
        raise OptionsError(f"{choice.path}: has changed since the training in {path.parent} began")
    return checkpoint


def check_same_training(options: OptionsFile, jobs: Mapping[str, Any], before: Mapping[str, Any], folder: Path) -> None:
    """Refuse to resume a training that is another one now.

    ``before`` are the notes of its checkpoint: its portable ``options``, and the jobs that it was ``trained_on``.
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


def layout_of(envs: Any) -> str:
    """Return the layout of the environments' state, as a hash; empty if they do not give it."""
    layout = getattr(envs, "state_layout", None)
    return str(layout()) if callable(layout) else ""


def check_same_layout(checkpoint: Checkpoint, layout: str, path: Path) -> None:
    """Refuse to go on from a checkpoint of another version, whose episodes cannot be continued here.

    ``layout`` is what `layout_of` says of the same environments now; older checkpoints have none.
    """
    found = checkpoint.notes.get(LAYOUT) or layout
    if found != layout:
        was, now = f"{found[:12]} (hdrl {checkpoint.hdrl_version})", f"{layout[:12] or 'none'} (hdrl {VERSION})"
        raise ReadError(
            path,
            f"was written by another version of hdrl: it keeps its episodes in the layout {was}, expected {now}; "
            f"{_ADVICE}",
        )


@contextlib.contextmanager
def version_errors(checkpoint: Checkpoint, path: Path) -> Iterator[None]:
    """Say of whatever a checkpoint lacks while its training is taken over that it is of another version."""
    try:
        yield
    except (OptionsError, LearningError, KeyError) as error:
        why = f"it has no {error.args[0]!r}" if isinstance(error, KeyError) else str(error)
        found = checkpoint.hdrl_version
        was = f"hdrl {found}, expected {VERSION}" if found != VERSION else f"which calls itself {VERSION}, too"
        raise ReadError(
            path, f"was written by another version of hdrl ({was}), or is damaged: {why}; {_ADVICE}"
        ) from None


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _flat(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, value
