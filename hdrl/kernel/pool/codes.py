"""Small integers by which the pool knows things; job keys and kinds of EASY are those of `hdrl.kernel.codes`."""

from __future__ import annotations

# What `hdrl.kernel.pool.engine.advance` stopped for.
OVER = 0  # every job has been started
CHOOSE = 1  # a waiting job is to be chosen
OVERTAKE = 2  # a job that may overtake the one chosen before is to be chosen, or none

# What choosing a job means.
BLOCK = 0  # it is the next one to start (but for backfilling); nothing is chosen until it has started
REPICK = 1  # it is the first of the queue until something happens; then another may be chosen

# Backfilling beyond that of `hdrl.kernel.codes`: in the order of submission, what is expected to end before the chosen
# job can start (strictly, as it was expected when the job was chosen).
STRICT_FCFS = 4

# Job keys beyond those of `hdrl.kernel.codes`: RLScheduler's WFP3 and UNICEF, in which every job has waited -1 - s.
JOB_WFP3_INVERTED = 100
JOB_UNICEF_INVERTED = 101

NO_KEY = -1  # the decision maker is asked

# Objectives.
MEAN_BOUNDED_SLOWDOWN = 0
MEAN_SLOWDOWN = 1
MEAN_WAIT = 2
MEAN_TURNAROUND = 3
UTILIZATION = 4
MAKESPAN = 5
MAX_WAIT = 6
MAX_TURNAROUND = 7
MAX_SLOWDOWN = 8
MAX_BOUNDED_SLOWDOWN = 9
THROUGHPUT = 10
N_OBJECTIVES = 11
OWN = -1  # one of which the pool knows nothing: nothing is paid here

# Columns of an observation beyond RLScheduler's.
FREE_PROCESSORS = 0
QUEUE_LENGTH = 1
RUNNING_JOBS = 2
RUNNING_REMAINING = 3
LOG_WAIT = 4
LOG_REQUESTED_TIME = 5
LOG_PROCESSORS = 6
EXPECTED_SLOWDOWN = 7
EARLIEST_START = 8
IS_CHOSEN = 9
PROFILE = 10  # and N_PROFILE - 1 more
