"""The example agent on a hand-solved machine."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np

from hdrl.experiment import load_agent
from hdrl.settings.batch.simulation.decisions import Start
from hdrl.settings.batch.workload.model import JOB_DTYPE

FIRST_FIT = Path(__file__).parents[2] / "examples" / "first_fit.py"


def test_first_fit_skips_what_does_not_fit():
    """Two nodes of three cores and 10 MiB each; core 0 is busy and leaves 10 MiB."""
    jobs = np.zeros(4, dtype=JOB_DTYPE)
    jobs["cores"] = [3, 5, 1, 1]
    jobs["memory_mib"] = [4.0, 0.0, 5.0, 0.0]
    view = SimpleNamespace(
        platform=SimpleNamespace(
            node_of_processor=np.array([0, 1]), processor_of_core=np.array([0, 0, 0, 1, 1, 1]), n_cores=6
        ),
        workload=SimpleNamespace(jobs=jobs),
        waiting=np.arange(4),
        free_cores=np.array([1, 2, 3, 4, 5]),
        free_memory_mib=np.array([10.0, 10.0]),
    )
    policy = load_agent(FIRST_FIT, lambda: "unused").policy
    assert callable(policy)
    # Job 0 takes two cores of node 0 (8 MiB) and one of node 1 (4 MiB); job 1 wants five cores, two are left;
    # job 2 needs 5 of the 6 MiB left on node 1; job 3 takes the last core.
    assert policy(view) == [Start(0, [1, 2, 3]), Start(2, [4]), Start(3, [5])]
