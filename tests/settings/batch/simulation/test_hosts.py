"""What each host did: by hand, and the same from two simulators that note it in different ways."""

import dataclasses

import numpy as np
import pytest

from hdrl.batsim.exact import ExactBatsim
from hdrl.batsim.simulators import ExactSimulator
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.policies import simulate
from hdrl.settings.batch.simulation.hosts import HOST_COLUMNS, format_hosts, hosts_arrays
from hdrl.settings.batch.simulation.trace import BatchTrace
from hdrl.testing import JobSpec, Node, Processor, small_platform, small_workload


@pytest.fixture(scope="module")
def traces() -> list[BatchTrace]:
    """Return the same simulation, with P-states that follow the jobs, by the embedded and by the exact simulator."""
    platform = small_platform(Node(), Node((Processor(cores=3),)))
    workload = small_workload(*(JobSpec(submit_s=3 + 2 * k, cores=1 + k % 3, gflop=4 + k % 5) for k in range(12)))
    pair = "shortest-high_gflops"
    return [simulate(platform, workload, pair, simulator=name) for name in ("embedded", "exact")]


def test_all_time_and_all_energy_are_somewhere(traces: list[BatchTrace]) -> None:
    for trace in traces:
        hosts = hosts_arrays(trace)
        spent_s = sum(hosts[f"{state}_s"] for state in ("computing", "idle"))
        assert spent_s == pytest.approx(np.full(trace.platform.n_cores, trace.end_s))
        held_s = np.sum(trace.records["run_s"] * trace.records["n_cores"])
        assert hosts["computing_s"].sum() == pytest.approx(held_s)
        # nothing is drawn by jobs after the last line of the log
        rest_s = trace.end_s - trace.energy["time_s"][-1]
        rest_j = rest_s * hosts["energy_j"].sum() / trace.end_s
        assert hosts["energy_j"].sum() == pytest.approx(trace.energy["energy_j"][-1], abs=rest_j + 1e-3)
        assert np.all(hosts["wasted_j"] < hosts["energy_j"])
        assert hosts["n_switches"].sum() > 0


def test_both_simulators_agree(traces: list[BatchTrace]) -> None:
    embedded, exact = (hosts_arrays(trace) for trace in traces)
    for name, values in embedded.items():
        if name == "host":
            assert values.tolist() == exact[name].tolist()
        else:
            assert values == pytest.approx(exact[name], rel=1e-9, abs=1e-6), name


def test_a_trace_tells_what_the_engine_noted(monkeypatch: pytest.MonkeyPatch, traces: list[BatchTrace]) -> None:
    """The engine notes states as they change; a trace knows only starts, ends and P-states."""
    texts = []

    class Noting(ExactBatsim):
        def __init__(self, options):
            super().__init__(dataclasses.replace(options, host_table=True))

        def run(self, scheduler):
            result = super().run(scheduler)
            texts.append(result.hosts)
            return result

    monkeypatch.setattr("hdrl.batsim.simulators.ExactBatsim", Noting)
    trace = traces[0]
    with ExactSimulator(trace.platform, trace.workload) as simulator:
        simulator.run_pair(codes.JOB_SHORTEST, codes.CORE_HIGH_GFLOPS)
        again = simulator.trace
    both = (texts[0], format_hosts(hosts_arrays(again)))
    noted, told = ([line.split(",") for line in text.splitlines()] for text in both)
    assert noted[0] == told[0] == list(HOST_COLUMNS)
    for one, other in zip(noted[1:], told[1:], strict=True):
        assert one[:2] == other[:2]
        assert [float(text) for text in one[2:]] == pytest.approx([float(text) for text in other[2:]], abs=2e-5)


def test_energy_that_nobody_knows(traces: list[BatchTrace]) -> None:
    trace = dataclasses.replace(traces[0], host_energy_j=np.zeros(0))
    hosts = hosts_arrays(trace)
    assert np.all(np.isnan(hosts["energy_j"]) & np.isnan(hosts["wasted_j"]))
    assert format_hosts(hosts).splitlines()[1].split(",")[-3:-1] == ["", ""]
