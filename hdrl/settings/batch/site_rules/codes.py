"""Small integers by which the simulator `site` knows things."""

from __future__ import annotations

# What `kernel.events.advance` stopped for.
ENDED = 0  # every job has ended, or nothing will happen any more
GROW = 1  # a log is nearly full
PAUSED = 2  # the budget of dates is used up
ASKS = 3  # something has changed, and what decides is outside the kernel

# What `kernel.events.request` is to do.
GO_ON = 0  # to the next decision, or until the budget of dates is used up
LOOK = 1  # choose nodes for an entry among those that it may start on now
START = 2  # start an entry on the selected nodes
REJECT = 3  # cancel the job of an entry
START_BY_PRIORITY = 4  # start what starts by the priorities of the entries
BEGIN_PICKS = 5  # begin to go down the queue, entry by entry
MARK_PICKS = 6  # mark the entries that may be picked
PICK = 7  # start an entry if it fits now, else stop its partition
END_PICKS = 8  # let other jobs overtake those that did not fit
SKIP = 9  # start nothing more
CALL = 10  # ask again at a date

# What `LOOK` found.
FITS = 0
IS_LIMITED = 1  # limits of QOS or accounts keep the job from starting
HAS_NO_NODES = 2  # no free nodes that it may use are enough

# When jobs overtake others.
NOTHING = 0  # the main scheduler alone
SLURM = 1  # the main scheduler and Slurm's backfill cycle
EASY = 2  # the first job that cannot start has a reservation in each partition
CONSERVATIVE = 3  # every job has a reservation, planned anew at each event

# bf_hetjob_prio: which priority of its components counts for all components of a het job.
HETJOB_MIN = 1
HETJOB_AVG = 2
HETJOB_MAX = 3

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
POLICY_IS_CALLED = 9  # as it has requested
DAEMON_LOOKS = 10
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
THINK = 5

# What becomes of jobs whose nodes others take, and what decides: the values of `site_rules.model.PreemptMode`
# and `PreemptBy`.
OFF = 0
REQUEUE = 1
CANCEL = 2
SUSPEND = 3
BY_PARTITION = 1
BY_QOS = 2
