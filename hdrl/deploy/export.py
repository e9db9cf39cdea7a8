"""From a policy and an imported site to the folder that an administrator reads and installs."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hdrl.base.arguments import convert_paths
from hdrl.base.errors import OptionsError, OutputError, ReadError
from hdrl.base.files import atomic_write
from hdrl.batch import build_platform, fits, read_swf, workload_from_swf
from hdrl.deploy.daemon import check_weights
from hdrl.deploy.files import GROUPS, LUA, NOW, PAGE, PROMISED, UNIT
from hdrl.deploy.folder import Deployment, index_of, write_deployment
from hdrl.deploy.groups import KeyedGroups, learned_groups
from hdrl.deploy.guide import guide_text, unit_text
from hdrl.deploy.lua import LuaSite, lua_text
from hdrl.deploy.policy import DeployedPolicy, deployed_policy
from hdrl.deploy.promise import promise_of
from hdrl.deploy.simulated import BOUND_S, INTERVAL_S
from hdrl.deploy.slurm import total_weight
from hdrl.experiment.compare.comparison import CompareProgress
from hdrl.settings.batch.site_rules.conf import SiteConf
from hdrl.settings.batch.site_rules.machine import platform_of
from hdrl.site.folder import LOG, NAMES, conf_of
from hdrl.site.log import UNLIMITED_S
from hdrl.site.machine import n_cores
from hdrl.version import VERSION


@dataclass(frozen=True, slots=True)
class DeployChoices:
    """Choices of a deployment.

    Attributes
    ----------
    bound_s
        After which wait a job is first, in seconds.
    interval_s
        Time between two looks of the daemon, in seconds.
    place
        Path of the folder on the machine of slurmctld; ``None``: the path at which it was made.
    """

    bound_s: float = BOUND_S
    interval_s: float = INTERVAL_S
    place: Path | None = None

    def __post_init__(self) -> None:
        convert_paths(self, ("place",))


def export(
    policy: str,
    site: str | Path,
    out: str | Path,
    choices: DeployChoices | None = None,
    *,
    n_workers: int | None = None,
    progress: CompareProgress | None = None,
) -> Deployment:
    """Write the folder of a deployment; it appears whole or not at all.

    Parameters
    ----------
    policy
        The policy, or a model file.
    site
        The folder of an imported site.
    out
        The folder to make.

    Raises
    ------
    OptionsError
        If Slurm cannot follow the policy, or the log holds no jobs to learn from.
    OutputError
        If the folder is there already, or cannot be written.
    HdrlError
        If the site cannot be read.
    """
    site = Path(site)
    out = Path(out)
    choices, progress = choices or DeployChoices(), progress or CompareProgress()
    if out.exists():
        raise OutputError(f"{out}: exists already, expected the name of a new folder")
    if not out.parent.is_dir():
        raise OutputError(f"{out}: its folder {out.parent} does not exist")
    deployed = deployed_policy(policy)
    conf = conf_of(site)
    check_weights(total_weight(conf.scheduler))
    platform = build_platform(platform_of(conf), name=conf.name or "site")
    log = read_swf(site / LOG)
    workload = workload_from_swf(log, platform, bandwidth="none", memory="none")
    can_run = fits(workload, platform)
    if not np.all(can_run):
        workload = workload.take(np.flatnonzero(can_run))
    if workload.n_jobs < 2:
        raise OptionsError(f"{site / LOG}: holds {workload.n_jobs} jobs that fit, expected more")
    users, history = _users(site / NAMES), workload.history
    ended = np.zeros(0, dtype=np.int64) if history is None else history.ended_before(np.inf)
    groups = learned_groups(history, ended, lambda user: users[user] if 0 <= user < len(users) else "")
    folder = Path(tempfile.mkdtemp(dir=out.parent.resolve(), prefix=f".{out.name}."))
    try:
        promise = promise_of(
            deployed,
            site,
            platform,
            workload,
            folder / PROMISED,
            interval_s=choices.interval_s,
            bound_s=choices.bound_s,
            n_workers=n_workers,
            progress=progress,
        )
        deployment = Deployment(
            made_by=f"hdrl {VERSION}",
            site=conf.name or site.resolve().name,
            policy=policy if not policy.endswith(".pt") else Path(policy).name,
            index=index_of(deployed) if policy.endswith(".pt") else None,
            cores=n_cores(conf),
            cores_per_node=_node_cores(conf),
            first_s=log.first_date_s,
            last_s=log.first_date_s + float(np.floor(np.max(log.rows["submit_s"]))),
            limits_s=_limits(conf),
            unlimited_s=UNLIMITED_S,
            bound_s=choices.bound_s,
            interval_s=choices.interval_s,
            promise=promise,
        )
        _write(folder, deployment, deployed, conf, groups, choices.place or out.absolute())
        umask = os.umask(0)
        os.umask(umask)
        folder.chmod(0o777 & ~umask)
        folder.rename(out)
    except OSError as error:
        raise OutputError(f"{out}: cannot be written ({error.strerror or error})") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return deployment


def _write(
    folder: Path,
    deployment: Deployment,
    policy: DeployedPolicy,
    conf: SiteConf,
    groups: KeyedGroups,
    place: Path,
) -> None:
    write_deployment(folder, deployment)
    lua = lua_text(policy, LuaSite.of(deployment, place))
    groups.write(folder / GROUPS)
    texts = {
        LUA: lua,
        NOW: "0\t0\n",
        UNIT: unit_text(place, Path(sys.executable).with_name("hdrl")),
        PAGE: guide_text(deployment, policy, total_weight(conf.scheduler), place, lua.count("\n")),
    }
    for name, text in texts.items():
        with atomic_write(folder / name) as file:
            file.write(text)


def _users(path: Path) -> list[str]:
    """Return the names behind the numbers of users."""
    try:
        names: Any = json.loads(path.read_text(encoding="utf-8"))["user"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ReadError(path, "cannot be read, expected the names that an import wrote")
    return names


def _node_cores(conf: SiteConf) -> int:
    sizes: Counter[int] = Counter()
    for one in conf.nodes:
        sizes[one.cores] += one.count
    return sizes.most_common(1)[0][0]


def _limits(conf: SiteConf) -> dict[str, float]:
    """Return the limit of jobs that ask for none, by partition; by no name, that of the default one."""
    limits = {}
    for name, partition in conf.partitions.items():
        limit_s = partition.default_time_s or partition.max_time_s
        if limit_s is not None:
            limits[name] = float(limit_s)
            if partition.is_default:
                limits[""] = float(limit_s)
    return limits
