"""Het jobs: a run of a real Slurm with nine of them in two partitions, which was recorded for this test."""

import gzip
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hdrl.base.errors import ReadError, SimulationError
from hdrl.metrics.orders import distance_between
from hdrl.settings.batch.simulators import SlurmSettings
from hdrl.settings.batch.site_rules.model import SiteJobs, undemanding_jobs
from hdrl.slurm.fidelity import simulated_start_s
from hdrl.slurm.recorded import RecordedRun, read_run
from hdrl.slurm.simulator import SlurmSimulator
from hdrl.testing import JobSpec, small_workload

from .test_rules import site_platform

RUN = Path(__file__).with_name("het-run")
"""72 jobs, of which 21 are components, on eight nodes of eight cores at 40 times real time; Slurm 22.05.8.

``cycles.json`` has the dates of its backfill cycles, from its log.
"""

WITH_ITS_CYCLES = """
import bisect, json, sys
from pathlib import Path
from hdrl.settings.batch.site_rules import codes
from hdrl.settings.batch.site_rules.kernel import events
from hdrl.slurm.fidelity import simulated_start_s
from hdrl.slurm.recorded import read_run

cycles = json.loads(sys.argv[2])

def expect(state):
    s = state.scalars[0]
    if s.backfill_due_s == events.NEVER:
        s.backfill_due_s = cycles[bisect.bisect_left(cycles, s.message_s + 1e-9)]
        events.add_event(state, s.backfill_due_s, codes.BACKFILL_IS_DUE, 0)

events._expect_backfill = expect
print(json.dumps(simulated_start_s(read_run(Path(sys.argv[1])), "slurm").tolist()))
"""
"""Simulate a run in plain Python with cycles at the dates at which Slurm had them."""


def test_the_policy_starts_jobs_nearly_as_slurm_did() -> None:
    run = read_run(RUN)
    assert run.workload.site is not None
    groups = run.workload.site.jobs["het_group"]
    start_s = simulated_start_s(run, "slurm")
    for group in np.unique(groups[groups >= 0]):
        assert len(np.unique(start_s[groups == group])) == 1
    assert distance_between(run.eligible_s, run.start_s, start_s).discordant_share < 0.015


def starts_with_its_cycles(run: RecordedRun, *, from_s: float) -> NDArray[np.float64]:
    """Return when the policy starts the jobs of a run, with cycles at the recorded dates, which count from a date."""
    cycles = json.loads(gzip.decompress((run.folder / "cycles.json.gz").read_bytes()))
    done = subprocess.run(
        [sys.executable, "-c", WITH_ITS_CYCLES, str(run.folder), json.dumps([from_s + one for one in cycles] + [1e9])],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return np.array(json.loads(done.stdout))


def test_with_the_dates_of_its_cycles_it_starts_all_jobs_as_slurm_did() -> None:
    run = read_run(RUN)
    start_s = starts_with_its_cycles(run, from_s=0.0)
    found = distance_between(run.eligible_s, run.start_s, start_s)
    assert found.discordant_share == 0
    assert found.wait_ratio == pytest.approx(1, abs=0.01)
    # Slurm's dates are whole seconds, and launching takes one or two; one job found an end 24 s later than Slurm did.
    assert np.count_nonzero(np.abs(start_s - run.start_s) <= 2) >= len(start_s) - 1


def test_a_first_component_that_is_none_is_refused(tmp_path: Path) -> None:
    for path in RUN.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    asked = json.loads(gzip.decompress((tmp_path / "jobs.json.gz").read_bytes()))
    asked["jobs"][4]["het"] = 2
    (tmp_path / "jobs.json").write_text(json.dumps(asked))
    with pytest.raises(ReadError, match=r"jobs\.4\.het is 2, expected the index of the first component"):
        read_run(tmp_path)


def test_components_that_run_for_different_times_are_refused() -> None:
    asked = undemanding_jobs(2)
    asked["het_group"] = 1
    jobs = [JobSpec(0.0, 4, gflop=gflop, requested_time_s=300.0) for gflop in (60.0, 90.0)]
    workload = replace(small_workload(*jobs), site=SiteJobs(jobs=asked))
    with pytest.raises(SimulationError, match="whose components run for different times"):
        SlurmSimulator(site_platform(), workload, folder=None, settings=SlurmSettings())
