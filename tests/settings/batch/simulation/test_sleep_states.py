"""Nodes with several sleep states: by hand, against the exact engine, by decisions, by policies and as actions."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from hdrl.base.errors import DecisionError, PlatformError, SimulationError
from hdrl.batch import (
    CallAt,
    News,
    NodePower,
    PolicyPairEnv,
    SetPState,
    Start,
    SuspendPower,
    SwitchOff,
    SwitchOn,
    pstate_rules,
    read_platform,
    simulate,
    write_simgrid,
)
from hdrl.launcher.main import cli
from hdrl.settings.batch.metrics import compute_metrics
from hdrl.settings.batch.simulation.hosts import hosts_arrays
from hdrl.testing.worlds import JobSpec, Node, World, small_platform, small_workload

from .node_worlds import compare_with_exact, dates_of_shutdowns, platform_of, played, random_world, two_nodes

SUSPEND = SuspendPower(suspend_s=2.0, resume_s=5.0, suspend_power=0.5, resume_power=0.6, suspended_power=0.1)
POWER = NodePower(boot_s=100.0, shutdown_s=20.0, suspend=SUSPEND)


def _two_nodes():
    """Return two nodes of one core of 100 W that can be off and suspended."""
    return platform_of(Node(), Node(), power=POWER)


def test_a_timeout_by_hand():
    trace = simulate(_two_nodes(), two_nodes().workload, "fcfs+easy~off60~sleep1")
    # Node 1 is suspended from 62 s on, node 0 from 72 s; both come back in 5 s when the second job comes.
    assert trace.records["start_s"] == pytest.approx([0.0, 305.0], abs=1e-6)
    wasted_j = 50.0 * (60 + 60) + 50.0 * (2 + 2) + 60.0 * (5 + 5)
    suspended_j = 10.0 * (300 - 62) + 10.0 * (300 - 72)
    found = compute_metrics(trace)
    assert found["energy_j"] == pytest.approx(10 * 100.0 + 2 * 10 * 100.0 + suspended_j + wasted_j, abs=1e-3)
    assert found["wasted_energy_j"] == pytest.approx(wasted_j, abs=1e-3)
    hosts = hosts_arrays(trace)
    assert hosts["sleeping_s"] == pytest.approx([228.0, 238.0])
    assert hosts["switching_on_s"] == pytest.approx([5.0, 5.0])
    assert hosts["wasted_j"].sum() == pytest.approx(wasted_j, abs=1e-3)
    assert set(trace.pstate_changes["pstate"].tolist()) >= {7, -2, -1}


def test_reservations_count_the_way_back():
    # Nodes 1 and 2 come back, from 105 s on, for the second job, which the first delays until 605 s: the third may go
    # before it, the last may not.
    jobs = [(100.0, 1, 500.0), (101.0, 3, 10.0), (102.0, 1, 20.0), (103.0, 1, 900.0)]
    jobs = small_workload(*[JobSpec(date_s, n, run_s, requested_time_s=run_s) for date_s, n, run_s in jobs])
    trace = simulate(platform_of(Node(), Node(), Node(), power=POWER), jobs, "fcfs+easy~on0~sleep1")
    assert trace.records["start_s"] == pytest.approx([105.0, 605.0, 110.0, 615.0], abs=1e-5)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("policy", ["fcfs+easy~off60~sleep1", "sjf+easy~on0.3~sleep1", "saf+easy@geo~gate~off0"])
def test_as_the_exact_engine(policy, seed):
    world = random_world(seed + 20, suspend=SuspendPower(suspend_s=1.5 + seed, resume_s=3.25 * (seed + 1)))
    trace = compare_with_exact(world, policy, seed)
    asleep = {one.off for one in world.platform.sleep_states} & set(trace.pstate_changes["pstate"].tolist())
    assert asleep <= {world.platform.sleep_states["sleep1" in policy].off}


def test_decisions_choose_the_state():
    told = []

    def policy(view):
        told.extend((view.now_s, subject) for kind, subject in view.news if kind == News.NODE_SWITCHED)
        if view.now_s == 0 and not len(view.waiting):
            return [SwitchOff([0]), SwitchOff([1], sleep_state=1), CallAt(50.0)]
        if view.now_s == 50.0:
            assert view.node_status.tolist() == [2, 2, 0]
            assert view.sleep_state.tolist() == [0, 1, -1]
            return [SwitchOn([0]), SetPState([1, 2], 2)]
        return [Start(job, view.free_cores[:3]) for job in view.waiting if view.n_free_cores == 3]

    platform = platform_of(Node(), Node(), Node(), power=POWER)
    trace = simulate(platform, small_workload(JobSpec(10.0, 3, 60.0)), policy)
    # Off after 20 s and suspended after 2; of the second request node 2 is there at once, node 1 5 s later.
    assert [node for _, node in told] == [1, 0, 1, 0]
    assert [date_s for date_s, _ in told] == pytest.approx([2.0, 20.0, 55.0, 150.0], abs=1e-5)
    assert trace.records["start_s"] == pytest.approx([150.0], abs=1e-5)


@pytest.mark.parametrize("sleep_state", [2, -1, 0.5])
def test_a_state_that_there_is_not(sleep_state):
    with pytest.raises(DecisionError, match=r"there is no sleep state .* \(0 to 1\)"):
        simulate(_two_nodes(), two_nodes().workload, lambda view: [SwitchOff([0], sleep_state)])


def test_a_policy_on_a_platform_with_fewer_states():
    world = two_nodes()
    with pytest.raises(SimulationError, match=r"there is no sleep state 1 \(0 to 0\)"):
        simulate(world.platform, world.workload, "fcfs~off60~sleep1")
    with pytest.raises(SimulationError, match=r"there is no sleep state 2 \(0 to 1\)"):
        PolicyPairEnv(platform=_two_nodes(), workload=world.workload, actions=["fcfs~off60", "fcfs~on0~sleep2"])


def test_the_state_is_an_action():
    world = World(_two_nodes(), two_nodes().workload)
    actions = ["fcfs+easy~off60", "fcfs+easy~off60~sleep1", "fcfs+easy~on0~sleep1"]
    # Asked at 0 s, when the first job comes, and at 10 s, when it ends; the calls at 60 and 70 s follow the last word.
    assert played(world, actions, [1, 0]).records["start_s"] == pytest.approx([0.0, 400.0], abs=1e-6)
    assert played(world, actions, [0, 1]).records["start_s"] == pytest.approx([0.0, 305.0], abs=1e-6)
    # The free node is suspended at once, the other one off after a minute; the second job waits for the latter.
    both = played(world, actions, [2, 0])
    assert both.records["start_s"] == pytest.approx([0.0, 400.0], abs=1e-6)
    assert {7, 4} <= set(both.pstate_changes["pstate"].tolist())
    assert dates_of_shutdowns(both)[:2] == pytest.approx([0.0, 70.0], abs=1e-5)
    plain = simulate(world.platform, world.workload, "fcfs+easy~off60~sleep1")
    again = played(world, actions, [1])
    assert compute_metrics(again)["energy_j"] == pytest.approx(compute_metrics(plain)["energy_j"], rel=1e-9)


def test_a_platform_file_keeps_it(tmp_path):
    platform = _two_nodes()
    write_simgrid(platform, tmp_path / "platform.xml")
    text = (tmp_path / "platform.xml").read_text()
    assert 'id="sleep_pstates" value="4:5:6, 7:8:9"' in text
    assert read_platform(tmp_path / "platform.xml") == platform
    foreign = tmp_path / "foreign.xml"
    foreign.write_text(text[: text.index("<!--hdrl")] + text[text.index("-->") + 3 :])
    assert read_platform(foreign).sleep_states == platform.sleep_states == ((4, 5, 6), (7, 8, 9))


@pytest.mark.parametrize(
    ("text", "states"),
    [
        ("4:5:6, 7:8:9", ((4, 5, 6), (7, 8, 9))),
        ("7 : 8:9,4:8:9", ((7, 8, 9), (4, 8, 9))),  # two states may share their ways
        ("4:5:6, 7:6:5", ()),  # a P-state of ways to sleep and from it
        ("4:5:6, 4:8:9", ()),
        ("4:5:6, 6:8:9", ()),
        ("4:5:6,", ()),
    ],
)
def test_which_sleep_states_are_understood(text, states):
    platform = _two_nodes()
    for properties in platform.properties:
        properties["sleep_pstates"] = text
    assert platform.sleep_states == states


@pytest.mark.parametrize(("name", "value"), [("resume_s", 0.0), ("suspended_power", -0.1), ("suspend_s", np.inf)])
def test_wrong_numbers_are_told(name, value):
    with pytest.raises(PlatformError, match=f"{name} of node_power.suspend is"):
        SuspendPower(**{name: value})


def test_the_command_line(tmp_path):
    options = {
        "platform_file_path": "das2",
        "workload_file_path": "lublin_gaia_1000",
        "nb_jobs": 60,
        "workload": {"oversized": "drop"},
        "node_power": {"suspend": {"resume_s": 8}},
        "pybatsim": {"agent": {"policy_pair": "fcfs+easy"}},
    }
    (tmp_path / "options.json").write_text(json.dumps(options))
    run = ["run", "fcfs+easy~off60~sleep1", str(tmp_path / "options.json"), "--quiet", "--out", str(tmp_path / "run")]
    told = CliRunner().invoke(cli, run)
    assert told.exit_code == 0, told.output
    kept = json.loads((tmp_path / "run" / "options.resolved.json").read_text())
    assert kept["node_power"]["suspend"]["resume_s"] == 8
    export = ["platform", "export", "das2", "--out", str(tmp_path / "das2.xml"), "--resume-s"]
    told = CliRunner().invoke(cli, [*export, "8"])
    assert (told.exit_code, len(read_platform(tmp_path / "das2.xml").sleep_states)) == (0, 2), told.output
    assert CliRunner().invoke(cli, [*export, "0"]).exit_code == 2
    options["node_power"] = {"suspend": {"resume_s": 0}}
    (tmp_path / "options.json").write_text(json.dumps(options))
    told = CliRunner().invoke(cli, ["options", "check", str(tmp_path / "options.json")])
    assert (told.exit_code, "node_power.suspend.resume_s" in told.output) == (2, True)
    assert small_platform(Node(), rules=pstate_rules()).sleep_states == ()


def test_nothing_is_switched_after_the_last_job():
    # The first job leaves its node at 10 s, while the last one runs on; its own node is left alone.
    jobs = small_workload(JobSpec(0.0, 1, 10.0), JobSpec(5.0, 1, 500.0))
    trace = simulate(two_nodes().platform, jobs, "fcfs+easy~off60")
    assert dates_of_shutdowns(trace) == pytest.approx([70.0], abs=1e-5)
    assert trace.end_s == pytest.approx(505.0, abs=1e-5)
    # A call at 60 s is pending when the last job ends; as in Batsim, the simulation goes on until it has come.
    short = simulate(two_nodes().platform, small_workload(JobSpec(0.0, 1, 10.0)), "fcfs+easy~off60")
    assert (dates_of_shutdowns(short), short.end_s) == ([], pytest.approx(60.0, abs=1e-5))
