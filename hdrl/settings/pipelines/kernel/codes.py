"""Numbers of what the compiled simulator distinguishes."""

from __future__ import annotations

from hdrl.compiled.codes import CodeTable
from hdrl.settings.pipelines.loads.pipeline import NEVER

CHOOSE, OVER, STUCK = range(3)
"""Stages: a decision is due; every instance has ended; there is nothing to wait for, and nothing was started."""

NONE = NEVER
"""No unit, no stay, no time."""

PLAIN, RLSCHEDSIM = RELEASES = CodeTable("rule of releases", range(2))
"""When releases are noticed: at once; or as in rlschedsim, when a kernel ends or everything has ended."""

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
"""Which ready kernel is next: earliest deadline of its instance; earliest local deadline; shortest period; shortest
relative deadline; least laxity; highest upward rank (HEFT); whichever can end first; any; what an index
with weights says (`hdrl.settings.pipelines.kernel.index`)."""

ON_IDLE, ON_ANY, ON_CPU, ON_GPU, ON_PLANNED, ON_RANDOM, ON_INDEXED = PLACES = CodeTable("place", range(7))
"""Where it goes: the idle unit on which it ends first (a busy one is not waited for); any unit on which it ends first,
its queue included; the same among CPUs, or GPUs; where the plan says; any; where the index says."""

SINGLE, BEST_GAIN, BY_THRESHOLD, SHORTEST, PLANNED, ANY_DEPTH, INDEXED = FUSIONS = CodeTable("fusion", range(7))
"""What is fused with it: nothing; the group that saves most compared with its kernels one by one; as many kernels as
have earlier local deadlines than every other ready kernel (rlschedsim's local EDF); what lets the instance end first,
if nothing else comes in between; what the plan says; any; what the index says."""

R_METRIC, R_SLACK, R_OUTCOME, R_RLSCHEDSIM = REWARDS = CodeTable("reward", range(4))
"""What is rewarded: what a decision adds to the objective; slack of ended instances in periods; +1 or -1 for each; the
same times the number of decisions that it took."""

MISS_RATIO, MEAN_TARDINESS, MEAN_LATENESS, MAX_TARDINESS, MAKESPAN = OBJECTIVES = CodeTable("objective", range(5))
"""Objectives; all are to be small."""

N_OBJECTIVES = 5
