"""What the files of a run look like: enough to tell them from files of others that have the same names."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hdrl.settings.batch.metrics import METRICS
from hdrl.settings.batch.simulation.outputs import (
    ENERGY_COLUMNS,
    JOB_COLUMNS,
    MACHINE_STATE_COLUMNS,
    PSTATE_CHANGE_COLUMNS,
)

Form = Callable[[str], bool]
"""Tells from its beginning whether a file has the form that its name promises."""

EVENTS_FOLDER, EVENTS_PREFIX = "tensorboard", "events.out.tfevents."
"""The only folder in a run, and how the names of all files in it begin."""


def json_object(text: str) -> dict[str, Any]:
    """Return the object that a JSON text holds, an empty one if it holds something else or is no JSON.

    Parameters
    ----------
    text
        The text.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def run_files(options: dict[str, Any] | None) -> dict[str, Form]:
    """Return the files that a run may have made, by name, with their forms.

    Parameters
    ----------
    options
        The options of the run, ``None`` if they are not known.
    """
    known = dict(_ALWAYS)
    if options is None:
        return known
    if options.get("simulator") != "embedded":
        known |= _OUTSIDE
    agent = options.get("pybatsim", {}).get("agent", {})
    if agent.get("type") == "LEARNING":
        known |= _LEARNING
    return known


def _starts(*beginnings: str) -> Form:
    return lambda text: text.startswith(beginnings)


def _is_numbers(text: str) -> bool:
    """Tell whether lines, of which the last may be cut off, are numbers."""
    try:
        return all(float(line) == float(line) for line in text.split("\n")[:-1])
    except ValueError:
        return False


def _is_any(text: str) -> bool:
    """Tell that there is nothing to tell: a log may hold anything."""
    del text
    return True


def _is_table(text: str) -> bool:
    """Tell whether it is a table of numbers below a header; its last line may be cut off."""
    header, *lines = text.split("\n")
    cells = [line.split(",") for line in lines[:-1]]
    n_columns = header.count(",") + 1
    return all(len(row) == n_columns and _is_numbers("\n".join(filter(None, row)) + "\n") for row in cells)


def _is_torch(text: str) -> bool:
    """Tell whether it is what torch saves: a ZIP archive."""
    return text.startswith("PK")


def _has_keys(known: Form) -> Form:
    return lambda text: bool(data := json_object(text)) and all(map(known, data))


_ALWAYS: dict[str, Form] = {
    "out_jobs.csv": _starts(",".join(JOB_COLUMNS) + "\n"),
    "out_schedule.csv": _starts("batsim_version,"),
    "out_machine_states.csv": _starts(",".join(MACHINE_STATE_COLUMNS) + "\n"),
    "out_pstate_changes.csv": _starts(",".join(PSTATE_CHANGE_COLUMNS) + "\n"),
    "out_consumed_energy.csv": _starts(",".join(ENERGY_COLUMNS) + "\n"),
    "overutilizations.json": _starts('{"core": ['),
    "metrics.json": _has_keys(METRICS.__contains__),
    "timing.json": _has_keys(lambda key: key.endswith("_s")),
}

_OUTSIDE: dict[str, Form] = {
    "batsim.log": _is_any,
    "platform.xml": lambda text: "<platform" in text,
    "workload.json": lambda text: text.startswith("{") and '"nb_res"' in text,
    "out_schedule.trace": _is_any,
}
"""What runs with Batsim or the exact engine leave besides."""

_LEARNING: dict[str, Form] = {
    "losses.log": _is_numbers,
    "rewards.log": _is_numbers,
    "makespans.log": _is_numbers,
    "probs.json": _starts('{"probs": ['),
    "training.csv": _is_table,
    "episodes.csv": _is_table,
    "resume.json": _has_keys({"where", "folder", "options"}.__contains__),
    "checkpoint.pt": _is_torch,
    "best.pt": _is_torch,
    "model.pt": _is_torch,
}
"""What trainings leave besides."""
