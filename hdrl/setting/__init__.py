"""Settings: the worlds that hdrl knows, and the questions that each of them answers.

An experiment is setting x machine x load x decision maker x seed. What differs between settings is behind `Setting`;
training, comparing, reporting and reproducing ask these questions and know no setting by name. A setting of a user's
own is a Python file that defines ``SETTING``; it works wherever a name does. `PlainSetting`, `PlainPolicies` and
`PlainEnvironment` have the usual answers.
"""

from hdrl.setting.claims import Finding, Place, Playable, ReproduceProtocol, Results, without_models
from hdrl.setting.environments import EnvironmentSpec, LoadPart, PlainEnvironment
from hdrl.setting.known import BATCH, SETTINGS, SettingPlace, find_setting, loaded_file, place_of_setting
from hdrl.setting.policies import PlainPolicies, Policy, PolicyBook
from hdrl.setting.questions import Message, PlainSetting, Progress, Setting
from hdrl.trace.model import Load, Machine, Trace

__all__ = [
    "BATCH",
    "SETTINGS",
    "EnvironmentSpec",
    "Finding",
    "Load",
    "LoadPart",
    "Machine",
    "Message",
    "Place",
    "PlainEnvironment",
    "PlainPolicies",
    "PlainSetting",
    "Playable",
    "Policy",
    "PolicyBook",
    "Progress",
    "ReproduceProtocol",
    "Results",
    "Setting",
    "SettingPlace",
    "Trace",
    "find_setting",
    "loaded_file",
    "place_of_setting",
    "without_models",
]
