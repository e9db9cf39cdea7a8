"""A setting: five parts, and the environments in which agents learn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Generic

from hdrl.setting.environments import EnvironmentSpec
from hdrl.setting.inputs import Inputs
from hdrl.setting.kinds import LoadT, MachineT, OptionsT, SweepT, TraceT
from hdrl.setting.measures import Measures
from hdrl.setting.policies import PolicyBook
from hdrl.setting.simulator import Simulator
from hdrl.setting.view import View


@dataclass(frozen=True)
class Setting(Generic[OptionsT, SweepT, MachineT, LoadT, TraceT]):
    """A world in which schedulers are compared.

    Attributes
    ----------
    name
        Its name, as options say it.
    title
        What it is about, in a few words.
    inputs
        Its options, and the machines and loads that they ask for.
    simulator
        What happens on a machine when policies decide.
    policies
        Its policies.
    measures
        Its metrics.
    view
        What its run folders hold, and what can be drawn of them.
    environments
        Its environments by the names that options give them; the first is the default.
    """

    name: str
    title: str
    inputs: Inputs[OptionsT, SweepT, MachineT, LoadT]
    simulator: Simulator[OptionsT, SweepT, MachineT, LoadT, TraceT]
    policies: PolicyBook
    measures: Measures[TraceT]
    view: View = field(default_factory=View)
    environments: Mapping[str, EnvironmentSpec[OptionsT, SweepT, MachineT, LoadT]] = field(
        default_factory=lambda: MappingProxyType({})
    )
