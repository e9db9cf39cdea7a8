"""Platforms: the machine that is simulated, from JSON descriptions, SimGrid XML or Python."""

from hdrl.settings.batch.contention import ContentionModel
from hdrl.settings.batch.node_power import NodePower, SuspendPower
from hdrl.settings.batch.platform.conversion import build_platform, describe_platform
from hdrl.settings.batch.platform.model import Cluster, Link, NodeGroup, NodeType, Platform, ProcessorType
from hdrl.settings.batch.platform.pstates import PStateRules, contention_model, pstate_rules
from hdrl.settings.batch.platform.reader import find_platform, read_platform, shipped_platforms
from hdrl.settings.batch.platform.simgrid import read_simgrid, write_simgrid
from hdrl.settings.batch.platform.sleep import SleepState

__all__ = [
    "Cluster",
    "ContentionModel",
    "Link",
    "NodeGroup",
    "NodePower",
    "NodeType",
    "PStateRules",
    "Platform",
    "ProcessorType",
    "SleepState",
    "SuspendPower",
    "build_platform",
    "contention_model",
    "describe_platform",
    "find_platform",
    "pstate_rules",
    "read_platform",
    "read_simgrid",
    "shipped_platforms",
    "write_simgrid",
]
