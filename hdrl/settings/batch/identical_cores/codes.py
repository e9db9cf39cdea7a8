"""Small integers by which the simulator knows things; job keys and backfilling are those of `kernel.codes`."""

from __future__ import annotations

from hdrl.compiled.codes import CodeTable
from hdrl.settings.batch.kernel.keys import N_FEATURES

# What `identical_cores.engine.advance` stopped for.
OVER = 0  # every job has been started
CHOOSE = 1  # a waiting job is to be chosen
OVERTAKE = 2  # a job that may overtake the one chosen before is to be chosen, or none

# What choosing a job means.
BLOCK = 0  # it is the next one to start (but for backfilling); nothing is chosen until it has started
REPICK = 1  # it is the first of the queue until something happens; then another may be chosen

COMMITMENTS = CodeTable("commitment", (BLOCK, REPICK))

NO_KEY = -1  # the decision maker chooses

# Objectives.
MEAN_BOUNDED_SLOWDOWN, MEAN_SLOWDOWN, MEAN_WAIT, MEAN_TURNAROUND, UTILIZATION, MAKESPAN = range(6)
MAX_WAIT, MAX_TURNAROUND, MAX_SLOWDOWN, MAX_BOUNDED_SLOWDOWN, THROUGHPUT, N_OBJECTIVES = range(6, 12)
OWN = -1  # one that this simulator does not compute: it pays nothing here
OBJECTIVES = CodeTable("objective", (*range(N_OBJECTIVES), OWN))

N_TEMPLATE = 8
"""RLScheduler's columns of an observation."""

# Columns of an observation beyond these.
FREE_PROCESSORS, QUEUE_LENGTH, RUNNING_JOBS, RUNNING_REMAINING, LOG_WAIT, LOG_REQUESTED_TIME = range(6)
LOG_PROCESSORS, EXPECTED_SLOWDOWN, EARLIEST_START, IS_CHOSEN = range(6, 10)
PROFILE = 10  # and N_PROFILE - 1 more
N_PROFILE = 8  # how many dates to come the profile of free processors has
INDEX = PROFILE + N_PROFILE  # and the other features of `kernel.keys`
BACKLOG = INDEX + N_FEATURES
COLUMNS = CodeTable("column", range(BACKLOG + 1))
