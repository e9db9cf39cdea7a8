"""What `test_engine` runs without the compiler: the simulator on arrays that refuse every index out of bounds."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))
import checked_arrays  # noqa: F401 (before what lends arrays)

from hdrl.settings.pipelines.envs.env import PipelinesVectorEnv
from hdrl.settings.pipelines.inputs import generated_load
from hdrl.settings.pipelines.loads.generate import PipelineModel
from hdrl.settings.pipelines.machine import read_machine
from hdrl.settings.pipelines.simulation.policies import RULES, simulate

n = 0
for shape in ("chain", "fork_join", "layered"):
    load = generated_load(PipelineModel(utilization=0.95, shape=shape), seed=1, length_us=2_000_000).window(0, 10)
    for name in RULES:
        n += len(simulate(read_machine("2x(1cpu+1gpu)"), load, name).runs)
    for more in ({"wait": True, "max_ready": 3}, {"compatibility": "rlschedsim", "machine": "1cpu+1gpu"}):
        env = PipelinesVectorEnv(2, **{"load": load, "machine": "2x(1cpu+1gpu)", **more})
        _, info = env.reset(seed=0)
        random = np.random.default_rng(0)
        for _ in range(150):
            actions = [int(random.choice(np.flatnonzero(mask))) for mask in info["action_mask"]]
            info = env.step(np.array(actions))[4]
            n += 2
sys.stdout.write(str(n))
