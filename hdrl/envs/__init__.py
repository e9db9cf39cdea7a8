"""Gymnasium environments of hdrl, single and vectorised; importing this package registers them.

``hdrl/JobPick-v0`` picks waiting jobs on a machine of identical processors, ``hdrl/PolicyPair-v0`` chooses a policy
pair at each decision on any platform, and ``hdrl/JobIndex-v0`` judges weights of an index of jobs by whole windows.
``gymnasium.make`` gives one environment, ``gymnasium.make_vec`` a batch that
one compiled call steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium

from hdrl.base.lazy import load_name

if TYPE_CHECKING:
    from hdrl.envs.episodes import EpisodePlan, Window, plan_episodes
    from hdrl.envs.native import NativeVectorEnv
    from hdrl.envs.picks import PickEnv, PickSpec, follow
    from hdrl.envs.row_pick import RowLayout, RowPickEnv, RowPickVectorEnv
    from hdrl.envs.single import SingleEnv

ENVIRONMENTS = {
    "hdrl/JobPick-v0": "hdrl.settings.batch.envs.job_pick:JobPick",
    "hdrl/PolicyPair-v0": "hdrl.settings.batch.envs.policy_pair:PolicyPair",
    "hdrl/JobIndex-v0": "hdrl.settings.batch.envs.job_index:JobIndex",
    "hdrl/Pipelines-v0": "hdrl.settings.pipelines.envs.env:Pipelines",
    "hdrl/PipelinesIndex-v0": "hdrl.settings.pipelines.envs.index:PipelinesIndex",
    "hdrl/GpuCluster-v0": "hdrl.settings.gpu.envs.env:GpuCluster",
    "hdrl/GpuIndex-v0": "hdrl.settings.gpu.envs.index:GpuIndex",
    "hdrl/Adaptation-v0": "hdrl.settings.adaptation.env:Adaptation",
    "hdrl/AdaptationIndex-v0": "hdrl.settings.adaptation.index_env:AdaptationIndex",
}
"""Ids of the registered environments, and where their classes are: the names end in ``Env`` and ``VectorEnv``."""

_BY_COMPATIBILITY = {
    "hdrl/JobPick-v0": "hdrl.settings.batch.envs.job_pick_making:job_pick",
    "hdrl/GpuCluster-v0": "hdrl.settings.gpu.envs.making:gpu_cluster",
}
"""Functions: which class it is depends on ``compatibility``."""

for _id, _place in _BY_COMPATIBILITY.items():
    if _id not in gymnasium.registry:
        gymnasium.register(_id, entry_point=_place, vector_entry_point=f"{_place}_vector")
for _id, _place in ENVIRONMENTS.items():
    if _id not in gymnasium.registry:
        gymnasium.register(_id, entry_point=f"{_place}Env", vector_entry_point=f"{_place}VectorEnv")

_MODULES = {
    "hdrl.envs.episodes": (
        "EpisodePlan",
        "Window",
        "plan_episodes",
    ),
    "hdrl.envs.native": ("NativeVectorEnv",),
    "hdrl.envs.row_pick": (
        "RowLayout",
        "RowPickEnv",
        "RowPickVectorEnv",
    ),
    "hdrl.envs.picks": ("PickEnv", "PickSpec", "follow"),
    "hdrl.envs.single": ("SingleEnv",),
}

_OF_BATCH_JOBS = {
    "hdrl.settings.batch.envs.job_index": (
        "JobIndexEnv",
        "JobIndexVectorEnv",
    ),
    "hdrl.settings.batch.envs.job_pick": (
        "JobPickEnv",
        "JobPickVectorEnv",
    ),
    "hdrl.settings.batch.envs.job_pick_player": ("JobPickPlayer",),
    "hdrl.settings.batch.envs.policy_pair": (
        "PolicyPairEnv",
        "PolicyPairVectorEnv",
    ),
}
"""Public names of `hdrl.batch` that have long been importable from here."""

__all__ = [
    "ENVIRONMENTS",
    "EpisodePlan",
    "NativeVectorEnv",
    "PickEnv",
    "PickSpec",
    "RowLayout",
    "RowPickEnv",
    "RowPickVectorEnv",
    "SingleEnv",
    "Window",
    "follow",
    "plan_episodes",
]


def __getattr__(name: str) -> Any:
    """Load a public name from where it lives."""
    return load_name(__name__, {**_MODULES, **_OF_BATCH_JOBS}, name)
