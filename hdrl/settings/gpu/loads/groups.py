"""Groups of jobs that are alike, by which predictions go: from all jobs to those of the same user and name."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

LEVELS: tuple[tuple[str, ...], ...] = (
    (),
    ("size",),
    ("group",),
    ("group", "size"),
    ("user",),
    ("user", "size"),
    ("user", "name"),
)
"""Attributes that define the groups, the coarsest first: ``size`` are numbers of GPUs up to 1, 2, 4, 8, 16, and more;
``name`` is the kind of a job where jobs have no names."""

LARGEST_SIZE = 5


def groups_of(jobs: NDArray[np.void], width: Ints) -> Ints:
    """Return the group of each job at each level, -1 where it has none, shape ``(n_jobs, n_levels)``.

    Where a trace has no users or names of jobs, only the coarser levels have groups. ``width`` is the number of GPUs of
    each job, begun ones counted.
    """
    sizes = np.minimum(np.searchsorted(2 ** np.arange(LARGEST_SIZE + 1), width), LARGEST_SIZE)
    named = jobs["name"] if (jobs["name"] >= 0).any() else jobs["kind"]
    columns = {"size": sizes, "group": jobs["group"], "user": jobs["user"], "name": named}
    found, n_before = np.full((len(jobs), len(LEVELS)), -1, dtype=np.int64), 0
    for level, names in enumerate(LEVELS):
        parts = np.stack([columns[name] for name in names] or [np.zeros(len(jobs), dtype=np.int64)], axis=1)
        known = (parts >= 0).all(axis=1)
        kinds, numbers = np.unique(parts[known], axis=0, return_inverse=True)
        found[known, level] = n_before + numbers.reshape(-1)
        n_before += len(kinds)
    return found
