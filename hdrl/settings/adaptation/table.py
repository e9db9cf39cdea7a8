"""Tables: what became of a job under every sequence of adaptations, as it was measured."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import ReadError, quoted, suggest
from hdrl.base.files import read_json
from hdrl.base.hashing import sha256_of
from hdrl.options.problems import shown
from hdrl.settings.adaptation.machine import is_device_name
from hdrl.settings.adaptation.models import MODELS, DnnModel, find_model, layer_ids, model_of, model_of_blocks

SEED_DEVICE = "gv100"
"""The device of tables that name none, such as the tables of ChamiLamelas' advisor."""

LONGEST_S = 1e12
"""The longest budget of a table, in seconds."""

MOST_SEQUENCES = 4096
"""Sequences of a table at most."""

_MEAN_DIGITS = 12

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Table:
    """A job and what became of it under every sequence of adaptations.

    Sequences are numbered like numbers with a digit for each decision, the first being the most significant. States
    are what a job is in before a decision: one for each sequence of actions so far, shorter ones first.

    Attributes
    ----------
    model
        The network at the beginning.
    scenario
        Time of adaptation, in a word: ``early``.
    data
        Training data.
    device
        Device of the training.
    budget_s
        Training budget, in seconds.
    validation, test
        Accuracies at the end by sequence and draw, shape ``(n_sequences, n_draws)``. Where the source has no
        validation part, both are the test accuracy.
    time_left_s
        Time left before each decision, shape ``(n_states,)``.
    rungs
        Shares of the time behind the last decision at which ``curves`` were measured, ascending; empty without curves.
    curves
        Validation accuracies there, shape ``(n_sequences, n_draws, n_rungs)``.
    before
        Validation accuracies before each decision, shape ``(n_sequences, n_draws, n_steps)``; empty if the table does
        not hold them.
    others
        Validation and test accuracies of jobs that never adapt, under other rules, by name: ``linear-decay``; each of
        shape ``(2, n_draws)``.
    has_validation
        True if validation and test are apart.
    """

    name: str
    model: DnnModel
    scenario: str
    data: str
    device: str
    budget_s: float
    n_steps: int
    validation: Floats
    test: Floats
    time_left_s: Floats
    rungs: tuple[float, ...] = ()
    curves: Floats = field(default_factory=lambda: np.zeros((0, 0, 0)))
    before: Floats = field(default_factory=lambda: np.zeros((0, 0, 0)))
    others: Mapping[str, Floats] = field(default_factory=dict)
    has_validation: bool = True

    def __repr__(self) -> str:
        return f"<Table {self.name}: {self.n_sequences} sequences on {self.device}>"

    @property
    def n_actions(self) -> int:
        """Number of actions: deepening each original block, and nothing, which is the last one."""
        return len(self.model.targets) + 1

    @property
    def n_sequences(self) -> int:
        """Number of sequences."""
        return len(self.test)

    @property
    def n_draws(self) -> int:
        """Number of trainings that measured each sequence."""
        return int(self.test.shape[1])

    @property
    def never(self) -> int:
        """The sequence in which nothing is done."""
        return self.n_sequences - 1

    @cached_property
    def expected(self) -> Floats:
        """Mean test accuracy of each sequence."""
        return mean_accuracy(self.test)

    @cached_property
    def expected_validation(self) -> Floats:
        """Mean validation accuracy of each sequence."""
        return np.asarray(self.validation.mean(axis=1))

    @cached_property
    def best(self) -> float:
        """Mean test accuracy of the sequence that is best in the mean."""
        return float(self.expected.max())

    @cached_property
    def models(self) -> tuple[DnnModel, ...]:
        """The network in each state."""
        found = [self.model]
        for position in range(1, len(self.time_left_s)):
            parent, action = divmod(position - 1, self.n_actions)
            found.append(found[parent].deepened(action) if action < self.n_actions - 1 else found[parent])
        return tuple(found)

    @cached_property
    def layers(self) -> list[list[int]]:
        """The ids of the layers in each state, see `layer_ids`."""
        return [layer_ids(model.layers) for model in self.models]

    def rank(self, accuracy: float) -> int:
        """Return the position of an expected accuracy among all sequences: one more than there are better ones."""
        return 1 + int(np.count_nonzero(self.expected > accuracy))

    def actions(self, sequence: int) -> tuple[int, ...]:
        """Return the actions of a sequence."""
        return tuple(sequence // self.n_actions**power % self.n_actions for power in range(self.n_steps - 1, -1, -1))

    def sequence(self, actions: Sequence[int]) -> int:
        """Return the number of a sequence."""
        number = 0
        for action in actions:
            number = number * self.n_actions + int(action)
        return number

    def state(self, actions: Sequence[int]) -> int:
        """Return the state that a job is in after some actions."""
        state = 0
        for action in actions:
            state = state * self.n_actions + 1 + int(action)
        return state

    def sha256(self) -> str:
        """Return the SHA-256 of all that a simulation depends on."""
        arrays = [("validation", self.validation), ("test", self.test), ("time_left_s", self.time_left_s)]
        arrays += [("curves", self.curves), *sorted(self.others.items())]
        rest = [self.device, self.budget_s, [str(layer) for layer in self.model.layers], list(self.rungs)]
        return sha256_of(arrays, rest)


def mean_accuracy(draws: Floats) -> Floats:
    """Return means over the last axis, rounded: trainings of equal sums tie, whatever the order of their terms."""
    return np.asarray(draws.mean(axis=-1).round(_MEAN_DIGITS))


def n_states(n_actions: int, n_steps: int) -> int:
    """Return the number of states that a job can be in before its decisions."""
    return sum(n_actions**step for step in range(n_steps))


def read_table(path: str | Path) -> Table:
    """Read a table: one of ``hdrl adaptation table``, or one of ChamiLamelas' advisor as JSON."""
    path = Path(path)
    data = read_json(path)
    if not isinstance(data, Mapping) or not isinstance(data.get("rows"), list) or not data["rows"]:
        raise ReadError(path, "is not a table of adaptations, expected an object with model, scenario and rows")
    model = _model(data, path)
    rows = [_row(row, number, path) for number, row in enumerate(data["rows"])]
    n_steps, n_actions, n_draws = len(rows[0]["actions"]), len(model.targets) + 1, len(rows[0]["draws"])
    if n_actions**n_steps > MOST_SEQUENCES:
        raise ReadError(
            path, f"has {n_steps} decisions among {n_actions} actions, more than {MOST_SEQUENCES} sequences"
        )
    budget_s = _budget_s(data, rows, path)
    rungs = _rungs(data, rows, path)
    parts = {"draws": (n_draws, 2), "curves": (n_draws, len(rungs)), "before": (n_draws, n_steps)}
    order = _order(rows, n_actions, n_steps, path)
    found = {key: _accuracies(rows, key, shape, path) for key, shape in parts.items()}
    draws, curves, before = (values[order] if len(values) else values for values in found.values())
    return Table(
        name=path.stem,
        model=model,
        scenario=str(data.get("scenario", "")),
        data=str(data.get("data", "cifar10")),
        device=_device(data, path),
        budget_s=budget_s,
        n_steps=n_steps,
        validation=draws[:, :, 0].copy(),
        test=draws[:, :, 1].copy(),
        time_left_s=_times_left([rows[one] for one in order], n_actions, n_steps, budget_s, path),
        rungs=rungs,
        curves=curves,
        before=before,
        others=_others(data, n_draws, path),
        has_validation=all("draws" in row for row in data["rows"]),
    )


def _model(data: Mapping[str, Any], path: Path) -> DnnModel:
    name = data.get("model")
    if not isinstance(name, str):
        raise ReadError(path, "has no model, expected its name")
    layers = data.get("layers")
    if layers is None:
        if name not in MODELS:
            raise ReadError(path, f"has no layers, and no model {quoted(name)} is known; {suggest(name, MODELS)}")
        return find_model(name)
    if _are_texts(layers):
        return model_of(name, layers, f"{path}: layers")
    if not isinstance(layers, list) or not all(map(_are_texts, layers)):
        raise ReadError(path, "layers is neither a list of texts nor a list of such lists, one for each block")
    return model_of_blocks(name, layers, f"{path}: layers")


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _device(data: Mapping[str, Any], path: Path) -> str:
    device = data.get("device", SEED_DEVICE)
    if not isinstance(device, str) or not is_device_name(device):
        raise ReadError(path, f"device is {shown(device)}, expected the name of the device that ran the jobs")
    return device.strip()


def _row(row: Any, number: int, path: Path) -> dict[str, Any]:
    """Return a row in the form of our own tables."""
    is_row = isinstance(row, Mapping) and isinstance(row.get("actions"), list)
    if not is_row or not all(isinstance(one, int) and not isinstance(one, bool) for one in row["actions"]):
        raise ReadError(path, f"rows[{number}] has no actions, expected a list of whole numbers")
    left_s = row.get("timeleft_s")
    is_times = isinstance(left_s, list) and all(_is_within(one, LONGEST_S) for one in left_s)
    if not is_times or len(left_s) != len(row["actions"]) or not left_s:
        raise ReadError(path, f"rows[{number}].timeleft_s is not one number for each action")
    if "draws" in row:
        if not isinstance(row["draws"], list) or not row["draws"]:
            raise ReadError(path, f"rows[{number}].draws are not pairs of accuracies from 0 to 1")
        return dict(row)
    if not _is_within(row.get("accuracy"), 1.0):
        raise ReadError(path, f"rows[{number}].accuracy is {shown(row.get('accuracy'))}, expected a number from 0 to 1")
    return {**row, "draws": [[row["accuracy"]] * 2]}


def _is_within(value: Any, limit: float) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= limit


def _are_accuracies(value: Any, shape: tuple[int, ...]) -> bool:
    """Return True for nested lists of a shape with numbers from 0 to 1."""
    if not shape:
        return _is_within(value, 1.0)
    is_list = isinstance(value, list) and len(value) == shape[0]
    return is_list and all(_are_accuracies(one, shape[1:]) for one in value)


def _accuracies(rows: Sequence[Mapping[str, Any]], key: str, shape: tuple[int, int], path: Path) -> Floats:
    """Return accuracies of all rows, shape ``(n_rows, *shape)``; empty if no row has any."""
    if not any(key in row for row in rows):
        return np.zeros((0, 0, 0))
    for number, row in enumerate(rows):
        if not _are_accuracies(row.get(key), shape):
            raise ReadError(path, f"rows[{number}].{key} are not {shape[0]} x {shape[1]} accuracies from 0 to 1")
    return np.array([row[key] for row in rows], dtype=np.float64)


def _order(rows: Sequence[Mapping[str, Any]], n_actions: int, n_steps: int, path: Path) -> list[int]:
    """Return the row of each sequence."""
    found: dict[tuple[int, ...], int] = {}
    for number, row in enumerate(rows):
        actions = tuple(row["actions"])
        if len(actions) != n_steps or not all(0 <= action < n_actions for action in actions):
            what = f"{n_steps} whole numbers from 0 to {n_actions - 1}"
            raise ReadError(path, f"rows[{number}].actions are {_words(actions)}, expected {what}")
        if actions in found:
            raise ReadError(path, f"rows[{number}].actions are {_words(actions)}, those of rows[{found[actions]}], too")
        found[actions] = number
    wanted = list(itertools.product(range(n_actions), repeat=n_steps))
    missing = next((one for one in wanted if one not in found), None)
    if missing is not None:
        raise ReadError(path, f"has no row of actions {list(missing)}, expected each of {len(wanted)} sequences once")
    return [found[one] for one in wanted]


def _words(actions: Sequence[int]) -> str:
    most = MOST_SEQUENCES.bit_length()
    return f"[{', '.join(map(shown, actions[:most]))}{', ...' if len(actions) > most else ''}]"


def _budget_s(data: Mapping[str, Any], rows: list[dict[str, Any]], path: Path) -> float:
    totals_s = [row.get("totaltime_s", data.get("budget_s")) for row in rows]
    budget_s = totals_s[0] if all(one == totals_s[0] for one in totals_s) else None
    if not isinstance(budget_s, (int, float)) or isinstance(budget_s, bool) or not 0 < budget_s <= LONGEST_S:
        raise ReadError(path, "has no budget: expected budget_s above 0, or the same totaltime_s in all rows")
    return float(budget_s)


def _times_left(rows: Sequence[Mapping[str, Any]], n_actions: int, n_steps: int, budget_s: float, path: Path) -> Floats:
    """Return the mean time left of the rows that pass through each state."""
    times = np.array([row["timeleft_s"] for row in rows], dtype=np.float64)
    parts = [times[:, step].reshape(n_actions**step, -1).mean(axis=1) for step in range(n_steps)]
    # Means of branches fall, too, so that no training of a copy costs less than nothing.
    falls = [np.repeat(before, n_actions) > after for before, after in itertools.pairwise(parts)]
    if (
        not np.all((times > 0) & (times <= budget_s))
        or np.any(np.diff(times, axis=1) >= 0)
        or not all(map(np.all, falls))
    ):
        raise ReadError(path, "has times left that do not fall from decision to decision within the budget")
    return np.concatenate(parts)


def _rungs(data: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], path: Path) -> tuple[float, ...]:
    rungs = data.get("rungs", [])
    are_shares = isinstance(rungs, list) and all(_is_within(one, 1.0) and 0 < one < 1 for one in rungs)
    if not are_shares or any(after <= before for before, after in itertools.pairwise(rungs)):
        raise ReadError(path, "rungs are not ascending shares between 0 and 1")
    if rungs and any("curves" not in row for row in rows):
        raise ReadError(path, "has rungs, but rows without curves, expected the accuracies at the rungs of each draw")
    if not rungs and any("curves" in row for row in rows):
        raise ReadError(path, "has curves, but no rungs, expected the shares of time at which they were measured")
    return tuple(map(float, rungs))


def _others(data: Mapping[str, Any], n_draws: int, path: Path) -> dict[str, Floats]:
    others = data.get("others", {})
    if not isinstance(others, Mapping):
        raise ReadError(path, "others is not an object")
    for name, draws in others.items():
        if not _are_accuracies(draws, (n_draws, 2)):
            raise ReadError(path, f"others.{name} are not {n_draws} x 2 accuracies from 0 to 1")
    return {name: np.array(draws, dtype=np.float64).T.copy() for name, draws in others.items()}
