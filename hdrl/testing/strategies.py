"""Hypothesis strategies: worlds at random, with the coincidences that simulators stumble over.

Needs hypothesis: ``pip install 'hdrl[dev]'``.
"""

from __future__ import annotations

from hypothesis import strategies as st

from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.workload.fit import fits
from hdrl.settings.batch.workload.model import StepKind
from hdrl.testing.worlds import JobSpec, Node, Processor, World, small_platform, small_workload

_SPEEDS_GFLOPS = (1.0, 2.0, 2.5, 3.0)
_BANDWIDTHS_GBPS = (8.0, 10.0, 16.0)
_POWERS_W = (30.0, 40.0, 100.0)


def processors() -> st.SearchStrategy[Processor]:
    """Return a strategy of processors of 1 to 4 cores."""
    return st.builds(
        Processor,
        cores=st.integers(1, 4),
        gflops=st.sampled_from(_SPEEDS_GFLOPS),
        bandwidth_gbps=st.sampled_from(_BANDWIDTHS_GBPS),
        power_w=st.sampled_from(_POWERS_W),
    )


def platforms(*, contention: str = "step", compatibility: str | None = None) -> st.SearchStrategy[Platform]:
    """Return a strategy of platforms of 1 to 3 nodes with 1 to 3 processors each, of mixed types."""
    node = st.builds(
        Node, st.lists(processors(), min_size=1, max_size=3).map(tuple), memory_gb=st.sampled_from((0.5, 1.0, 2.0))
    )
    return st.lists(node, min_size=1, max_size=3).map(
        lambda nodes: small_platform(*nodes, contention=contention, compatibility=compatibility)
    )


def _steps() -> st.SearchStrategy[tuple[tuple[StepKind, float, int], ...]]:
    codes = st.sampled_from((0, 0, 0, 3))
    compute = st.tuples(st.just(StepKind.COMPUTE), st.integers(0, 20).map(lambda n: n * 1e9), codes)
    total = st.tuples(st.just(StepKind.COMPUTE_TOTAL), st.integers(1, 20).map(lambda n: n * 1e9), codes)
    delay = st.tuples(st.just(StepKind.DELAY), st.integers(1, 10).map(float), codes)
    return st.one_of(compute, compute, total, delay).map(lambda step: (step,))


def jobs() -> st.SearchStrategy[JobSpec]:
    """Return a strategy of jobs of one step; their dates, times and sizes coincide often."""
    return st.builds(
        JobSpec,
        submit_s=st.one_of(st.integers(0, 20).map(float), st.sampled_from((2.5, 20 / 3, 10 / 3))),
        cores=st.integers(1, 5),
        walltime_s=st.sampled_from((-1.0, -1.0, 4.0, 10.0)),
        requested_time_s=st.sampled_from((5.0, 10.0, 20.0)),
        memory_mib=st.sampled_from((0.0, 100.0, 250.0)),
        bandwidth_gbps=st.sampled_from((0.0, 4.0, 6.0, 12.0)),
        steps=_steps(),
    )


@st.composite
def worlds(draw: st.DrawFn, *, contention: str = "step", compatibility: str | None = None, max_jobs: int = 12) -> World:
    """Draw a platform and jobs that fit on it."""
    platform = draw(platforms(contention=contention, compatibility=compatibility))
    workload = small_workload(*draw(st.lists(jobs(), min_size=1, max_size=max_jobs)))
    fitting = fits(workload, platform)
    return World(platform, workload.take(fitting.nonzero()[0]))
