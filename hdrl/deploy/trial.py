"""A deployment in a real Slurm on this host: what simulator `slurm` does with a policy that is not Slurm's own.

All its jobs are submitted by one user, so that an account stands for the user of a job.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from hdrl.base.errors import DecisionError, OptionsError, readable
from hdrl.batch import Platform, Workload
from hdrl.deploy.files import GROUPS, LOG, LUA
from hdrl.deploy.folder import Deployment, Promise, index_of, write_deployment
from hdrl.deploy.groups import learned_groups
from hdrl.deploy.lua import LuaSite, lua_text
from hdrl.deploy.policy import BY_DATE, DeployedPolicy, check_deployable
from hdrl.deploy.ranking import warm_up
from hdrl.deploy.simulated import BOUND_S
from hdrl.settings.batch.policies.choices import PolicyPair
from hdrl.settings.batch.policies.pyfile import read_policy
from hdrl.settings.batch.simulators import SlurmSettings
from hdrl.site.log import UNLIMITED_S
from hdrl.slurm.cluster import BEGIN, Deployed
from hdrl.slurm.simulator import account_of
from hdrl.version import VERSION

FOLDER = "deploy"
"""The deployment, within the folder of ``slurm.conf``."""

_TIMEOUT_S = 60.0
"""Time that the daemon waits for an answer of Slurm, in seconds of the real clock."""


def deployed_in_slurm(policy: object) -> Callable[[Platform, Workload, SlurmSettings], Deployed]:
    """Return a function that makes a real Slurm order jobs by a policy, given machine, jobs and settings.

    Predictions learn of the jobs of the log that ended before the first job comes.

    Parameters
    ----------
    policy
        Its name, or the policy of the kernel.

    Raises
    ------
    OptionsError
        If Slurm cannot follow it.
    DecisionError
        If it is no policy of the kernel.
    """
    pair = read_policy(policy) if isinstance(policy, str) else policy
    if not isinstance(pair, PolicyPair):
        raise DecisionError("simulator 'slurm' runs 'slurm' and named policies that order jobs, not one in Python")
    found = check_deployable(readable(policy if isinstance(policy, str) else pair.name), pair)
    if found.key in BY_DATE:
        raise OptionsError(
            f"policy {found.name!r}: weighs the date at which a log began, which a real Slurm on this host does not "
            "have; expected another order, for instance 'sjf@geo'"
        )
    return lambda *arguments: _deployed(found, *arguments)


def _deployed(policy: DeployedPolicy, platform: Platform, workload: Workload, settings: SlurmSettings) -> Deployed:
    warm_up()
    date_s = datetime.fromisoformat(BEGIN).replace(tzinfo=UTC).timestamp()

    def write(folder: Path) -> None:
        _write(policy, platform, workload, settings, folder, date_s)

    def command(folder: Path) -> Sequence[str]:
        timeout = f"{_TIMEOUT_S * settings.speed:g}"
        return [sys.executable, "-m", "hdrl", "deploy", "run", str(folder / FOLDER), "--act", "--timeout", timeout]

    conf = ("JobSubmitPlugins=lua",) if settings.lua else ()
    return Deployed(write, conf, command, f"{FOLDER}/{LOG}")


def _write(
    policy: DeployedPolicy,
    platform: Platform,
    workload: Workload,
    settings: SlurmSettings,
    folder: Path,
    date_s: float,
) -> None:
    place = folder / FOLDER
    place.mkdir()
    deployment = Deployment(
        made_by=f"hdrl {VERSION}",
        site=platform.name,
        policy=policy.name,
        index=index_of(policy) if policy.is_index else None,
        users="account",
        cores=platform.n_cores,
        cores_per_node=1,
        first_s=date_s,
        last_s=date_s,
        limits_s={},
        unlimited_s=UNLIMITED_S,
        bound_s=BOUND_S,
        interval_s=settings.interval_s,
        promise=Promise(policy=policy.name, baseline="slurm", verdict="", ratios=[], blocks={}, rings={}),
    )
    write_deployment(place, deployment)
    history = workload.history
    ended = np.zeros(0, dtype=np.int64)
    if history is not None and workload.positions is not None:
        ended = history.ended_before(float(history.submit_s[workload.positions].min()))
    learned_groups(history, ended, account_of).write(place / GROUPS)
    (folder / LUA).write_text(lua_text(policy, LuaSite.of(deployment, place)))
