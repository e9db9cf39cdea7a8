"""A readable engine of Batsim 4.2.1's own model, to the last printed digit.

`ExactBatsim` runs a simulation against anything that has ``exchange(message) -> reply``. What it does is described
in ``docs/batsim.md``; the modules, lowest first: platform, flows, sharing, extended, energy, rows, engine, actors,
profiles, jobs, machines, protocol, outputs, context, ptasks, added_io, execution, submission, requests, server,
simulation.
"""

from hdrl.batsim.exact.context import BatsimOptions, Scheduler
from hdrl.batsim.exact.simulation import ExactBatsim, Result

__all__ = ["BatsimOptions", "ExactBatsim", "Result", "Scheduler"]
