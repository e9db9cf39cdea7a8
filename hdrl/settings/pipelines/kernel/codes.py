"""Numbers of what the compiled simulator distinguishes."""

from __future__ import annotations

from hdrl.compiled.codes import CodeTable
from hdrl.settings.pipelines.loads.pipeline import NEVER

CHOOSE, OVER, STUCK = range(3)
"""Stages: a decision is due; every instance has ended; there is nothing to wait for, and nothing was started."""

NONE = NEVER
"""No unit, no stay, no time."""

PLAIN, RLSCHEDSIM = RELEASES = CodeTable("rule of releases", range(2))
"""Dates at which releases are noticed: at once; or as in rlschedsim, when a kernel ends or everything has ended."""

ORDERS = CodeTable("order", range(9))
(
    BY_DEADLINE,
    BY_LOCAL_DEADLINE,
    BY_PERIOD,
    BY_RELATIVE_DEADLINE,
    BY_LAXITY,
    BY_UPWARD_RANK,
    BY_FINISH,
    BY_CHANCE,
    BY_INDEX,
) = ORDERS
"""Rules for the next ready kernel: earliest deadline of its instance; earliest local deadline; shortest period;
shortest relative deadline; least laxity; highest upward rank (HEFT); earliest possible end; any; the choice of an index
with weights (`hdrl.settings.pipelines.kernel.index`)."""

ON_IDLE, ON_ANY, ON_CPU, ON_GPU, ON_PLANNED, ON_RANDOM, ON_INDEXED = PLACEMENTS = CodeTable("place", range(7))
"""Rules for its unit: the idle unit on which it ends first (a busy one is not waited for); any unit on which it ends
first, its queue included; the same among CPUs, or GPUs; the planned one; any; the choice of the index."""

SINGLE, BEST_GAIN, BY_THRESHOLD, SHORTEST, PLANNED, ANY_DEPTH, INDEXED = FUSIONS = CodeTable("fusion", range(7))
"""Rules for fusing other kernels with it: none; the group that saves most compared with its kernels one by one; as many
kernels as have earlier local deadlines than every other ready kernel (rlschedsim's local EDF); the group with which the
instance ends first, if nothing else comes in between; the planned one; any; the choice of the index."""

R_METRIC, R_SLACK, R_OUTCOME, R_RLSCHEDSIM = REWARDS = CodeTable("reward", range(4))
"""Rewards: the change of the objective by a decision; slack of ended instances in periods; +1 or -1 for each; the same
times the number of decisions that it took."""

MISS_RATIO, MEAN_TARDINESS, MEAN_LATENESS, MAX_TARDINESS, MAKESPAN = OBJECTIVES = CodeTable("objective", range(5))
"""Objectives; all are to be small."""

N_OBJECTIVES = 5
