"""Predictors of run times by name: what a policy may order jobs by instead of what their users requested.

Those that learn do so from jobs that have ended, while the simulation runs; in a window of a log also from the jobs
before it that had ended by then (`workload.history`). Nothing predicts more than what is requested.

=============== ====================================================================================
predictor       a job will run
=============== ====================================================================================
``requested``   as long as its user says
``last2``       as long as the mean of its user's last two jobs (Tsafrir and others, 2007)
``user_mean``   as long as its user's jobs on average, recent ones counting more
``geo``         as long as jobs of its user, request and size, on a logarithmic scale: a hierarchy of
                five groups, in which a group with few ended jobs leans on the next coarser one
``geo_name``    the same, with the name of a job in place of its request beside the user
``harm``        as ``geo``, but by harmonic means, which short runs dominate, as they do bounded slowdown
``learned``     as long as a small network says, which `predict.training` trained on other logs
``clairvoyant`` as long as it really will, which no scheduler can foresee: a bound, and reported as such
=============== ====================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.registry import Registry
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.predict.network import RunTimeNetwork, shipped_network
from hdrl.settings.batch.workload.model import NO_WALLTIME, Workload
from hdrl.settings.batch.workload.statistics import reference_run_times


@dataclass(frozen=True, slots=True)
class Predictor:
    """A predictor of run times.

    Attributes
    ----------
    code
        Its number in the kernel (``PREDICT_*`` of `kernel.codes`).
    run_times
        Of one that the kernel does not know (``PREDICT_GIVEN``): a function from a platform and a workload to what it
        says of each job, in seconds on cores of the platform's mean speed.
    network
        Of one that learned: a function that returns its network.
    is_clairvoyant
        True if it uses true run times.
    by_name
        True if jobs are grouped by name.
    """

    code: int
    run_times: Callable[[Platform, Workload], NDArray[np.float64]] | None = None
    network: Callable[[], RunTimeNetwork] | None = None
    is_clairvoyant: bool = False
    by_name: bool = False

    def rule_arguments(self) -> dict[str, Any]:
        """Return its arguments for a `kernel.beginning.Rule`."""
        network = self.network().numbers if self.network is not None else ()
        return {"predictor": self.code, "run_times": self.run_times, "network": network, "by_name": self.by_name}


LEARNED = "learned"
"""The network that is shipped."""

PREDICTORS: Registry[Predictor] = Registry("predictor")
"""The predictors that names of policies may ask for after ``@``."""


def true_run_times(platform: Platform, workload: Workload) -> NDArray[np.float64]:
    """Return the true run times of jobs, in seconds on cores of the platform's mean speed."""
    run_s = reference_run_times(workload, platform)
    walltime_s = workload.jobs["walltime_s"]
    return np.where((walltime_s != NO_WALLTIME) & (walltime_s < run_s), walltime_s, run_s)


for _name, _predictor in (
    ("requested", Predictor(codes.PREDICT_REQUESTED)),
    ("last2", Predictor(codes.PREDICT_LAST_TWO)),
    ("user_mean", Predictor(codes.PREDICT_USER_MEAN)),
    ("geo", Predictor(codes.PREDICT_GEOMETRIC)),
    ("geo_name", Predictor(codes.PREDICT_GEOMETRIC, by_name=True)),
    ("harm", Predictor(codes.PREDICT_HARMONIC)),
    (LEARNED, Predictor(codes.PREDICT_LEARNED, network=shipped_network)),
    ("clairvoyant", Predictor(codes.PREDICT_GIVEN, true_run_times, is_clairvoyant=True)),
):
    PREDICTORS.register(_name)(_predictor)
