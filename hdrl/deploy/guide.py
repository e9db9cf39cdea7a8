"""Files for administrators: the page of a deployment, and its unit for systemd."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from hdrl.deploy import files
from hdrl.deploy.drift import BLOCK, BLOCKS_BETWEEN, LEAST_BLOCKS, WATCHED
from hdrl.deploy.folder import Deployment, Promise, Ratio
from hdrl.deploy.policy import DeployedPolicy
from hdrl.settings.batch.site_rules.kernel.site_factor import FIRST, LEASE_INTERVALS, MIDDLE, MOST, STEP, UNIT

_TITLES = {
    "mean_bounded_slowdown": "mean bounded slowdown",
    "mean_wait_s": "mean wait",
    "p99_wait_s": "99th percentile of waits",
    "max_wait_s": "longest wait",
}

_UNIT = """\
[Unit]
Description=hdrl: order the queue of Slurm (shadow mode until --act is added)
After=network-online.target slurmctld.service
Wants=network-online.target

[Service]
# An account that is a Slurm operator: sacctmgr modify user hdrl set adminlevel=operator
User=hdrl
ExecStart={program} deploy run {place}
Restart=on-failure
RestartSec=60
RestartPreventExitStatus=2
SuccessExitStatus=143
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
ReadWritePaths={place}

[Install]
WantedBy=multi-user.target
"""

_PAGE = """\
# {policy} for {site}

Made by {made_by}. hdrl has installed nothing, and nothing acts before you start it.

## Simulation results

{verdict}

{ratios}
## SiteFactor values

| SiteFactor | meaning |
|---|---|
| {first:,} and more | the job has waited for longer than {days:g} days: it is first, in the order of arrival |
| {least:,} to {most:,} | {middle:,} - {step:,} asinh(index / {unit:g}): a higher number is served earlier |
| 0 | hdrl has set no number |

Slurm adds the number to the priority of the job; `sprio` shows it in the column SITE. Partition tiers, holds,
dependencies, limits and preemption of Slurm stay in force. A user's `--nice` is subtracted as before.

{weights}

## Files

| file | contents |
|---|---|
| `{lua}` | {n_lines} lines for `JobSubmitPlugins=lua`: they set the number when a job is submitted |
| `{groups}` | sums over the run times of ended jobs, by user, request and cores |
| `{now}` | jobs of each user and free cores, as the daemon saw them last |
| `{unit_file}` | the daemon for systemd, in shadow mode |
| `{deployment}`, `{promised}/` | settings of the daemon, and the comparison if there is one |
| `{log}`, `{state}` | decisions and state of the daemon; they appear once it runs |

No file holds a secret. The tables hold names of users and their run times.

## Next steps

1. Watch: `hdrl deploy run {place}` writes its decisions to `{log}`. It calls `squeue`, `sinfo` and
   `scontrol show config`, and changes nothing.
2. Let the Lua set numbers: put `JobSubmitPlugins=lua` into `slurm.conf` and `{lua}` beside it, then
   `scontrol reconfigure`. If the site has such a file already, begin it with `dofile` of this one, and let its own
   `slurm_job_submit` set `job_desc.site_factor` to `hdrl_site_factor(job_desc)` unless that is nil. slurmctld must be
   able to read this folder.
3. Let the daemon act: `hdrl deploy run {place} --act`, by an account with operator rights
   (`sacctmgr modify user NAME set adminlevel=operator`). It needs no root.

{needs}

## Rollback

`hdrl deploy undo {place}` sets the SiteFactor of all waiting jobs to 0 and releases what was held. It leaves a file
`{undone}`: while that is there, neither daemon nor Lua writes.

## Failures

- **The daemon is killed, or the network is gone**: Slurm continues. SiteFactors keep their last values, new jobs get
  theirs from the Lua, and held jobs become free by themselves: the daemon holds a job by delaying its start by
  {lease:g} s at a time. Until the daemon runs again, nothing enforces the bound of {days:g} days.
- **The Lua fails**: Slurm accepts the job without a number, and the log of slurmctld gives the reason.
- **Results differ from the promise**: the daemon writes ALARM. It compares blocks of {block} jobs with blocks of the
  simulation; while blocks are alike, it raises at most one alarm in {between:,} blocks on average.

| watched | mean of a block in the simulation, 5 % to 95 % | alarm on the second half of the log |
|---|---|---|
{watched}
"""


def unit_text(place: Path, program: Path) -> str:
    """Return the unit for systemd."""
    return _UNIT.format(program=_quoted_unit(program), place=_quoted_unit(place))


def _quoted_unit(path: Path) -> str:
    text = str(path).replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{text}"' if re.search(r"[^\w./%-]", text) else text


def guide_text(deployment: Deployment, policy: DeployedPolicy, weight: float, place: Path, n_lines: int) -> str:
    """Return the page of a deployment, in Markdown.

    Parameters
    ----------
    weight
        Largest sum of the other terms of the site's priority.
    place
        Path of the folder.
    n_lines
        Lines of the Lua.
    """
    promise = deployment.promise
    return _PAGE.format(
        policy=_text(policy.name),
        site=_text(deployment.site),
        made_by=_text(deployment.made_by),
        verdict=_text(promise.verdict),
        ratios="".join(f"{line}\n" for line in _ratios(deployment)),
        promised=files.PROMISED,
        first=FIRST,
        least=MIDDLE - MOST,
        middle=MIDDLE,
        most=MIDDLE + MOST,
        step=STEP,
        unit=UNIT,
        days=deployment.bound_s / 86400,
        weights=_weights(weight),
        lua=files.LUA,
        n_lines=n_lines,
        groups=files.GROUPS,
        now=files.NOW,
        unit_file=files.UNIT,
        deployment=files.DEPLOYMENT,
        log=files.LOG,
        state=files.STATE,
        undone=files.UNDONE,
        place=_text(str(place)),
        needs=_needs(policy),
        lease=LEASE_INTERVALS * deployment.interval_s,
        block=BLOCK,
        between=BLOCKS_BETWEEN,
        watched="\n".join(_watched(promise)),
    )


def _ratios(deployment: Deployment) -> Iterator[str]:
    promise = deployment.promise
    baseline = _text(promise.baseline)
    if promise.ratios:
        yield f"Simulated: `{_text(promise.policy)}`, against `{baseline}`, which stands for the scheduler of the site."
        yield from _table(promise.ratios, f"`{baseline}`")
    if promise.by_rules:
        yield "Lua and daemon under the rules of the site, against the simulated scheduler of Slurm without them. The"
        yield f"daemon runs every {deployment.interval_s:g} s and holds jobs by leases, as it will here:"
        yield from _table(promise.by_rules, "the simulated Slurm")
    if promise.ratios:
        yield f"`hdrl report {files.PROMISED} -o promised.html` shows the first comparison in full. It obeys the rules"
        yield "of the site, without the daemon: the policy acts at each event. The report of the import shows how far"
        yield "simulations are from this site."


def _table(ratios: Sequence[Ratio], baseline: str) -> Iterator[str]:
    yield ""
    yield f"| ratio to {baseline} | value | interval of 95 % |"
    yield "|---|---|---|"
    for row in ratios:
        title = _TITLES.get(row.metric, _text(row.metric))
        yield f"| {title} | {_number(row.value)} | {_number(row.low)} to {_number(row.high)} |"
    yield ""


def _weights(weight: float) -> str:
    if weight <= 0:
        return "`slurm.conf` has no other weights, so the index alone decides."
    share = 100 * math.expm1(min(50.0, weight / STEP))
    return (
        f"The other weights of `slurm.conf` sum to at most {weight:,.0f}. They decide between jobs whose indices "
        f"differ by less than {share:.2g} %.\nSet them to 0 if the index alone is to decide."
    )


def _watched(promise: Promise) -> Iterator[str]:
    for what, words in WATCHED.items():
        blocks = promise.blocks.get(what, [])
        if len(blocks) < LEAST_BLOCKS:
            yield f"| {what}: {words} | too few jobs, not watched | |"
            continue
        low, high = blocks[len(blocks) // 20], blocks[-1 - len(blocks) // 20]
        yield f"| {what}: {words} | {low:.3g} to {high:.3g} | {'yes' if promise.rings.get(what) else 'no'} |"


def _needs(policy: DeployedPolicy) -> str:
    if policy.changes_with_time:
        need = "The order changes while jobs wait, so it needs the daemon: the Lua alone treats all jobs as new."
    elif policy.is_index or policy.predictor != "requested":
        need = "The Lua alone gives the order at submission. The daemon keeps it up to date as jobs end."
    else:
        need = "The Lua alone gives the whole order. The daemon adds the bound and the alarm."
    if not policy.has_gate:
        return need
    return (
        f"{need}\nThe policy has a gate, which holds some jobs that could start. Only the daemon holds jobs, so a job "
        "that\nfinds room before the next pass of the daemon starts."
    )


def _text(text: str) -> str:
    """Return a text without what Markdown would take for more than text."""
    return re.sub(r"[\x00-\x1f`|<>]", "?", text)


def _number(value: float | None) -> str:
    return "?" if value is None else f"{value:.3g}"
