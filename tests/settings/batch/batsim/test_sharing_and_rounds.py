"""What is computed incrementally or all at once gives what the plain way gives, bit for bit."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hdrl.batsim.exact import BatsimOptions, ExactBatsim
from hdrl.batsim.exact.actors import ActorKernel
from hdrl.batsim.exact.energy import EnergyMeter
from hdrl.batsim.exact.engine import Engine
from hdrl.batsim.exact.flows import Cpu, Flow, Resource, Work, transfers_of_matrix
from hdrl.batsim.exact.rows import Timer
from hdrl.batsim.exact.sharing import SharedNetwork, share_out
from hdrl.settings.batch.simgrid.file import SimGridPlatform

from ..recorded_runs import RECORDED  # noqa: TID252 - of all tests
from .conversations import WORLDS, FirstComeFirstServed, replay

PLATFORM = SimGridPlatform(WORLDS / "kills" / "platform.xml")
MASTER, A, B = 0, 1, 2


def _flow(network: SharedNetwork, cpus: list[int], flops: list[float], transfers: list[tuple[int, int, float]]) -> Flow:
    return Flow(Work(network, [network.cpus[k] for k in cpus], flops, transfers))


def test_one_executor_never_uses_more_than_one_core() -> None:
    network = SharedNetwork(PLATFORM)
    network.cpus[A].capacity = 4e8  # as with four cores
    flow = _flow(network, [A], [1e8], [])
    network.add(flow)
    assert network.solve() == [flow]
    assert flow.rate == 1.0
    assert network.solve() == []


def test_two_executors_on_one_core_run_at_half_speed() -> None:
    network = SharedNetwork(PLATFORM)
    flow = _flow(network, [A, A], [1e8, 1e8], [])
    network.add(flow)
    network.solve()
    assert flow.rate == 0.5
    assert network.cpus[A].load() == 1e8


def test_what_one_flow_leaves_another_takes() -> None:
    """Two flows share host a; the one that also needs the slower half of host b leaves a rest to the other."""
    network = SharedNetwork(PLATFORM)
    slow, fast = _flow(network, [A, B], [1e8, 4e8], []), _flow(network, [A], [1e8], [])
    network.add(slow)
    network.add(fast)
    network.solve()
    assert (slow.rate, fast.rate) == (0.25, 0.75)
    network.remove(slow)
    assert network.solve() == [fast]
    assert fast.rate == 1.0


def test_a_fat_pipe_is_not_shared() -> None:
    network = SharedNetwork(PLATFORM)
    flows = [_flow(network, [A, A], [0.0, 0.0], [(0, 1, 1e9)]) for _ in range(2)]
    for flow in flows:
        network.add(flow)
    network.solve()
    assert [flow.rate for flow in flows] == [10.0, 10.0]


def test_a_flow_whose_rate_is_final_is_counted_again() -> None:
    """Five flows on four cores, as SimGrid solves it.

    The first round gives each 0.8 but one, that another host holds at 0.5; of 4 cores 0.3 are left. In the second
    round one more flow reaches its limit of 0.81 and the others get 0.3 / 4. That takes 0.01 + 3 x 0.075, and 0.5
    for the first flow once more: the host is used up, although 0.065 cores are idle.
    """
    network = SharedNetwork(PLATFORM)
    network.cpus[A].capacity = 4e8
    held, limited = _flow(network, [A, B], [1e8, 2e8], []), _flow(network, [A, MASTER], [1e8, 1e9 / 0.81], [])
    free = [_flow(network, [A], [1e8], []) for _ in range(3)]
    for flow in (held, limited, *free):
        network.add(flow)
    network.solve()
    assert [held.rate, limited.rate] == [0.5, pytest.approx(0.81, abs=1e-12)]
    assert [flow.rate for flow in free] == [pytest.approx(0.875, abs=1e-12)] * 3


def test_latency_bounds_a_transfer() -> None:
    network = SharedNetwork(SimGridPlatform(WORLDS / "latencies" / "platform.xml"))
    flow = _flow(network, [A, B], [0.0, 0.0], [(0, 1, 1e9)])
    assert (flow.flowing, flow.latency_s) == (False, 0.01)
    network.add(flow)
    assert network.solve() == []
    network.awake(flow)
    network.solve()
    assert flow.rate == 1e8 / 1e9
    assert flow.work.limit() == 4194304 / (2 * 0.01 * 1e9)


def test_a_matrix_row_by_row() -> None:
    assert transfers_of_matrix(2, [0, 3, 5, 0]) == [(0, 1, 3.0), (1, 0, 5.0)]


_flows = st.tuples(
    st.lists(st.sampled_from([A, B]), min_size=1, max_size=3),
    st.just(0.0) | st.floats(1e-3, 1e9),
    st.sampled_from([0.0, 1.0, 1e6, 3e8]),
)


@settings(max_examples=80, deadline=None)
@given(given_flows=st.lists(_flows, min_size=1, max_size=7), gone=st.sets(st.integers(0, 6)), pstate=st.integers(0, 1))
def test_solving_what_has_changed_is_solving_all(
    given_flows: list[tuple[list[int], float, float]], gone: set[int], pstate: int
) -> None:
    network = SharedNetwork(PLATFORM)
    flows = []
    for hosts, flops, size in given_flows:
        transfers = [(0, k, size) for k in range(1, len(hosts)) if size > 0]
        flows.append(_flow(network, hosts, [flops] * len(hosts), transfers))
        network.add(flows[-1])
        network.solve()
    for k in sorted(gone & set(range(len(flows)))):
        network.remove(flows[k])
        network.solve()
    network.set_pstate(network.cpus[A], pstate)
    network.solve()
    rest = [flow for k, flow in enumerate(flows) if k not in gone]
    rates = [flow.rate for flow in rest]
    share_out(rest)
    assert [flow.rate for flow in rest] == rates
    for resource in {resource for flow in rest for resource, _ in flow.demands if not resource.fatpipe}:
        _check_capacity(resource)


def _check_capacity(resource: Resource) -> None:
    assert resource.load() <= resource.capacity * (1 + 1e-9) + 1e-4
    if isinstance(resource, Cpu):
        assert resource.capacity == resource.spec.cores * resource.speed_flops


def _never(kernel: ActorKernel) -> bool:
    return False


def _many(kernel: ActorKernel) -> int:
    return 2


def _ignore(kernel: ActorKernel, value: object) -> None:
    """Keep what was there."""


@pytest.fixture
def plain_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read energies one host and one round at a time, whoever else is there."""
    for name, value in (("n_running", _many), ("all_sweeping", _never)):
        monkeypatch.setattr(ActorKernel, name, property(value, _ignore), raising=False)


def crowd(folder: Path) -> BatsimOptions:
    """Make a world in which many jobs begin and end at the same dates."""
    hosts = "".join(
        f'<host id="h{k}" speed="100Mf"><prop id="wattage_per_state" value="{k + 1}:{k + 90}.5"/></host>'
        f'<route src="m" dst="h{k}"><link_ctn id="l"/></route>'
        for k in range(12)
    )
    (folder / "platform.xml").write_text(
        f'<platform version="4.1"><zone id="z"><host id="m" speed="1Gf"/><link id="l" bandwidth="1GBps"/>{hosts}'
        "</zone></platform>"
    )
    jobs = [
        {"id": k, "subtime": 10 * (k // 8), "res": 1 + k % 3, "profile": ("sleep", "work")[k % 2]} for k in range(40)
    ]
    profiles = {
        "sleep": {"type": "delay", "delay": 10},
        "work": {"type": "parallel_homogeneous", "cpu": 5e8, "com": 0},
    }
    (folder / "workload.json").write_text(json.dumps({"nb_res": 12, "jobs": jobs, "profiles": profiles}))
    return BatsimOptions(
        platform=folder / "platform.xml", workloads=(folder / "workload.json",), master_host="m", energy=True
    )


def test_many_rounds_at_once_give_what_single_rounds_give(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    options = crowd(tmp_path)
    at_once = ExactBatsim(options).run(FirstComeFirstServed()).outputs
    request.getfixturevalue("plain_rounds")
    singly = ExactBatsim(options).run(FirstComeFirstServed()).outputs
    assert at_once.jobs == singly.jobs
    assert at_once.energy == singly.energy
    assert at_once.machine_states == singly.machine_states


@pytest.mark.usefixtures("plain_rounds")
@pytest.mark.parametrize("name", ["fcfs_200_latency", "stress_killer", "kill_job", "pstate_with_execute"])
def test_recorded_runs_in_single_rounds(name: str) -> None:
    if not (RECORDED / name).is_dir():
        pytest.skip(f"no recorded runs in {RECORDED}")
    replay(RECORDED / name)


@pytest.fixture
def every_message_a_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let messages share resources and end like all other flows."""
    monkeypatch.setattr(Engine, "_arrives", lambda engine, message: False)


@pytest.mark.usefixtures("every_message_a_flow")
@pytest.mark.parametrize("name", ["bf_200", "stress_killer", "energy_on"])
def test_recorded_runs_with_a_flow_for_every_message(name: str) -> None:
    if not (RECORDED / name).is_dir():
        pytest.skip(f"no recorded runs in {RECORDED}")
    replay(RECORDED / name)


class _Noted:
    """What stands behind an action: it notes when that ends."""

    def __init__(self, name: str, engine: Engine, ends: list[tuple[str, float]]) -> None:
        self.name, self._engine, self._ends = name, engine, ends

    def end(self) -> None:
        self._ends.append((self.name, self._engine.now_s))


def _ends_around_a_message(left_s: float) -> list[tuple[str, float]]:
    """Send a byte, which takes 1e-10 s, when that much is left of a task of 100 s."""
    network = SharedNetwork(PLATFORM)
    engine = Engine(network, EnergyMeter([], on=False))
    ends: list[tuple[str, float]] = []
    byte = network.message(network.cpus[MASTER], network.cpus[MASTER], 1.0)
    engine.send(byte, _Noted("first byte", engine, ends))
    engine.step()
    engine.start_flow(Flow(Work(network, [network.cpus[A]], [1e10], ()), _Noted("task", engine, ends)))
    engine.start_timer(Timer(-1, _Noted("timer", engine, ends)), 100 - left_s)
    engine.step()
    engine.send(byte, _Noted("byte", engine, ends))
    while engine.step():
        assert engine.n_actions >= 0
    assert engine.n_actions == 0
    return ends


@pytest.mark.parametrize(
    ("left_s", "order"),
    [
        (0.5e-10, ["timer", "task", "byte"]),
        (1.005e-10, ["timer", "task", "byte"]),  # so little is left after the byte that both end at once
        (5e-10, ["timer", "byte", "task"]),
    ],
)
def test_a_message_that_ends_near_a_task(left_s: float, order: list[str], request: pytest.FixtureRequest) -> None:
    ends = _ends_around_a_message(left_s)
    assert [name for name, _ in ends] == ["first byte", *order]
    assert (ends[2][1] == ends[3][1]) == (left_s == 1.005e-10)
    request.getfixturevalue("every_message_a_flow")
    assert _ends_around_a_message(left_s) == ends
