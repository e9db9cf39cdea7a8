"""Policies whose order of jobs is an index with weights, and a gate: what evolution searches, and what it has found."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import OptionsError, UnknownName
from hdrl.base.seeding import stream
from hdrl.base.weights import sparse_weights
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.beginning import PolicyRule, n_weights_of
from hdrl.settings.batch.kernel.keys import AGING, FIRST_OF_GATE, N_HIDDEN
from hdrl.settings.batch.policies.choices import DEFAULT_CORE_SELECTION, PolicyPair, read_choices
from hdrl.settings.batch.predict.predictors import PREDICTORS

FORMS = {
    "linear": codes.INDEX_LINEAR,
    "additive": codes.INDEX_ADDITIVE,
    "network": codes.INDEX_NETWORK,
    "guarded": codes.INDEX_GUARDED,
    "pausing": codes.INDEX_PAUSING,
}
"""Forms of an index, which give its weights their meaning: see `kernel.keys`."""

_FIRST = {
    "linear": {1: 1.0, 2: 1.0, 5: -0.5},
    "additive": {1: 2.0, 2: 1.0, AGING: -3.5},
    "guarded": {1: 2.0, 2: 1.0, AGING: -3.5},
    "pausing": {1: 2.0, 2: 1.0, AGING: -3.5},
    "network": {1: 1.0, 2: 1.0, 5: -0.5},
}
_FIRST_GATE = {FIRST_OF_GATE: -3.44, FIRST_OF_GATE + 1: 2.14}

_FEATURES = (
    *("request", "share of machine", "predicted length", "harmonic length", "last two", "stretch", "wait"),
    *("wait by request", "user known", "user's spread", "user's jobs here", "user's jobs waiting", "fits"),
)
"""Names of the features that `kernel.keys.describe` writes, in its order."""

_OF_GATE = (
    *("bias", "predicted length", "harmonic length", "share of machine", "stretch", "wait"),
    *("backlog", "user's jobs here", "user's spread", "days open"),
)

SIGMA = 0.25
"""Standard deviation of the first candidates of an evolution."""

LARGEST_WEIGHT = 50.0
"""Weights beyond it say nothing more."""


@dataclass(frozen=True, slots=True)
class IndexKind:
    """Parts of an index without its weights.

    Raises
    ------
    HdrlError
        If a name is unknown.
    """

    form: str = "linear"  # a name of `FORMS`
    gate: bool = True  # True if it holds jobs back
    predictor: str = "geo"  # a name of `predict.PREDICTORS`
    backfilling: str = "easy_priority"  # the order in which jobs may overtake; ``"easy_priority"``: that of the index
    core_selection: str = DEFAULT_CORE_SELECTION  # core selection

    def __post_init__(self) -> None:
        """Check the names."""
        if self.form not in FORMS:
            raise UnknownName("form of an index", self.form, FORMS)
        if read_choices(self.backfilling, self.core_selection)[1] not in codes.EASY:
            raise OptionsError(f"backfilling is {self.backfilling!r}, expected easy, easy_sjbf or easy_priority")
        if PREDICTORS[self.predictor].run_times is not None:
            raise OptionsError(f"predictor is {self.predictor!r}, expected one that learns from ended jobs")

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> IndexKind:
        """Return the kind of index that the arguments of an environment define; others concern trainings alone."""
        return cls(**{one.name: arguments[one.name] for one in fields(cls) if one.name in arguments})

    @property
    def n_weights(self) -> int:
        """Number of weights of the index and the gate."""
        return n_weights_of(FORMS[self.form])

    def policy(self, offsets: Sequence[float] | NDArray[np.float64], name: str = "index") -> PolicyPair:
        """Return the policy with some weights.

        ``offsets``: differences of the weights from the weights of the policy by hand; as many as `n_weights`.
        """
        weights = np.clip(first_weights(self.form) + np.asarray(offsets, np.float64), -LARGEST_WEIGHT, LARGEST_WEIGHT)
        core_key, backfilling = read_choices(self.backfilling, self.core_selection)
        rule = PolicyRule(
            **PREDICTORS[self.predictor].rule_arguments(),
            weights=tuple(weights.tolist()),
            index_form=FORMS[self.form],
            has_gate=self.gate,
        )
        return PolicyPair(name, codes.JOB_INDEX, core_key, backfilling, rule)


def first_weights(form: str) -> NDArray[np.float64]:
    """Return the weights by hand: small jobs first, as their predicted area says, and the longer they wait."""
    return sparse_weights(n_weights_of(FORMS[form]), {**_FIRST[form], **_FIRST_GATE})


def names_of_weights(form: str) -> tuple[str, ...]:
    """Return the names of the weights of an index."""
    of_neurons = [
        f"neuron {number}: {name}" for number in range(1, N_HIDDEN + 1) for name in ("weight", "bias", *_FEATURES)
    ]
    names = (*_FEATURES, "aging", *(f"gate: {name}" for name in _OF_GATE), *of_neurons)
    return names[: n_weights_of(FORMS[form])]


_SHIPPED = Path(__file__).parent / "data"


@cache
def shipped_indices() -> tuple[str, ...]:
    """Return the names of the policies that evolution has found and hdrl ships."""
    return tuple(sorted(path.stem for path in _SHIPPED.glob("*.json")))


@cache
def shipped_index(name: str) -> PolicyPair:
    """Return a policy that is shipped."""
    data = _data(name)
    return IndexKind(**data["kind"]).policy(data["offsets"], name)


def changed_index(name: str, deviation: float, seed: int) -> PolicyPair:
    """Return a policy that is shipped, with other weights that hardly differ.

    - ``deviation``: standard deviation of what is added to each weight.
    - ``seed``: what that is drawn by; policies of the same form get the same.
    """
    data = _data(name)
    offsets = np.asarray(data["offsets"], dtype=np.float64)
    added = deviation * stream(seed, "changed weights").standard_normal(len(offsets))
    return IndexKind(**data["kind"]).policy(offsets + added, name)


def logs_of(name: str) -> Mapping[str, float]:
    """Return the logs that a shipped policy was trained on, and up to which share of their jobs."""
    known: Mapping[str, float] = _data(name)["trained_on"]
    return known


@cache
def _data(name: str) -> Any:
    return json.loads((_SHIPPED / f"{name}.json").read_text(encoding="utf-8"))
