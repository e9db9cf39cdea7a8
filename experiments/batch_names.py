"""Predictions by what jobs are called: whether groups by numbers of programs and of users' groups improve schedules.

No log of names is at hand, so numbers of programs and of groups stand for them. Only first parts of logs are used:
nothing is chosen here, and the last parts stay unseen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hdrl.base import elementary
from hdrl.base.cores import usable_cores
from hdrl.base.windows import side_by_side
from hdrl.experiments import PROTOCOLS
from hdrl.experiments.batch_evolution import FOLLOW_UP, LENGTH, TRAINED_UNTIL, WARM_UP, pooled
from hdrl.experiments.findings import Finding, Place, Playable

if TYPE_CHECKING:
    from hdrl.settings.batch.envs.window_judge import JudgedLog
    from hdrl.settings.batch.policies.choices import PolicyPair
    from hdrl.settings.batch.workload.model import Workload

NAMED = {
    "CTC-SP2, program": ("CTC-SP2-1996-3.1-cln.swf.gz", 338, ("executable",)),
    "KTH-SP2, group": ("KTH-SP2-1996-2.1-cln.swf.gz", 100, ("group",)),
    "LANL-CM5, program": ("LANL-CM5-1994-4.1-cln.swf.gz", 1024, ("executable",)),
    "LANL-CM5, group": ("LANL-CM5-1994-4.1-cln.swf.gz", 1024, ("group",)),
    "LANL-CM5, program and group": ("LANL-CM5-1994-4.1-cln.swf.gz", 1024, ("executable", "group")),
}
"""Logs, the processors of their machines, and the fields whose values stand for names."""

CLASSIC = "saf+easy_priority@{}"
INDEX = "es-generalist"
BY_REQUEST, BY_NAME = "geo", "geo_name"


@PROTOCOLS.register("es-names")
def es_names(traces: Mapping[str, Path], models: Sequence[Playable]) -> dict[Place, Finding]:
    """Return ratios of mean bounded slowdown, predictions by name to those by request, on first parts of logs.

    Parameters
    ----------
    traces
        Holds the logs of `NAMED`.
    models
        Not used: a protocol of shipped policies.
    """
    from hdrl.settings.batch.envs.machines import pool_inputs
    from hdrl.settings.batch.envs.window_judge import JudgedLog, in_threads
    from hdrl.settings.batch.policies.pairs import read_pair
    from hdrl.settings.batch.predict.predictors import PREDICTORS

    del models
    index = read_pair(INDEX)
    by_name = replace(index, rule=replace(index.rule, **PREDICTORS[BY_NAME].rule_arguments()))
    pairs = [by_name, index, *(read_pair(CLASSIC.format(one)) for one in (BY_NAME, BY_REQUEST))]
    found: dict[Place, Finding] = {}
    for row, (file, n_procs, fields) in NAMED.items():
        inputs = pool_inputs(traces[file], None, n_procs, memory="none", bandwidth="none")
        load = _named(inputs.workloads[0], fields)
        last = round(TRAINED_UNTIL * load.n_jobs)
        log = JudgedLog(inputs.platform, load, 0, load.n_jobs, LENGTH, "mean_bounded_slowdown", INDEX)
        starts = side_by_side((WARM_UP, last - FOLLOW_UP), LENGTH)
        values = elementary.log(in_threads(partial(_values, log, pairs), starts, usable_cores()))
        for column, position in ((INDEX, 0), (CLASSIC.format(""), 2)):
            ratios = values[:, position : position + 1] - values[:, position + 1 : position + 2]
            column = f"{column.rstrip('@')}, by name to by request"
            found[row, column] = pooled({row: ratios}, f"{row}, {column}")
    return found


def _values(log: JudgedLog, pairs: Sequence[PolicyPair], start: int) -> list[float]:
    """Return the objective of a padded window under some policies."""
    return [one.value for one in log.outcomes(start, pairs, warm_up=WARM_UP, follow_up=FOLLOW_UP)]


def _named(load: Workload, fields: Sequence[str]) -> Workload:
    """Return a log whose jobs have one name if some of their fields are equal."""
    if load.history is None:  # no log
        return load
    jobs, columns = load.jobs.copy(), np.stack([load.jobs[one] for one in fields], axis=1)
    alike = np.unique(columns, axis=0, return_inverse=True)[1].reshape(-1)
    jobs["executable"] = np.where((columns < 0).all(axis=1), -1, alike)
    name = np.full(len(load.history.user), -1, dtype=np.int32)
    name[load.positions] = jobs["executable"]
    return replace(load, jobs=jobs, history=replace(load.history, name=name))
