"""PyBatsim: its schedulers in this process, and hdrl's policies as a scheduler that PyBatsim runs.

`run_scheduler` simulates under a scheduler of PyBatsim, as it is, without a second process. The module
`pybatsim.scheduler` is for the other way: the command ``pybatsim`` runs it, and hdrl decides.
PyBatsim is optional; what needs it says how to install it.
"""

from hdrl.batsim.pybatsim.host import HostedScheduler
from hdrl.batsim.pybatsim.require import MissingPyBatsim, scheduler_names
from hdrl.batsim.pybatsim.run import SIMULATORS, run_scheduler

__all__ = ["SIMULATORS", "HostedScheduler", "MissingPyBatsim", "run_scheduler", "scheduler_names"]
