"""No schedule ends jobs earlier than the bound says, and the bound is what it is by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hdrl.settings.gpu.bounds import jct_bound_s
from hdrl.settings.gpu.cluster.machine import GpuCluster
from hdrl.settings.gpu.loads.load import GpuLoad
from hdrl.settings.gpu.metrics import compute_metrics
from hdrl.settings.gpu.policies.names import read_policy
from hdrl.settings.gpu.policies.rules import Rules
from hdrl.settings.gpu.simulation.events import simulate
from tests.settings.gpu.test_gpu_engine import POLICIES, make_cluster, make_load, worlds


def test_by_hand() -> None:
    two = make_cluster((0, 2, 4000))
    # Alone each takes 10 s. On one machine of both GPUs they end at 5, 10, 15 s, with mean busy times 2.5, 7.5, 12.5.
    assert jct_bound_s(make_load(*[(0.0, 10.0, 1)] * 3), two) == pytest.approx((22.5 + 15.0) / 3)
    # A gang that fills the machine, then a short one in between: its own run, and the long one's end, are what counts.
    gangs = make_load((0.0, 10.0, 2), (4.0, 2.0, 2))
    assert jct_bound_s(gangs, two) == pytest.approx((12.0 + 2.0) / 2)
    # Few jobs: no more than each takes on its fastest GPUs, here at 2 / 1.5 of the mean speed.
    mixed = make_cluster((0, 1, 4000), (1, 1, 4000), flops=(2.0, 1.0))
    assert jct_bound_s(make_load((0.0, 10.0, 1)), mixed) == pytest.approx(7.5)
    # Many: all of them take the FLOPS of both.
    many = make_load(*[(0.0, 10.0, 1)] * 100)
    assert jct_bound_s(many, mixed) == pytest.approx(5.0 * 100 / 2 + 7.5 / 2)


def test_a_job_that_can_never_run_has_no_bound() -> None:
    load = make_load((0.0, 1.0, 1))
    never = GpuLoad("l", load.jobs.copy(), constraints=(("other",),))
    never.jobs["constraint"] = 0
    assert np.isnan(jct_bound_s(never, make_cluster((0, 1, 4000))))


@settings(max_examples=150, deadline=None)
@given(world=worlds(), policy=st.sampled_from(POLICIES), restart=st.sampled_from([0.0, 1.0]))
def test_no_policy_is_better(world: tuple[GpuCluster, GpuLoad], policy: str, restart: float) -> None:
    cluster, load = world
    found = compute_metrics(simulate(cluster, load, read_policy(policy), rules=Rules(restart_s=(restart, restart))))
    assert found["jct_over_bound"] >= 1.0 - 1e-9
    assert found["mean_censored_jct_s"] >= found["jct_bound_s"] * (1.0 - 1e-9)
