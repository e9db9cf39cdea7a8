"""What policies that share out GPUs by rounds see."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ShareSituation:
    """What a policy of shares sees.

    Attributes
    ----------
    jobs
        Numbers of the jobs that are there, ascending, shape ``(n,)``.
    rates
        Their steps per second on each type, shape ``(n, n_types)``.
    sizes, priorities
        Their GPUs and priorities.
    steps_left, waited_s
        Steps that they have to do, and how long they have been there.
    gpus
        GPUs of each type.
    prices
        Dollars per hour of a GPU of each type.
    profiles
        Of each job the number of its kind and size in ``pair_rates``.
    pair_rates
        Steps per second on each type of both jobs of a pair that shares its GPUs, by the profiles of the two, shape
        ``(n_profiles, n_profiles, n_types, 2)``; 0 where they do not go together. Empty for policies that do not pack.
    """

    jobs: Ints
    rates: Floats
    sizes: Ints
    priorities: Floats
    steps_left: Floats
    waited_s: Floats
    gpus: Ints
    prices: Floats
    profiles: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    pair_rates: Floats = field(default_factory=lambda: np.zeros((0, 0, 0, 2)))
