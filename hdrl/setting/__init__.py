"""Settings: the worlds of hdrl, each in five parts: inputs, simulator, policies, measures and view.

An experiment is setting x machine x load x decision maker x seed. What differs between settings is behind `Setting`;
training, comparing, reporting and reproducing use its parts and refer to no setting by name. A setting of a user's own
is a Python file that defines ``SETTING``; it works wherever a name does.

A part is a base class. What is abstract in it, a setting must write; the rest has the usual answers. What only some
settings can do is a small base class of its own (`LoadGenerator`, `Cautions`, `Configured`, `Fingerprints`,
`ExtraTrainingData`, `Indexed`, `Clairvoyance`), which a part derives from besides: code that needs it checks with
``isinstance``.
"""

from hdrl.base.moved import load_moved
from hdrl.setting.environments import (
    Arguments,
    Configured,
    EnvironmentSpec,
    ExtraTrainingData,
    Fingerprints,
    Index,
    Indexed,
    LoadPart,
    Player,
)
from hdrl.setting.kinds import Message, Progress
from hdrl.setting.known import BATCH, SETTINGS, SettingRef, find_setting, loaded_file, setting_ref
from hdrl.setting.setting import (
    TABLE_FILES,
    Cautions,
    Clairvoyance,
    Inputs,
    LoadGenerator,
    Measures,
    Policy,
    PolicyBook,
    RunView,
    Setting,
    Simulator,
)
from hdrl.trace.model import Load, Machine, Trace

__all__ = [
    "BATCH",
    "SETTINGS",
    "TABLE_FILES",
    "Arguments",
    "Cautions",
    "Clairvoyance",
    "Configured",
    "EnvironmentSpec",
    "Fingerprints",
    "ExtraTrainingData",
    "Index",
    "Indexed",
    "Inputs",
    "Load",
    "LoadGenerator",
    "LoadPart",
    "Machine",
    "Measures",
    "Message",
    "Player",
    "Policy",
    "PolicyBook",
    "Progress",
    "Setting",
    "SettingRef",
    "Simulator",
    "Trace",
    "RunView",
    "find_setting",
    "loaded_file",
    "setting_ref",
]


def __getattr__(name: str) -> object:
    return load_moved(__name__, name)
