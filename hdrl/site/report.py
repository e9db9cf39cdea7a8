"""Report of an import, as JSON: the one source of its text and of its page."""

from __future__ import annotations

import math
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import numpy as np

from hdrl.base.files import without_nan
from hdrl.metrics.orders import Distance
from hdrl.site.found import SiteImport
from hdrl.site.joining import SHORTEST_S
from hdrl.site.machine import n_cores, peak_cores
from hdrl.site.records import AttemptState
from hdrl.site.replay import Replays, SiteReplay, limits_text
from hdrl.version import VERSION

FAR_SHARE, FAR_RATIO = 0.05, 1.25
"""A replay with more pairs of one week in another order, or a mean wait off by more, is too far from the site."""


def report_of(found: SiteImport) -> dict[str, Any]:
    """Return the report of an import."""
    records, conf = found.jobs.records, found.conf
    begin_s, end_s = found.log.first_s, float(np.max(records["start_s"] + records["run_s"]))
    core_s = float(np.sum(records["run_s"] * records["cores"]))
    verdict, certainty = _verdict(found.replays)
    return {
        "hdrl": VERSION,
        "site": conf.name or found.log.log.name,
        "verdict": verdict,
        "certainty": certainty,
        "notes": [_sentence(note) for note in found.notes],
        "files": [{"name": name, "sha256": sha256} for name, sha256 in found.files],
        "format": found.dump.form,
        "zone": found.zone,
        "is_anonymous": found.is_anonymous,
        "similar": list(found.similar),
        "rows": {
            "read": found.dump.n_rows,
            "attempts": len(found.dump.records),
            "skipped": dict(found.dump.skipped.most_common()),
        },
        "jobs": {
            "ids": found.jobs.n_ids,
            "joined": found.jobs.joined,
            "left_out": dict(found.jobs.left_out.most_common()),
            "kept": found.jobs.n_jobs,
            "ended": {state.name.lower(): int(n) for state in AttemptState if (n := np.sum(records["state"] == state))},
            "lost_core_h": found.jobs.lost_core_s / 3600,
        },
        "machine": {
            "nodes": sum(one.count for one in conf.nodes),
            "cores": n_cores(conf),
            "gpus": sum(one.count * one.gpus for one in conf.nodes),
            "memory_counts": conf.counts_memory,
            "peak_cores": peak_cores(records["start_s"], records["run_s"], records["cores"]),
            "partitions": _partitions(found),
            "scheduler": dict(conf.scheduler),
            "qos": len(conf.qos),
        },
        "log": {
            "begin": _date(begin_s),
            "end": _date(end_s),
            "core_h": core_s / 3600,
            "utilization": core_s / ((end_s - begin_s) * n_cores(conf)) if end_s > begin_s else None,
            "users": len(found.log.names["user"]),
            "accounts": len(found.log.names["group"]),
            "without_limit": found.log.n_without_limit,
            "without_request": found.log.n_without_request,
        },
        "replay": _replays(found.replays),
    }


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _sentence(note: str) -> str:
    return f"{note[:1].upper()}{note[1:]}."


def _partitions(found: SiteImport) -> list[dict[str, Any]]:
    """Return the partitions of the site, and those that only jobs name, each with its jobs."""
    texts = found.dump.names["partition"].texts()
    numbers, counts = np.unique(found.jobs.records["partition"], return_counts=True)
    jobs = {texts[number] if number >= 0 else "(none)": int(n) for number, n in zip(numbers, counts, strict=True)}
    rows = []
    for name in dict.fromkeys([*found.conf.partitions, *jobs]):
        partition = found.conf.partitions.get(name)
        rows.append(
            {
                "name": name,
                "nodes": None if partition is None else (partition.nodes or "all"),
                "n_nodes": None if partition is None else len(found.conf.nodes_of(name)),
                "max_time_s": None if partition is None else partition.max_time_s,
                "tier": None if partition is None else partition.tier,
                "jobs": jobs.get(name, 0),
            }
        )
    return rows


def _distance(one: Distance) -> dict[str, Any]:
    return without_nan({**asdict(one), "wait_ratio": one.wait_ratio})


def _replays(replays: Replays) -> dict[str, Any]:
    nearest = replays.nearest
    return {
        "first_job": replays.first_job,
        "replayed": replays.n_replayed,
        "warm_up": replays.n_warm_up,
        "requeued": replays.n_requeued,
        "nearest": None if nearest is None else nearest.policy,
        "policies": [
            {
                "policy": one.policy,
                "never_started": one.n_never,
                "limits": dict(one.limits),
                "peak_cores": one.peak_cores,
                "site_peak_cores": one.site_peak_cores,
                "week_share": one.week_share if math.isfinite(one.week_share) else None,
                "all": _distance(one.whole),
                "partitions": {name: _distance(part) for name, part in one.by_partition.items()},
                "weeks": {name: _distance(part) for name, part in one.by_week.items()},
            }
            for one in replays.replays
        ],
    }


def _is_far(one: SiteReplay) -> bool:
    whole = one.whole
    if math.isnan(whole.wait_ratio):  # no job waited at the site, in seconds
        return one.week_share > FAR_SHARE or whole.mean_wait_s >= SHORTEST_S
    return one.week_share > FAR_SHARE or not 1 / FAR_RATIO <= whole.wait_ratio <= FAR_RATIO


def _verdict(replays: Replays) -> tuple[str, str]:
    """Say how far the nearest replay is from what happened, and what that allows."""
    nearest = replays.nearest
    *others, last = [one.policy for one in replays.replays] or [""]
    names = f"{', '.join(others)} and {last}" if others else last
    if nearest is None:
        why = "nothing was replayed" if not replays.n_replayed else "too few jobs can be compared"
        return f"How far a replay is from what happened is unknown: {why}.", "Claim nothing on it yet."
    whole = nearest.whole
    ratio = f"its mean wait is {whole.wait_ratio:.2f} times the site's"
    if math.isnan(whole.wait_ratio):
        ratio = f"its mean wait is {whole.mean_wait_s:.0f} s, and no job waited at the site"
    verdict = (
        f"A replay under {nearest.policy} starts {nearest.week_share:.1%} of the pairs of jobs of one week in another "
        f"order than the site did ({whole.discordant_share:.2%} of all pairs); {ratio}."
    )
    never = ""
    if nearest.n_never:
        never = f", {nearest.n_never:,} that ran at the site never start under {nearest.policy}"
        never += limits_text(nearest.limits)
    certainty = f"{names} stand for the site's own policy; {whole.n_jobs:,} jobs are compared{never}."
    if _is_far(nearest):
        certainty += (
            f" That is far (more than {FAR_SHARE:.0%} of these pairs, or a mean wait off by more than a factor of "
            f"{FAR_RATIO:g}): do not believe simulations of this site yet."
        )
    return verdict, certainty
