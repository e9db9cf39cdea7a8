"""The simulator of the order of jobs alone: a machine of identical processors, many at once, compiled and lean.

Nothing but processors is modelled: no memory, no contention, no energy, and no messages that take time. A job holds
as many processors as it asks for, for its run time. A decision maker orders the waiting jobs: a caller of
`identical_cores.entries`, or a job key of `kernel.keys`.
"""
