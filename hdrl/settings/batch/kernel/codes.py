"""Small integers by which the kernel knows things, and their names outside it.

No two things that may stand in one place have the same number: what `order` knows beyond the kernel, and the
kernel beyond it, are numbered here, too. What is in no table is an error (`CodeTable.check`, ``ERROR_UNKNOWN_CODE``) or
NaN.
"""

from __future__ import annotations

from hdrl.compiled.codes import CodeTable
from hdrl.compiled.jit import jit

# What `kernel.engine.advance` stopped for.
MESSAGE = 0  # the scheduler must decide
ENDED = 1  # the simulation is over
STUCK = 2  # nothing will ever happen again, but jobs are waiting
GROW = 3  # a log is nearly full
PAUSED = 4  # the budget of engine steps is used up
ILLEGAL = 5  # the scheduler requested something impossible

# Steps of a job: the values of `workload.model.StepKind`.
STEP_DELAY, STEP_COMPUTE, STEP_COMPUTE_TOTAL, STEP_RETURN = STEPS = CodeTable("kind of a step", range(4))

# States of a job: the values of `simulation.trace.JobState`.
NOT_SUBMITTED, WAITING, RUNNING, SUCCEEDED, FAILED, WALLTIME_REACHED, KILLED_BY_REQUEST, REJECTED = range(8)

HELLO, READY, SUBMITTED, BYE, OP, COMPLETED, CALLED, KILLED, SWITCHED = range(9)
SERVER_MESSAGES = CodeTable("kind of a message to the server", range(9))

# Events of a message to the scheduler; the last one: a node is off now, or on.
EVENT_BEGINS, EVENT_SUBMITTED, EVENT_COMPLETED, EVENT_KILLED, EVENT_PSTATE = range(5)
EVENT_CALLED, EVENT_NO_MORE_JOBS, EVENT_ENDS, EVENT_ENERGY, EVENT_NODE = range(5, 10)
EVENTS = CodeTable("kind of an event", range(10))

# Requests of its answer (ops); an annotation takes its turn in the mailbox, its text is kept outside the kernel.
EXECUTE, REJECT, KILL, CALL, SET_PSTATE, ANNOTATE, ASK_ENERGY = OPS = CodeTable("kind of a request", range(7))

# What ended in an engine step.
END_TRANSFER, END_SLEEP, END_TASK = range(3)

# Why a job sleeps: a delay shorter than the walltime, one that the walltime cuts, the walltime of a computation.
SLEEP_DELAY, SLEEP_WALLTIME, SLEEP_TIMER = SLEEPS = CodeTable("reason to sleep", range(3))

# What a node does, where nodes can be switched off.
NODE_ON, NODE_SHUTTING_DOWN, NODE_OFF, NODE_BOOTING = range(4)

# What a decision is due for.
NO_NEWS = 0
NEWS_OF_JOBS = 1  # jobs came or ended
NEWS_OF_NODES = 2  # nothing but that nodes were booted

# Who switches nodes.
NODES_LEFT_ALONE = 0  # only decisions from outside the kernel
NODES_BY_TIMEOUT = 1  # off after some time without a job, on when jobs wait for them
NODES_BY_NUMBER = 2  # as many are on as is wanted, and more if the first waiting job needs them

NODE_RULES = CodeTable("rule for nodes", (NODES_LEFT_ALONE, NODES_BY_TIMEOUT, NODES_BY_NUMBER))

# How the queue is kept, unless as a heap by a job key.
QUEUE_BY_ARRIVAL = -1
QUEUE_BY_PRIORITY = -2  # a list that is sorted again at every decision

# Job keys: HDeepRM's in its order, the priorities of the literature, and two that need more than a key.
(
    JOB_RANDOM,
    JOB_FIRST,
    JOB_SHORTEST,
    JOB_SMALLEST,
    JOB_LOW_MEM,
    JOB_LOW_MEM_BW,
    JOB_LONGEST,
    JOB_LARGEST,
    JOB_SAF,
    JOB_LXF,
    JOB_WFP3,
    JOB_UNICEF,
    JOB_F1,
    JOB_F2,
    JOB_F3,
    JOB_F4,
    JOB_F1_RELATIVE,
    JOB_F2_RELATIVE,
    JOB_F3_RELATIVE,
    JOB_F4_RELATIVE,
    JOB_GIVEN,  # the priority that was written into the job from outside the kernel
    JOB_INDEX,  # the index of `kernel.keys`, which needs weights
) = JOB_KEYS = CodeTable("job key", range(22))

# Job keys of the simulator of identical processors alone: RLScheduler's WFP3 and UNICEF, in which every job has waited
# -1 - s.
JOB_WFP3_INVERTED = 100
JOB_UNICEF_INVERTED = 101

ORDER_JOB_KEYS = CodeTable("job key", (*range(JOB_RANDOM, JOB_GIVEN), JOB_WFP3_INVERTED, JOB_UNICEF_INVERTED))
"""The job keys of the simulator of identical processors."""

# How long a job will run, for the order of jobs.
PREDICT_NOTHING = 0  # as long as requested, and nothing is kept of ended jobs
PREDICT_REQUESTED = 1
PREDICT_LAST_TWO = 2
PREDICT_USER_MEAN = 3
PREDICT_GEOMETRIC = 4
PREDICT_HARMONIC = 5
PREDICT_LEARNED = 6  # by a network, which needs weights
PREDICT_GIVEN = 7  # as given from outside the kernel

PREDICTORS = CodeTable("predictor", range(PREDICT_NOTHING, PREDICT_GIVEN + 1))

# What the weights of an index mean.
INDEX_LINEAR = 0
INDEX_ADDITIVE = 1
INDEX_NETWORK = 2  # linear, and what a small network adds
INDEX_GUARDED = 3  # additive, with a gate that is open where all jobs find room, and a guard against starvation

INDEX_PAUSING = 4  # guarded, with a guard that pauses in an overload

INDEX_FORMS = CodeTable(
    "form of the index", (INDEX_LINEAR, INDEX_ADDITIVE, INDEX_NETWORK, INDEX_GUARDED, INDEX_PAUSING)
)
GUARDED_FORMS = (INDEX_GUARDED, INDEX_PAUSING)

# Backfilling. EASY: which jobs may overtake the first of the queue, and in which order they are tried.
NO_BACKFILLING = 0
EASY_FCFS = 1
EASY_SJBF = 2
EASY_PRIORITY = 3
CONSERVATIVE = 4  # every waiting job has a reservation

# Backfilling of the simulator of identical processors alone: in the order of submission, what is expected to end before
# the chosen job can start (strictly, as it was expected when the job was chosen).
STRICT_FCFS = 5

EASY = CodeTable("order of EASY backfilling", (EASY_FCFS, EASY_SJBF, EASY_PRIORITY))

BACKFILLINGS = CodeTable("backfilling", (NO_BACKFILLING, *EASY, CONSERVATIVE))
"""The backfilling of the kernel."""

UNCALLED_BACKFILLINGS = CodeTable("backfilling that runs without calls", (NO_BACKFILLING, *EASY))
"""The backfilling of runs in one compiled call."""

ORDER_BACKFILLINGS = CodeTable("backfilling", (NO_BACKFILLING, *EASY, STRICT_FCFS))
"""The backfilling of the simulator of identical processors."""

# Core keys, in HDeepRM's order; then what others have.
CORE_RANDOM, CORE_HIGH_GFLOPS, CORE_HIGH_CORES, CORE_HIGH_MEM, CORE_HIGH_MEM_BW = range(5)
CORE_LOW_POWER, CORE_LOW_CORES, CORE_FIRST = range(5, 8)
CORE_KEYS = CodeTable("core key", range(8))

# Errors of an op.
ERROR_JOB_NOT_WAITING = 1
ERROR_CORE_BUSY = 2
ERROR_WRONG_SIZE = 3
ERROR_CALL_IN_PAST = 4
ERROR_TOO_MANY_TIMERS = 5
ERROR_UNKNOWN_CORE = 6
ERROR_MEMORY = 8
ERROR_DUPLICATE_CORE = 9
ERROR_KILL_UNKNOWN = 10
ERROR_KILL_ENDED = 11
ERROR_NODE_NOT_FREE = 13
ERROR_NODE_STATUS = 14  # to be switched off, but not on; to be switched on, but not off
ERROR_PART_OF_NODE = 15  # some hosts of a node are to be switched without the others
ERROR_UNKNOWN_CODE = 12  # a number that no table here knows; it stands where otherwise the core does


@jit
def refuse(state, error, job, core):
    """Note an error, one of ``ERROR_*``, and what it is about (-1: nothing)."""
    s = state.scalars[0]
    s.error = error
    s.error_job = job
    s.error_core = core


@jit
def refuse_code(state, code):
    """Note that a number was met that no table of this module knows."""
    refuse(state, ERROR_UNKNOWN_CODE, -1, code)
