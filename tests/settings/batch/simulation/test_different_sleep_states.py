"""Nodes that are switched differently: by hand, against the exact engine, by decisions, by policies and as actions."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from hdrl.base.errors import DecisionError, HdrlError, PlatformError, SimulationError
from hdrl.batch import (
    CallAt,
    NodePower,
    PolicyPairVectorEnv,
    Start,
    SuspendPower,
    SwitchOff,
    SwitchOn,
    build_platform,
    pstate_rules,
    read_platform,
    simulate,
    write_simgrid,
)
from hdrl.launcher.main import cli
from hdrl.settings.batch.envs.policy_pair_arguments import pstate_shares
from hdrl.settings.batch.metrics import compute_metrics
from hdrl.settings.batch.simulation.hosts import hosts_arrays
from hdrl.testing.worlds import JobSpec, Node, Processor, small_workload

from .node_worlds import compare_with_exact, dates_of_shutdowns, platform_of, random_world

SLOW = NodePower(boot_s=100.0, shutdown_s=20.0, boot_power=0.65, shutdown_power=0.55, off_power=0.05, idle_power=0.5)
QUICK = NodePower(boot_s=10.0, shutdown_s=2.0, boot_power=0.8, shutdown_power=0.3, off_power=0.1, idle_power=0.4)
BOTH = NodePower(boot_s=100.0, shutdown_s=20.0, suspend=SuspendPower(suspend_s=4.0, resume_s=5.0))


def _nodes(*powers):
    """Return nodes of one core of 100 W that are switched like this; ``None``: always on."""
    return platform_of(*[Node(node_power=power) for power in powers], power=None)


def test_a_timeout_by_hand():
    jobs = small_workload(JobSpec(0.0, 1, 10.0), JobSpec(300.0, 2, 10.0))
    trace = simulate(_nodes(SLOW, QUICK), jobs, "fcfs+easy~off60")
    # Node 1 is off from 62 s on, node 0 from 90 s; when the second job comes they are back after 10 and 100 s.
    assert trace.records["start_s"] == pytest.approx([0.0, 400.0], abs=1e-6)
    slow_j = 50.0 * 60 + 55.0 * 20 + 65.0 * 100
    quick_j = 40.0 * (60 + 90) + 30.0 * 2 + 80.0 * 10
    off_j = 5.0 * (300 - 90) + 10.0 * (300 - 62)
    found = compute_metrics(trace)
    assert found["energy_j"] == pytest.approx(3 * 10 * 100.0 + off_j + slow_j + quick_j, abs=1e-3)
    assert found["wasted_energy_j"] == pytest.approx(slow_j + quick_j, abs=1e-3)
    hosts = hosts_arrays(trace)
    assert hosts["sleeping_s"] == pytest.approx([210.0, 238.0], abs=1e-5)
    assert hosts["switching_on_s"] == pytest.approx([100.0, 10.0], abs=1e-5)
    assert hosts["wasted_j"] == pytest.approx([slow_j, quick_j], abs=1e-3)
    assert trace.machine_states["switching_on"].max() == 2


def test_who_is_booted_first():
    jobs = small_workload(JobSpec(500.0, 1, 10.0))

    def host_and_start(platform):
        trace = simulate(platform, jobs, "fcfs+easy~on0")
        return trace.cores_of(0).tolist(), trace.records["start_s"][0]

    assert host_and_start(_nodes(SLOW, SLOW)) == ([0], pytest.approx(600.0, abs=1e-5))
    # Of equally efficient nodes, the one that is there sooner; but efficiency comes first.
    assert host_and_start(_nodes(SLOW, QUICK)) == ([1], pytest.approx(510.0, abs=1e-5))
    thrifty = Node((Processor(1, 1.0, 10.0, 50.0),), node_power=SLOW)
    assert host_and_start(platform_of(Node(node_power=QUICK), thrifty, power=None))[0] == [1]
    # Who is always on need not be booted.
    assert host_and_start(_nodes(SLOW, QUICK, None)) == ([2], pytest.approx(500.0, abs=1e-5))


def test_nodes_go_to_the_last_state_that_they_have():
    trace = simulate(
        _nodes(BOTH, SLOW, None), small_workload(JobSpec(0.0, 1, 1.0), JobSpec(50.0, 1, 1.0)), "fcfs~on0~sleep1"
    )
    hosts = hosts_arrays(trace)
    # Node 2 runs both jobs; the others go at once.
    assert hosts["switching_off_s"] == pytest.approx([4.0, 20.0, 0.0], abs=1e-5)
    assert hosts["sleeping_s"] == pytest.approx([47.0, 31.0, 0.0], abs=1e-5)
    assert len(dates_of_shutdowns(trace)) == 2


POLICIES = (
    *("fcfs+easy~off60", "sjf+easy_sjbf~off0", "fcfs+easy~on0.3", "smallest~on0-random", "saf+easy@geo~gate~off30"),
    *("fcfs+easy~off60~sleep1", "sjf+easy~on0.3~sleep1"),
)


def test_as_the_exact_engine():
    n_switched, kinds = 0, set()
    for seed in range(21):
        world = random_world(seed, different=True)
        policy = POLICIES[seed % len(POLICIES)]
        trace = compare_with_exact(
            world, policy if world.platform.n_sleep_states > 1 else policy.split("~sleep")[0], seed
        )
        n_switched += len(dates_of_shutdowns(trace))
        kinds |= {len(states) for states in world.platform.sleep_states_of_node}
        assert world.platform.n_nodes == 1 or not world.platform.sleep_states
    assert n_switched > 60
    assert kinds == {0, 1, 2}


def test_decisions_switch_nodes():
    def policy(view):
        if view.now_s == 0 and not len(view.waiting):
            return [SwitchOff([0], sleep_state=1), SwitchOff([1]), CallAt(50.0)]
        if view.now_s == 50.0:
            assert view.node_status.tolist() == [2, 2, 0]
            assert view.sleep_state.tolist() == [1, 0, -1]
            return [SwitchOn([0, 1])]
        return [Start(job, view.free_cores[:3]) for job in view.waiting if view.n_free_cores == 3]

    trace = simulate(_nodes(BOTH, QUICK, None), small_workload(JobSpec(10.0, 3, 60.0)), policy)
    assert trace.records["start_s"] == pytest.approx([60.0], abs=1e-5)
    assert hosts_arrays(trace)["sleeping_s"] == pytest.approx([46.0, 48.0, 0.0], abs=1e-5)


@pytest.mark.parametrize(
    ("decision", "told"),
    [
        (SwitchOff([1], sleep_state=1), r"node 1: there is no sleep state 1 \(0 to 0\)"),
        (SwitchOff([2]), "node 2 cannot be switched: it has no sleep state"),
        (SwitchOn([2]), "node 2 cannot be switched: it has no sleep state"),
    ],
)
def test_what_a_node_cannot_do_is_told(decision, told):
    with pytest.raises(DecisionError, match=told):
        simulate(_nodes(BOTH, QUICK, None), small_workload(JobSpec()), lambda view: [decision])


def test_a_state_that_no_node_has():
    with pytest.raises(SimulationError, match=r"there is no sleep state 2 \(0 to 1\)"):
        simulate(_nodes(BOTH, QUICK), small_workload(JobSpec()), "fcfs~off60~sleep2")


def test_actions_of_an_environment():
    world = random_world(4, different=True)
    actions = ["fcfs+easy~on0", "sjf~on0.5~sleep1", "fcfs+easy~off30", "sjf~off400~sleep1"]
    env = PolicyPairVectorEnv(
        2, platform=world.platform, workload=world.workload, actions=actions, objective="energy_j", observation="small"
    )
    draw = np.random.default_rng(0)
    env.reset(seed=5)
    n_ended, slept_s = 0, 0.0
    while n_ended < 4:
        _, _, ended, _, info = env.step(draw.integers(len(actions), size=2))
        for row in np.flatnonzero(ended):
            n_ended += 1
            trace = env.trace(int(row))
            slept_s += trace.time_in_state_s["sleeping"]
            assert info["results"]["objective"][row] == pytest.approx(compute_metrics(trace)["energy_j"], rel=1e-9)
    assert slept_s > 0


def _description(**powers):
    """Return a cluster of nodes of one processor each, by their types and what these say of switching."""
    return {
        "clusters": [
            {
                "id": "c",
                "nodes": [{"type": name, "number": 2} for name in powers],
                "local_links": {"type": "InfiniBand HDR", "latency": "0us"},
            }
        ],
        "global_links": {"type": "InfiniBand HDR", "latency": "0us"},
        "types": {
            "processors": {
                "chip": {"cores": 2, "clock_rate": 1, "dpflops_per_cycle": 1, "mem_bw": 10, "power": 100},
            },
            "nodes": {
                name: {
                    "processors": [{"type": "chip", "number": 1}],
                    "memory": {"capacity": 64},
                    **({} if power is None else {"node_power": power}),
                }
                for name, power in powers.items()
            },
        },
    }


OWN = {
    "slow": {"boot_s": 180.0},
    "deep": {"boot_s": 60.0, "off_power": 0.01, "suspend": {"resume_s": 7.0}},
    "plain": None,
}


def test_types_of_nodes_say_what_switching_takes():
    platform = build_platform(_description(**OWN))
    off, suspended = (4, 5, 6), (7, 8, 9)
    assert platform.sleep_states_of_node == ((off,), (off,), (off, suspended), (off, suspended), (), ())
    cores = [0, 4, 8]
    assert 1 / platform.speed_flops[cores[:2], 6] == pytest.approx([180.0, 60.0])
    assert 1 / platform.speed_flops[4, 9] == pytest.approx(7.0)
    assert platform.idle_w[cores, 4] == pytest.approx([2.5, 0.5, 2.5])
    assert platform.idle_w[cores, 3] == pytest.approx([25.0, 25.0, 2.5])
    # An agent believes the mean: two of three cores draw half of the peak while they are idle, one 5 %.
    assert pstate_shares(platform)[1][3] == pytest.approx((0.5 + 0.5 + 0.05) / 3)
    # The block of a type takes the place of the options' one, which holds for the others.
    rules = pstate_rules(node_power=NodePower(boot_s=33.0))
    mixed = build_platform(_description(**OWN), rules=rules)
    assert 1 / mixed.speed_flops[cores, 6] == pytest.approx([180.0, 60.0, 33.0])
    assert mixed.sleep_states_of_node[-1] == (off,)


def test_the_types_of_the_page():
    page = (Path(__file__).parents[4] / "docs" / "node-power.md").read_text(encoding="utf-8")
    (types,) = re.findall(r'^```json\n(\{"types.*?)^```$', page, re.MULTILINE | re.DOTALL)
    description = _description(**{"old box": None, "new box": None}) | json.loads(types)
    platform = build_platform(description)
    assert 1 / platform.speed_flops[0, 6] == pytest.approx(180.0)
    assert [len(states) for states in platform.sleep_states_of_node] == [1, 1, 2, 2]
    assert 1 / platform.speed_flops[-1, 9] == pytest.approx(5.0)


def test_a_platform_file_keeps_it(tmp_path):
    platform = build_platform(_description(**OWN), name="platform")
    write_simgrid(platform, tmp_path / "platform.xml")
    text = (tmp_path / "platform.xml").read_text()
    assert read_platform(tmp_path / "platform.xml") == platform
    foreign = tmp_path / "foreign.xml"
    foreign.write_text(text[: text.index("<!--hdrl")] + text[text.index("-->") + 3 :])
    read = read_platform(foreign)
    assert read.sleep_states_of_node == tuple(states for states in platform.sleep_states_of_node for _ in range(2))
    assert read.sleep_states == ()
    other = tmp_path / "other.xml"
    other.write_text(foreign.read_text().replace('value="4:5:6, 7:8:9"', 'value="7:8:9, 4:5:6"'))
    assert read_platform(other).sha256() != read.sha256()


@pytest.mark.parametrize(
    ("power", "rules", "told"),
    [
        ({"boot": 3.0}, None, "types.nodes.slow.node_power has no key 'boot'; did you mean 'boot_s'"),
        ({"boot_s": 0.0}, None, "types.nodes.slow.node_power.boot_s is 0"),
        ({}, pstate_rules(compatibility="hdeeprm-0.3.1"), "types.nodes.slow has node_power, but .* always on"),
    ],
)
def test_wrong_blocks_are_told(power, rules, told):
    with pytest.raises(PlatformError, match=told):
        build_platform(_description(slow=power), rules=rules)


def test_the_command_line(tmp_path):
    (tmp_path / "mine.json").write_text(json.dumps(_description(**OWN)))
    options = {"platform_file_path": "mine.json", "workload_file_path": "learning", "also_write": ["out_hosts.csv"]}
    options |= {"nb_jobs": 20, "pybatsim": {"agent": {"policy_pair": "fcfs+easy~off60~sleep1"}}}
    (tmp_path / "options.json").write_text(json.dumps(options))
    run = [str(tmp_path / "options.json"), "--quiet", "--out", str(tmp_path / "run")]
    told = CliRunner().invoke(cli, ["run", "fcfs+easy~off60~sleep1", *run])
    assert told.exit_code == 0, told.output
    rows = (tmp_path / "run" / "out_hosts.csv").read_text().splitlines()
    assert len(rows) == 1 + 12
    with pytest.raises(HdrlError, match="node_power"):
        read_platform(tmp_path / "mine.json", rules=pstate_rules(compatibility="irmasim"))
