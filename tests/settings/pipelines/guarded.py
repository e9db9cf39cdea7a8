"""What `test_engine` runs without the compiler: the simulator on arrays that refuse every index out of bounds."""

from __future__ import annotations

import sys

import numpy as np

from hdrl.compiled import borrow, rows


class Checked(np.ndarray):
    """An array whose single indices count from its beginning; NumPy refuses those beyond the end by itself."""

    def _check(self, index):
        if isinstance(index, int | np.integer) and index < 0:
            raise IndexError(f"index {index} is negative")

    def __getitem__(self, index):
        self._check(index)
        return super().__getitem__(index)

    def __setitem__(self, index, value):
        self._check(index)
        super().__setitem__(index, value)


def checked(arrays):
    is_lent = [array.ndim == 1 and array.flags.c_contiguous for array in arrays]
    return arrays._make(a.view(Checked) if lent else a for a, lent in zip(arrays, is_lent, strict=True))


# Whoever lends takes these two by name when it is imported, which happens below.
plain_row = rows.moved_to
borrow.borrow = checked
rows.moved_to = lambda state, batch, row: checked(plain_row(state, batch, row))

from hdrl.settings.pipelines.env import PipelinesVectorEnv  # noqa: E402
from hdrl.settings.pipelines.generate import Model  # noqa: E402
from hdrl.settings.pipelines.inputs import generated_load  # noqa: E402
from hdrl.settings.pipelines.machine import read_machine  # noqa: E402
from hdrl.settings.pipelines.policies import RULES, simulate  # noqa: E402

n = 0
for shape in ("chain", "fork_join", "layered"):
    load = generated_load(Model(utilization=0.95, shape=shape), seed=1, length_us=2_000_000).window(0, 20)
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
