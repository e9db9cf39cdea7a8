"""Policies that can order the queue of a real Slurm, and their parts: the order, and the gate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hdrl.base.errors import OptionsError
from hdrl.compiled.jit import python_of
from hdrl.setting import BATCH, find_setting
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.keys import AGING, changes_with_time
from hdrl.settings.batch.policies.choices import CORE_SELECTIONS, DEFAULT_CORE_SELECTION, PolicyPair
from hdrl.settings.batch.policies.indexed import FORMS, IndexKind
from hdrl.settings.batch.policies.pairs import PRIORITIES, read_pair
from hdrl.settings.batch.predict.predictors import PREDICTORS

JOB_INDEX_ID = "hdrl/JobIndex-v0"

KEYS = {number: name for name, number in PRIORITIES.items() if not name.endswith("_relative")}
"""Job keys that can be deployed, besides an index, and their names."""

BY_DATE = (codes.JOB_F1, codes.JOB_F2, codes.JOB_F3, codes.JOB_F4)
"""Job keys in which it counts when the log began."""

PREDICTED = {
    codes.PREDICT_NOTHING: "requested",
    **{PREDICTORS[name].code: name for name in ("requested", "last2", "user_mean", "geo", "harm")},
}
"""Predictors that can be deployed: all they know fits into a table."""

_TIMELESS_FORMS = (codes.INDEX_ADDITIVE, *codes.GUARDED_FORMS)


@dataclass(frozen=True, slots=True)
class DeployedPolicy:
    """A policy whose order of jobs can be written into Slurm.

    Attributes
    ----------
    name
        The policy, or the model file, as it was named.
    pair
        The policy in the kernel.
    """

    name: str
    pair: PolicyPair

    @property
    def key(self) -> int:
        """The job key in the kernel."""
        return self.pair.job_key

    @property
    def is_index(self) -> bool:
        """True if the order is an index of features with weights."""
        return self.pair.job_key == codes.JOB_INDEX

    @property
    def has_gate(self) -> bool:
        """True if jobs may be held back."""
        return self.pair.rule.has_gate

    @property
    def predictor(self) -> str:
        """The name of the predictor."""
        return PREDICTED[self.pair.rule.predictor]

    @property
    def aging_per_s(self) -> float:
        """Decrease per second of the index of every waiting job; 0 where waiting does not count so simply."""
        if self.is_index and self.pair.rule.index_form in _TIMELESS_FORMS:
            return float(np.exp(self.pair.rule.weights[AGING])) / 3600.0
        return 0.0

    @property
    def changes_with_time(self) -> bool:
        """True if the order of two jobs changes only because they wait."""
        if self.is_index:
            return self.aging_per_s == 0.0
        return bool(python_of(changes_with_time)(self.key))

    @property
    def form(self) -> str:
        """The name of the form of the index."""
        return next(name for name, number in FORMS.items() if number == self.pair.rule.index_form)


def deployed_policy(text: str) -> DeployedPolicy:
    """Return a policy that is to be deployed.

    Parameters
    ----------
    text
        Its name, such as ``"sjf@geo"`` or ``"es-generalist"``, or a model file (``.pt``) whose weights evolved.

    Raises
    ------
    OptionsError
        If Slurm cannot follow it.
    HdrlError
        If there is no such policy, or the model cannot be read.
    """
    return check_deployable(text, index_of_model(Path(text)) if text.endswith(".pt") else read_pair(text))


def check_deployable(name: str, pair: PolicyPair) -> DeployedPolicy:
    """Return a policy that is to be deployed.

    Raises
    ------
    OptionsError
        If Slurm cannot follow it.
    """
    rule, where = pair.rule, f"policy {name!r}"
    if pair.core_key != CORE_SELECTIONS[DEFAULT_CORE_SELECTION]:
        raise OptionsError(f"{where}: Slurm chooses nodes itself, expected no core selection, for instance 'sjf@geo'")
    if rule.node_rule != codes.NODES_LEFT_ALONE:
        raise OptionsError(f"{where}: switching nodes is Slurm's power saving, expected a policy without ~off and ~on")
    if rule.predicts_ends:
        raise OptionsError(f"{where}: Slurm reserves by requested times, expected a policy without '/all'")
    if rule.by_name:
        raise OptionsError(f"{where}: tables of predictions have no names of jobs, expected for instance 'sjf@geo'")
    if rule.predictor not in PREDICTED:
        known = ", ".join(sorted(set(PREDICTED.values())))
        raise OptionsError(f"{where}: its predictor cannot be written as a table, expected one of {known}")
    if pair.job_key == codes.JOB_INDEX:
        if rule.index_form == codes.INDEX_NETWORK:
            raise OptionsError(f"{where}: a network is its index; 'hdrl distil' makes an index of few terms of it")
        return DeployedPolicy(name, pair)
    if pair.job_key == codes.JOB_FIRST and not rule.has_gate:
        raise OptionsError(f"{where}: is the order of Slurm without weights, so there is nothing to deploy")
    if pair.job_key not in KEYS:
        raise OptionsError(f"{where}: cannot be deployed, expected one of {', '.join(KEYS.values())}, or an index")
    return DeployedPolicy(name, pair)


def index_of_model(path: Path) -> PolicyPair:
    """Return the index of a model file whose weights evolved.

    Raises
    ------
    OptionsError
        If it holds something else.
    ReadError
        If it cannot be read.
    """
    from hdrl.experiment.train.modelfile import read_checkpoint, spec_of

    checkpoint = read_checkpoint(path)
    environment = spec_of(checkpoint, path, find_setting(BATCH))
    if environment.spec.id != JOB_INDEX_ID:
        raise OptionsError(
            f"{path}: is a network of {environment.spec.id}; make an index of it first: hdrl distil {path} LOG"
        )
    kind = IndexKind.of(environment.arguments)
    weights = checkpoint.agent.get("weights")
    if not isinstance(weights, np.ndarray) or weights.shape != (kind.n_weights,) or not np.isfinite(weights).all():
        raise OptionsError(f"{path}: holds no {kind.n_weights} evolved weights")
    return kind.policy(weights, path.name)
