"""Jobs of a site's log in a real Slurm with the rules of the site, beside what happened there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import OptionsError
from hdrl.batch import SwfLog, read_platform, read_swf, simulate, workload_from_swf
from hdrl.metrics.orders import Distance, distance_between
from hdrl.settings.batch.simulators import SlurmSettings
from hdrl.site.folder import LOG, PLATFORM
from hdrl.site.replay import SLURM, columns_of, limits_of_never_started, limits_text

SIMULATED = f"{SLURM}, simulated"
"""The compiled simulation of Slurm's rules, which stands beside the real one."""


def replay_in_slurm(
    site: Path, *, first: int | None, n_jobs: int, settings: SlurmSettings, message: Callable[[str], None]
) -> dict[str, Distance]:
    """Return the distances of a real Slurm, and of the simulated one, from the log of a site.

    Jobs that ran or waited at the site when the first job came are submitted before it, the running ones for the rest
    of their time. They fill the machine, and are not compared.

    Parameters
    ----------
    first
        Number of jobs of the log before the window; ``None``: the window is its end.

    Raises
    ------
    OptionsError
        If the log has no such jobs.
    HdrlError
        If the site cannot be read, has rules that simulator `slurm` does not have, or Slurm fails.
    """
    platform, log = read_platform(site / PLATFORM), read_swf(site / LOG)
    position = log.n_rows - n_jobs if first is None else first
    if not 0 <= position <= log.n_rows - n_jobs:
        raise OptionsError(
            f"{site / LOG}: has {log.n_rows:,} jobs, expected at least {n_jobs + (first or 0):,} (--jobs, --first)"
        )
    rows, n_before = _with_earlier(log, position, n_jobs)
    part = replace(log, rows=rows, columns=columns_of(log, rows))
    workload = workload_from_swf(part, platform, bandwidth="none")
    message(f"{n_jobs:,} jobs; {n_before:,} that ran or waited when the first of them came fill the machine")
    submit_s, site_start_s = rows["submit_s"], rows["submit_s"] + rows["wait_s"]
    found = {}
    for name, choices in ((SLURM, {"simulator": SLURM, "slurm": settings}), (SIMULATED, {})):
        trace = simulate(platform, workload, SLURM, energy=False, **choices)  # type: ignore[arg-type]
        chosen = trace.records["start_s"] >= 0
        if not np.all(chosen[n_before:]):
            never = ~chosen
            never[:n_before] = False
            limits = limits_text(limits_of_never_started(platform, workload, never))
            message(f"{np.count_nonzero(never):,} jobs never start under {name}{limits} and are not compared")
        chosen[:n_before] = False
        if not np.any(chosen):
            raise OptionsError(f"{site / LOG}: no job of the window starts under {name}")
        start_s = trace.records["start_s"] + float(submit_s.min())
        found[name] = distance_between(submit_s[chosen], site_start_s[chosen], start_s[chosen])
    return found


def _with_earlier(log: SwfLog, position: int, n_jobs: int) -> tuple[NDArray[np.void], int]:
    """Return the rows of a window behind those of the jobs that were there when it began, and how many these are."""
    window, before = log.rows[position : position + n_jobs].copy(), log.rows[:position].copy()
    began_s = float(window["submit_s"].min())
    start_s = before["submit_s"] + before["wait_s"]
    is_there = start_s + before["run_s"] > began_s
    before, ran_s = before[is_there], np.maximum(began_s - start_s[is_there], 0.0)
    for column in ("run_s", "requested_s"):
        before[column] = np.maximum(before[column] - ran_s, 1.0)
    before["submit_s"] = began_s
    order = np.argsort(ran_s == 0, kind="stable")  # those that ran come first
    return np.concatenate([before[order], window]), len(before)


def replay_text(found: dict[str, Distance]) -> str:
    """Return the comparison as a table."""
    lines = [f"{'':<18}{'pairs in another order':>24}{'mean wait':>14}{'95th percentile':>18}"]
    some = next(iter(found.values()))
    lines.append(f"{'the site':<18}{'':>24}{some.site_mean_wait_s:>12,.0f} s{some.site_p95_wait_s:>16,.0f} s")
    lines += [
        f"{name:<18}{one.discordant_share:>24.2%}{one.mean_wait_s:>12,.0f} s{one.p95_wait_s:>16,.0f} s"
        for name, one in found.items()
    ]
    return "\n".join(lines)
