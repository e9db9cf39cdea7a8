"""Small worlds for tests of pipelines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from hdrl.settings.pipelines.loads.load import INSTANCE_DTYPE, PipelineLoad, Times
from hdrl.settings.pipelines.loads.pipeline import NEVER, Group, Kernel, Pipeline
from hdrl.settings.pipelines.machine import Units, units

ADAS = Path(__file__).parents[4] / "shared" / "traces" / "adas"
"""The graphs and period files of rlschedsim, where they are at hand."""


def chain(
    name: str, *times: tuple[int, int], groups: dict[tuple[int, ...], tuple[int, int]] | None = None, **more: int
):
    """Return a chain of kernels with times on CPU and GPU."""
    kernels = tuple(Kernel(f"{name}{k}", *one) for k, one in enumerate(times))
    edges = tuple((k, k + 1) for k in range(len(times) - 1))
    return Pipeline(name, kernels, edges, tuple(Group(k, *v) for k, v in (groups or {}).items()), **more)


def released(pipelines: tuple[Pipeline, ...], *rows: tuple[int, int, int], times: Times | None = None) -> PipelineLoad:
    """Return a load of instances (pipeline, release, deadline); the period is the relative deadline."""
    table = np.array(
        [(p, r, d, pipelines[p].tolerance_us, d - r) for p, r, d in sorted(rows, key=lambda row: (row[1], row[0]))],
        dtype=INSTANCE_DTYPE,
    )
    return PipelineLoad("hand-made", pipelines, table, times or Times())


def independent(*rows: tuple[int, int, int]) -> PipelineLoad:
    """Return instances (time, release, deadline) of one kernel each, which run on CPUs alone."""
    pipelines = tuple(chain(f"t{k}", (row[0], NEVER)) for k, row in enumerate(rows))
    return released(pipelines, *((k, release, deadline) for k, (_, release, deadline) in enumerate(rows)))


@st.composite
def pipelines(draw: st.DrawFn, n_ecus: int = 1, *, runs_everywhere: bool = False) -> Pipeline:
    n = draw(st.integers(1, 5))
    time = st.integers(1, 30)
    kernels, edges = [], []
    for k in range(n):
        cpu, gpu = draw(time), draw(time)
        missing = 2 if runs_everywhere else draw(st.integers(0, 5))
        kernels.append(Kernel(f"k{k}", NEVER if missing == 0 else cpu, NEVER if missing == 1 else gpu))
        edges += [(u, k) for u in range(k) if draw(st.integers(0, 2)) == 0]
    plain = Pipeline("p", tuple(kernels), tuple(edges))
    groups = []
    for mask in range(3, 1 << n):
        members = tuple(k for k in range(n) if mask >> k & 1)
        if len(members) < 2 or draw(st.integers(0, 2)) > 0:
            continue
        one = Group(members, draw(time), draw(time))
        try:
            Pipeline("p", tuple(kernels), tuple(edges), (one,))
        except Exception:  # noqa: BLE001
            continue
        groups.append(one)
    ecu = draw(st.integers(-1, n_ecus - 1))
    return Pipeline("p", plain.kernels, plain.edges, tuple(groups), ecu=ecu, tolerance_us=draw(st.integers(0, 3)))


@st.composite
def machines(draw: st.DrawFn) -> Units:
    """Return ECUs each of which has both kinds, so that everything runs everywhere."""
    ecus = draw(st.lists(st.tuples(st.integers(1, 2), st.integers(1, 2)), min_size=1, max_size=2))
    return units("drawn", [{"cpu": cpu, "gpu": gpu} for cpu, gpu in ecus])


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Units, PipelineLoad]:
    machine = draw(machines())
    found = tuple(draw(st.lists(pipelines(machine.n_ecus), min_size=1, max_size=3)))
    rows = draw(
        st.lists(
            st.tuples(st.integers(0, len(found) - 1), st.integers(0, 60), st.integers(1, 80)), min_size=1, max_size=7
        )
    )
    times = Times(draw(st.sampled_from([1.0, 0.3])), draw(st.integers(0, 5)))
    return machine, released(found, *((p, r, r + d) for p, r, d in rows), times=times)
