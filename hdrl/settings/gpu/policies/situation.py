"""State that policies see which share out GPUs by rounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ShareSituation:
    """State that a policy of shares sees."""

    jobs: Ints  # numbers of the jobs that are there, ascending, shape ``(n,)``
    rates: Floats  # their steps per second on each type, shape ``(n, n_types)``
    sizes: Ints
    priorities: Floats
    # steps that they have to do, and how long they have been there
    steps_left: Floats
    waited_s: Floats
    gpus: Ints  # GPUs of each type
    prices: Floats  # dollars per hour of a GPU of each type
    # of each job the number of its kind and size in ``pair_rates``
    profiles: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    # steps per second on each type of both jobs of a pair that shares its GPUs, by the profiles of the two, shape
    # ``(n_profiles, n_profiles, n_types, 2)``; 0 where they do not go together. Empty for policies that do not pack
    pair_rates: Floats = field(default_factory=lambda: np.zeros((0, 0, 0, 2)))
