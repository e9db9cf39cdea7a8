"""Description of a deployment: the policy, the site, and the results of simulation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from hdrl.base.errors import ReadError
from hdrl.base.files import read_json, write_json
from hdrl.deploy.files import DEPLOYMENT, Users
from hdrl.deploy.policy import DeployedPolicy, check_deployable
from hdrl.options.block import Block
from hdrl.options.reading import checked
from hdrl.settings.batch.policies.indexed import LARGEST_WEIGHT, IndexKind, first_weights
from hdrl.settings.batch.policies.pairs import read_pair

Text = Annotated[str, Field(max_length=10_000)]
Seconds = Annotated[float, Field(gt=0, le=1e10)]
Means = Annotated[list[float], Field(max_length=10_000)]


class Ratio(Block):
    """A metric of the policy over that of what stands for the site's own, with its interval."""

    metric: Text
    value: float | None
    low: float | None
    high: float | None


class Promise(Block):
    """Results that simulation promises.

    Attributes
    ----------
    policy, baseline
        The simulated policy, and the stand-in for the scheduler of the site.
    verdict
        The sentence of the comparison.
    ratios
        Metrics relative to the baseline.
    by_rules
        Metrics of Lua and daemon under the rules of the site, relative to the simulated Slurm without them.
    blocks
        Means of blocks of jobs, sorted, by what they are of: see `drift`.
    rings
        True if the alarm rings on the second half of the log if the first half makes the promise.
    """

    policy: Text
    baseline: Text
    verdict: Text
    ratios: list[Ratio] = Field(default_factory=list)
    by_rules: list[Ratio] = Field(default_factory=list)
    blocks: dict[str, Means]
    rings: dict[str, bool]


class DeployedIndex(Block):
    """An index with weights, for a policy that no name stands for."""

    form: Text
    gate: bool
    predictor: Text
    weights: Annotated[list[float], Field(max_length=1000)]


class Deployment(Block):
    """Description of a deployment: all that the daemon reads.

    Attributes
    ----------
    policy
        The policy as it was named.
    index
        Its index if it was a model file, else ``None``.
    users
        Identity of a job's user: the name of the user, or the account, where one user submits for many.
    cores, cores_per_node
        Cores of the machine, and of most of its nodes.
    first_s, last_s
        The date that is 0 in the log, and the last one at which a job came, in seconds since 1970. Where each hour of
        waiting counts the same, the index counts the hours from the latter.
    limits_s, unlimited_s
        Limits of jobs that ask for none, by partition, and of all others, in seconds.
    bound_s
        After which wait a job is first.
    interval_s
        Time between two looks of the daemon, in seconds.
    """

    version: Literal[1] = 1
    made_by: Text
    site: Text
    policy: Text
    index: DeployedIndex | None = None
    users: Users = "user_name"
    cores: Annotated[int, Field(ge=1, le=2**31)]
    cores_per_node: Annotated[int, Field(ge=1, le=2**20)]
    first_s: Annotated[float, Field(ge=0, le=1e11)]
    last_s: Annotated[float, Field(ge=0, le=1e11)]
    limits_s: dict[Text, Seconds]
    unlimited_s: Seconds
    bound_s: Seconds
    interval_s: Annotated[float, Field(ge=1, le=3600)]
    promise: Promise

    def deployed(self) -> DeployedPolicy:
        """Return the policy.

        Raises
        ------
        ValueError
            If its weights are not as many as its form has.
        HdrlError
            If there is no such policy.
        """
        if self.index is None:
            return check_deployable(self.policy, read_pair(self.policy))
        kind = IndexKind(self.index.form, self.index.gate, self.index.predictor)
        if len(self.index.weights) != kind.n_weights or max(map(abs, self.index.weights)) > LARGEST_WEIGHT:
            raise ValueError(f"index has {len(self.index.weights)} weights, expected {kind.n_weights}")
        offsets = self.index.weights - first_weights(kind.form)
        return check_deployable(self.policy, kind.policy(offsets, self.policy))


def index_of(policy: DeployedPolicy) -> DeployedIndex:
    """Return the index of a policy, as a deployment keeps it."""
    rule = policy.pair.rule
    return DeployedIndex(form=policy.form, gate=rule.has_gate, predictor=policy.predictor, weights=list(rule.weights))


def read_deployment(folder: str | Path) -> Deployment:
    """Return the deployment of a folder.

    Raises
    ------
    ReadError
        If it is no deployment.
    """
    folder = Path(folder)
    path = folder / DEPLOYMENT
    found = checked(Deployment, read_json(path), path)
    try:
        found.deployed()
    except ValueError as error:
        raise ReadError(path, str(error)) from None
    return found


def write_deployment(folder: Path, deployment: Deployment) -> None:
    """Write the deployment of a folder."""
    write_json(folder / DEPLOYMENT, deployment.model_dump(mode="json"))
