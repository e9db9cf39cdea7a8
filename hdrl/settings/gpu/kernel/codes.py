"""Numbers of orders, placements and rules in compiled code; Python's names for them are in `policies`."""

from __future__ import annotations

from typing import Any

from hdrl.compiled.codes import CodeTable

ORDERS = CodeTable("order", range(17))
FIFO, SJF, SRTF, SRSF, LJF, PRIORITY, LAS, LAS_2D, GITTINS, DRF, SMALLEST, *_BY_HISTORY = ORDERS
SJF_HISTORY, SRTF_HISTORY, SRSF_HISTORY, GITTINS_HISTORY, QSSF, INDEX = _BY_HISTORY
"""Orders. ``SJF``, ``LJF``: by the whole time that a job takes; ``SRTF``: by what is left of it; ``SRSF``: that times
its GPUs; ``LAS``, ``LAS_2D``, ``GITTINS``: by levels of attained time, attained GPU time, and Gittins' index of it.
From ``SJF_HISTORY`` on they use the predictions of `hdrl.settings.gpu.kernel.history`; ``QSSF``: the whole time times
GPUs; ``INDEX``: by weights (`hdrl.settings.gpu.kernel.index`)."""

PLACEMENTS = CodeTable("placement", range(9))
RANDOM, FIRST_FIT, BEST_FIT, WORST_FIT, DOT_PRODUCT, PACKING, CLUSTERING, FGD, CONSOLIDATED = PLACEMENTS
"""Placements."""

STRICT, SKIP, EASY = RULES = CodeTable("rule", range(3))
"""Jobs that may start behind one that does not fit: none, any that fits, or those that do not delay it."""

TIE_FIRST, TIE_LAST, TIE_RANDOM = TIES = CodeTable("tie rule", range(3))
"""Choice among equally good nodes, in the order of nodes."""

NOT_ARRIVED, WAITING, RUNNING, DONE = range(4)
OVERRAN = 5
"""State of a job, and how it ended; the numbers are those of `hdrl.trace.TaskState`."""

FINISHED, NEEDS_ROOM, STUCK, DECIDES, PAUSED = range(5)
"""Why the engine stops: all jobs are done; the log of stays is full; deadlock: jobs wait and none can start; a decision
from outside is due."""

# Positions in the array of sizes, about what an agent sees and may do.
MAX_JOBS, MAX_RUNNING, N_PLACEMENTS, OBJECTIVE, SEES_DURATIONS, MAX_PAGES, MAY_WAIT, N_SIZES = range(8)

# Positions in the array of rules.
ORDER, PLACEMENT, RULE, PREEMPTS, TIE, RECORDS, NEEDS_GPUS, N_RULES = range(8)


def codes_of_rules(rules: Any) -> tuple[tuple[CodeTable, int], ...]:
    """Return the tables of the numbers that an array of rules holds, and these numbers, for `check_status`."""
    return (ORDERS, rules[ORDER]), (PLACEMENTS, rules[PLACEMENT]), (RULES, rules[RULE]), (TIES, rules[TIE])
