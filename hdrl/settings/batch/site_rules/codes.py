"""Small integers by which the simulator `site` knows things."""

from __future__ import annotations

# What `kernel.events.advance` stopped for.
ENDED = 0  # every job has ended, or nothing will happen any more
GROW = 1  # a log is nearly full
PAUSED = 2  # the budget of dates is used up

# When jobs overtake others.
NOTHING = 0  # the main scheduler alone
SLURM = 1  # the main scheduler and Slurm's backfill cycle
EASY = 2  # the first job that cannot start has a reservation in each partition
CONSERVATIVE = 3  # every job has a reservation, planned anew at each event

# Priorities beyond the job keys of `hdrl.settings.batch.kernel.codes`.
MULTIFACTOR = 200

SLURM_CYCLE = 200  # a kind of backfilling beyond those of `hdrl.settings.batch.kernel.codes`

# Events, in the order in which those of one date are handled.
JOB_ENDS = 0
NODE_RETURNS = 1
NODE_LEAVES = 2
JOB_IS_CANCELLED = 3
JOB_COMES = 4
JOB_IS_ELIGIBLE = 5  # its begin date, the end of its hold, or the delay of a dependency
RESERVATION_CHANGES = 6
MAIN_IS_DUE = 7
BACKFILL_IS_DUE = 8
DAEMON_LOOKS = 9
N_EVENTS = DAEMON_LOOKS + 1

# States of a job: the values of `simulation.trace.JobState`.
NOT_SUBMITTED = 0
WAITING = 1
RUNNING = 2
SUCCEEDED = 3
FAILED = 4
TIMED_OUT = 5
CANCELLED = 6
NEVER_STARTED = 7  # cancelled while it waited, or its dependency can never be fulfilled

# Kinds of dependencies: the values of `site_rules.model.DependencyKind`.
AFTER = 0
AFTER_OK = 1
AFTER_ANY = 2
AFTER_NOT_OK = 3
SINGLETON = 4

# What becomes of jobs whose nodes others take, and what decides: the values of `site_rules.model.PreemptMode`
# and `PreemptBy`.
OFF = 0
REQUEUE = 1
CANCEL = 2
SUSPEND = 3
BY_PARTITION = 1
BY_QOS = 2
