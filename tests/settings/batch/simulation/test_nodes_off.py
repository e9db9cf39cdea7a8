"""Nodes that are switched off: by hand, against the exact engine, by decisions, by policies and as actions."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from hdrl.base.errors import DecisionError, HdrlError, OptionsError, PlatformError, SimulationError
from hdrl.batch import (
    CallAt,
    News,
    NodePower,
    PolicyPairEnv,
    PolicyPairVectorEnv,
    Start,
    SuspendPower,
    SwitchOff,
    SwitchOn,
    read_pair,
    read_platform,
    simulate,
    write_simgrid,
)
from hdrl.experiment.reproduce.recipe import read_experiment
from hdrl.launcher.main import cli
from hdrl.settings.batch.metrics import compute_metrics
from hdrl.settings.batch.node_power import NodePowerOptions, SuspendOptions
from hdrl.settings.batch.policies.pairs import logs_known_to, with_true_times
from hdrl.settings.batch.simulation.hosts import hosts_arrays
from hdrl.testing import check_trace
from hdrl.testing.worlds import JobSpec, Node, Processor, World, small_platform, small_workload

from .node_worlds import compare_with_exact, dates_of_shutdowns, platform_of, played, random_world, two_nodes


@pytest.mark.parametrize("policy", ["fcfs+easy~off60", "fcfs~off5", "fcfs+easy~on0.5", "sjf+easy~off20~sleep1"])
@pytest.mark.parametrize("seed", range(10))
def test_energies_are_the_integrals_of_powers(policy: str, seed: int):
    suspend = SuspendPower(suspend_s=2.0, resume_s=3.0)
    world = random_world(seed, suspend=suspend, different="sleep1" not in policy)
    check_trace(simulate(world.platform, world.workload, policy))


@pytest.mark.parametrize("index", ["es-generalist", "es-generalist@clairvoyant"])
def test_an_index_switches_nodes_off_too(index: str):
    world = two_nodes()
    never = simulate(world.platform, world.workload, f"{index}~off1000000")
    always = simulate(world.platform, world.workload, index)
    assert never.records["start_s"] == pytest.approx(always.records["start_s"], abs=1e-6)
    assert never.consumed_j == pytest.approx(always.consumed_j)
    # Two jobs, far apart: as under any policy, node 1 is off from 80 s on, node 0 from 90 s.
    trace = simulate(world.platform, world.workload, f"{index}~off60")
    by_hand = simulate(world.platform, world.workload, "fcfs+easy~off60")
    assert trace.records["start_s"].tolist() == by_hand.records["start_s"].tolist()
    assert trace.consumed_j == by_hand.consumed_j < always.consumed_j


def test_an_index_with_additions_keeps_what_is_known_of_it():
    plain, pair = read_pair("es-generalist"), read_pair("es-generalist~off600")
    assert (pair.name, pair.rule.weights, pair.rule.off_after_s) == ("es-generalist~off600", plain.rule.weights, 600)
    assert logs_known_to("es-generalist~off600") == logs_known_to("es-generalist")
    assert with_true_times("es-generalist~off600") == "es-generalist@clairvoyant~off600"
    assert read_pair("es-generalist@clairvoyant~off600").is_clairvoyant
    with pytest.raises(DecisionError, match=r"sleep1.*without ~off"):
        read_pair("es-generalist~sleep1")
    with pytest.raises(HdrlError, match="no suffix 'of600'"):
        read_pair("es-generalist~of600")
    with pytest.raises(DecisionError, match="has a gate of its own"):
        read_pair("es-generalist~gate~off600")


def test_a_timeout_by_hand():
    world = two_nodes()
    trace = simulate(world.platform, world.workload, "fcfs+easy~off60")
    # Node 1 is off from 80 s on, node 0 from 90 s; both boot when the second job comes.
    assert trace.records["start_s"] == pytest.approx([0.0, 400.0], abs=1e-6)
    jobs_j = 10 * 100.0 + 2 * 10 * 100.0
    off_j = 5.0 * (300 - 80) + 5.0 * (300 - 90)
    wasted_j = 50.0 * (60 + 60) + 55.0 * (20 + 20) + 65.0 * (100 + 100)
    found = compute_metrics(trace)
    assert found["energy_j"] == pytest.approx(jobs_j + off_j + wasted_j, abs=1e-3)
    assert found["wasted_energy_j"] == pytest.approx(wasted_j, abs=1e-3)
    assert trace.time_in_state_s["switching_on"] == pytest.approx(200.0)
    assert trace.time_in_state_s["switching_off"] == pytest.approx(40.0)
    assert trace.time_in_state_s["sleeping"] == pytest.approx(430.0)
    hosts = hosts_arrays(trace)
    assert hosts["sleeping_s"] == pytest.approx([210.0, 220.0])
    assert hosts["switching_off_s"] == pytest.approx([20.0, 20.0])
    assert hosts["switching_on_s"] == pytest.approx([100.0, 100.0])
    assert hosts["computing_s"] == pytest.approx([20.0, 10.0])
    states = trace.machine_states
    assert max(states["sleeping"]) == max(states["switching_on"]) == 2
    assert (states["sleeping"] + states["switching_on"] + states["switching_off"] + states["idle"]).min() == 0


def test_a_number_by_hand():
    platform = platform_of(Node(), Node(), Node((Processor(1, 1.0, 10.0, 50.0),)))
    jobs = small_workload(JobSpec(200.0, 1, 10.0), JobSpec(300.0, 2, 10.0), JobSpec(500.0, 1, 10.0))
    trace = simulate(platform, jobs, "fcfs+easy~on0.34")
    # One node is on all the time: the one with most flop per joule. The second job has another one booted.
    assert trace.records["start_s"] == pytest.approx([200.0, 400.0, 500.0], abs=1e-6)
    assert [trace.cores_of(job).tolist() for job in range(3)] == [[2], [0, 2], [2]]


POLICIES = (
    "fcfs+easy~off60",
    "sjf+easy_sjbf~off0",
    "fcfs+easy~on0.3",
    "smallest~on0-random",
    "saf+easy@geo~gate~off30",
)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("policy", POLICIES)
def test_as_the_exact_engine(policy, seed):
    world = random_world(seed)
    compare_with_exact(world, policy, seed)


def test_a_job_that_needs_memory_gets_nodes_for_it():
    platform = platform_of(*[Node((Processor(4),), memory_gb=1.0)] * 3)
    jobs = small_workload(JobSpec(200.0, 3, 10.0, memory_mib=900.0), JobSpec(600.0, 1, 10.0))
    for policy in ("fcfs+easy~on0", "fcfs~off10"):
        trace = simulate(platform, jobs, policy)
        assert trace.records["start_s"] == pytest.approx([300.0, 700.0], abs=1e-6)
        assert platform.node_of_processor[platform.processor_of_core[trace.cores_of(0)]].tolist() == [0, 1, 2]


def test_who_overtakes_does_not_delay_what_a_booting_node_is_for():
    platform = platform_of(Node(), Node(), Node())
    jobs = small_workload(
        JobSpec(100.0, 1, 500.0, requested_time_s=500.0),
        JobSpec(101.0, 3, 10.0, requested_time_s=10.0),
        JobSpec(102.0, 1, 20.0, requested_time_s=20.0),
        JobSpec(103.0, 1, 900.0, requested_time_s=900.0),
    )
    trace = simulate(platform, jobs, "fcfs+easy~on0")
    # One node boots for the first job, two for the second, which the first delays; the short one may go before it.
    assert trace.records["start_s"][[0, 1]] == pytest.approx([200.0, 700.0], abs=1e-6)
    assert trace.records["start_s"][2] < 680.0 < 700.0 < trace.records["start_s"][3]


def test_decisions_switch_nodes():
    world = two_nodes()
    told = []

    def policy(view):
        told.extend(
            (view.now_s, node, view.node_status[node]) for kind, node in view.news if kind == News.NODE_SWITCHED
        )
        if view.now_s == 0 and not len(view.waiting):
            return [SwitchOff([1]), CallAt(50.0)]
        if view.now_s == 50.0:
            assert view.node_status.tolist() == [0, 2]
            assert view.free_cores.tolist() == []
            return [SwitchOn([1])]
        return [
            Start(job, view.free_cores[:n])
            for job in view.waiting
            if (n := view.workload.jobs["cores"][job]) <= view.n_free_cores
        ]

    trace = simulate(world.platform, small_workload(JobSpec(10.0, 1, 60.0), JobSpec(300.0, 2, 10.0)), policy)
    assert told == [(pytest.approx(20.0), 1, 2), (pytest.approx(150.0), 1, 0)]
    assert trace.records["start_s"] == pytest.approx([10.0, 300.0], abs=1e-6)


@pytest.mark.parametrize(
    ("decision", "told"),
    [
        (SwitchOff([0]), "node 0 cannot be switched off: jobs hold cores of it"),
        (SwitchOn([1]), "node 1 is on: a node is switched off that is on, and on that is off"),
        (SwitchOff([7]), r"there is no node 7 \(0 to 1\)"),
    ],
)
def test_wrong_decisions_are_told(decision, told):
    world = two_nodes()

    def policy(view):
        start = [Start(int(view.waiting[0]), [0])] if len(view.waiting) else []
        return [*start, decision] if start else []

    with pytest.raises(DecisionError, match=told):
        simulate(world.platform, world.workload, policy)


def test_where_nodes_are_always_on():
    platform, jobs = small_platform(Node(), Node()), two_nodes().workload
    with pytest.raises(SimulationError, match="cannot be switched off: option node_power is not given"):
        simulate(platform, jobs, "fcfs+easy~off60")
    with pytest.raises(SimulationError, match="cannot be switched off: energy is not accounted for"):
        simulate(two_nodes().platform, jobs, "fcfs+easy~off60", energy=False)
    with pytest.raises(DecisionError, match="cannot be switched off: option node_power"):
        simulate(platform, jobs, lambda view: [SwitchOff([0])])
    with pytest.raises(SimulationError, match="cannot be switched off"):
        PolicyPairEnv(platform=platform, workload=jobs, actions=["fcfs~on0.5"])


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("fcfs+conservative~off60", "plans with all nodes on"),
        ("fcfs+easy~off", "off is '', expected seconds"),
        ("fcfs+easy~offf", "off is 'f', expected seconds"),
        ("fcfs+easy~on1.5", "on is '1.5', expected a share of the nodes, 0 to 1"),
        ("fcfs+easy~of60", "did you mean"),
        ("fcfs+easy~sleep1", "sleep without ~off or ~on"),
        ("fcfs+easy~off60~sleep", "sleep is '', expected a number"),
        ("fcfs+easy~off60~sleep0.5", "sleep is '0.5', expected a number"),
        ("fcfs+easy~off60~slep1", "did you mean"),
    ],
)
def test_wrong_names_are_told(name, told):
    with pytest.raises(HdrlError, match=told):
        read_pair(name)


@pytest.mark.parametrize(("name", "value"), [("boot_s", 0.0), ("off_power", -0.1), ("idle_power", math.nan)])
def test_wrong_numbers_are_told(name, value):
    with pytest.raises(PlatformError, match=f"{name} of node_power is"):
        NodePower(**{name: value})


def test_a_platform_file_keeps_it(tmp_path):
    platform = two_nodes().platform
    write_simgrid(platform, tmp_path / "platform.xml")
    text = (tmp_path / "platform.xml").read_text()
    assert 'id="sleep_pstates" value="4:5:6"' in text
    assert read_platform(tmp_path / "platform.xml") == platform
    # Without hdrl's comment it is a foreign file, of which the embedded simulator knows the same.
    foreign = tmp_path / "foreign.xml"
    foreign.write_text(text[: text.index("<!--hdrl")] + text[text.index("-->") + 3 :])
    read = read_platform(foreign)
    assert (read.rules, read.sleep_states) == (None, ((4, 5, 6),))
    jobs = small_workload(JobSpec(0.0, 1, 1e-3), JobSpec(300.0, 1, 1e-3))
    ours, exact = (
        simulate(read, jobs, "fcfs~off10", simulator=name, platform_file=foreign) for name in ("embedded", "exact")
    )
    assert ours.records["start_s"] == pytest.approx(exact.records["start_s"], abs=2e-6)
    assert ours.consumed_j == pytest.approx(exact.consumed_j, rel=1e-9)
    assert exact.time_in_state_s["sleeping"] > 0


@pytest.mark.parametrize("observation", ["normal", "small", "minimal"])
def test_which_nodes_are_on_is_an_action(observation):
    world = random_world(3)
    actions = ["fcfs+easy~on0", "fcfs+easy~on1", "sjf~on0.5", "fcfs+easy~off30", "sjf~off400"]
    env = PolicyPairVectorEnv(
        4,
        platform=world.platform,
        workload=world.workload,
        actions=actions,
        objective="energy_j",
        observation=observation,
    )
    draw = np.random.default_rng(0)
    _, info = env.reset(seed=5)
    n_ended = 0
    while n_ended < 8:
        masks = info["action_mask"]
        chosen = np.array([draw.choice(np.flatnonzero(mask)) for mask in masks])
        observed, _, ended, _, info = env.step(chosen)
        assert observed[:, -3:].sum(axis=1).max() <= 1.0
        assert env.single_observation_space.contains(observed[0])
        for row in np.flatnonzero(ended):
            n_ended += 1
            # What compiled code has added up without logs is what a simulation with all of them tells.
            trace = env.trace(int(row))
            assert info["results"]["objective"][row] == pytest.approx(compute_metrics(trace)["energy_j"], rel=1e-9)
            assert info["results"]["r"][row] == pytest.approx(-compute_metrics(trace)["energy_j"], rel=1e-9)
            assert (trace.records["run_s"] > 0).all()


def test_an_agent_that_wants_all_nodes_is_the_plain_policy():
    world = random_world(1)
    env = PolicyPairEnv(platform=world.platform, workload=world.workload, actions=["fcfs+easy~on1"], void=False)
    env.reset(seed=0)
    while not env.step(0)[2]:
        pass
    plain = simulate(world.platform, world.workload, "fcfs+easy")
    assert env.trace().records["start_s"] == pytest.approx(plain.records["start_s"], abs=1e-9)


def test_an_agent_that_always_waits_as_long_is_the_plain_policy():
    for seed in range(3):
        world = random_world(seed)
        # The agent is first asked when the first job comes, at date 0; before, all nodes would be left on.
        world = World(world.platform, world.workload.window(0, world.workload.n_jobs))
        trace = played(world, ["fcfs+easy~off60"], [0])
        plain = simulate(world.platform, world.workload, "fcfs+easy~off60")
        assert trace.records["start_s"] == pytest.approx(plain.records["start_s"], abs=1e-9)
        assert trace.machine_states["time_s"] == pytest.approx(plain.machine_states["time_s"], abs=1e-9)
        assert trace.time_in_state_s["sleeping"] > 0


def test_timeouts_as_actions_by_hand():
    world, actions = two_nodes(), ["fcfs+easy~off60", "fcfs+easy~off600"]
    # Asked at 0 s, when the first job comes, and at 10 s, when it ends: the last word counts.
    patient = played(world, actions, [0, 1])
    assert patient.records["start_s"] == pytest.approx([0.0, 300.0], abs=1e-6)
    assert patient.time_in_state_s["sleeping"] == 0.0
    assert compute_metrics(patient)["energy_j"] == pytest.approx(3 * 10 * 100.0 + (300 + 290) * 50.0, abs=1e-3)
    hasty = played(world, actions, [1, 0])
    # Node 1 shuts down at 60 s and node 0 at 70 s, though a call at 600 s had been asked for before.
    assert hasty.records["start_s"] == pytest.approx([0.0, 400.0], abs=1e-6)
    assert dates_of_shutdowns(hasty)[:2] == pytest.approx([60.0, 70.0], abs=1e-5)
    plain = compute_metrics(simulate(world.platform, world.workload, "fcfs+easy~off60"))
    assert compute_metrics(hasty)["energy_j"] == pytest.approx(plain["energy_j"], abs=1e-3)


def test_a_number_and_a_timeout_take_turns():
    world = two_nodes()
    actions = ["fcfs+easy~on0", "fcfs+easy~off60", "fcfs+easy"]
    # All nodes that are without jobs go at once by number; by timeout one that runs no job since 0 s goes at 60 s.
    assert dates_of_shutdowns(played(world, actions, [0, 1]))[0] == pytest.approx(0.0, abs=1e-6)
    assert dates_of_shutdowns(played(world, actions, [1, 2]))[0] == pytest.approx(60.0, abs=1e-6)
    # A policy that says nothing of nodes leaves them as they were wanted: all on, before anything else was said.
    assert played(world, actions, [2]).time_in_state_s["sleeping"] == 0.0


def test_changing_ones_mind_asks_for_no_more_calls_than_there_are_timeouts():
    jobs = [JobSpec(2.0 * k, 1, 1.0) for k in range(400)]
    world = World(two_nodes().platform, small_workload(*jobs))
    actions = ["fcfs+easy~off600", "fcfs+easy~off300", "fcfs+easy~off150"]
    trace = played(world, actions, [0, 1, 2] * 270)
    assert (trace.records["run_s"] > 0).all()
    # Every third decision is for 150 s, and they come each second.
    (date_s,) = dates_of_shutdowns(trace)
    assert 150.0 <= date_s < 154.0


def test_too_many_timeouts_are_told():
    world = two_nodes()
    actions = [f"fcfs+easy~off{10 * k}" for k in range(9)]
    with pytest.raises(OptionsError, match=r"has 9 times without a job .* at most 8 different ones"):
        PolicyPairEnv(platform=world.platform, workload=world.workload, actions=actions)


def test_the_command_line(tmp_path):
    options = {
        "platform_file_path": "das2",
        "workload_file_path": "lublin_gaia_1000",
        "nb_jobs": 60,
        "workload": {"oversized": "drop"},
        "node_power": {"boot_s": 120},
        "pybatsim": {"agent": {"policy_pair": "fcfs+easy~off600"}},
    }
    (tmp_path / "options.json").write_text(json.dumps(options))
    run = ["run", "fcfs+easy~off600", str(tmp_path / "options.json"), "--quiet", "--out", str(tmp_path / "run")]
    told = CliRunner().invoke(cli, run)
    assert told.exit_code == 0, told.output
    told = CliRunner().invoke(cli, ["run", "fcfs+conservative~off600", *run[2:]])
    assert (told.exit_code, "plans with all nodes on, expected EASY" in told.output) == (2, True)
    kept = json.loads((tmp_path / "run" / "options.resolved.json").read_text())
    assert kept["node_power"]["boot_s"] == 120
    assert "suspend" not in kept["node_power"]
    export = ["platform", "export", "das2", "--out", str(tmp_path / "das2.xml"), "--boot-s"]
    told = CliRunner().invoke(cli, [*export, "120"])
    assert (told.exit_code, read_platform(tmp_path / "das2.xml").sleep_states) == (0, ((4, 5, 6),)), told.output
    assert CliRunner().invoke(cli, [*export, "0"]).exit_code == 2
    options["energy"] = False
    (tmp_path / "options.json").write_text(json.dumps(options))
    told = CliRunner().invoke(cli, ["options", "check", str(tmp_path / "options.json")])
    assert (told.exit_code, "node_power is given, but energy is false" in told.output) == (2, True)


PAGE = (Path(__file__).parents[4] / "docs" / "node-power.md").read_text(encoding="utf-8")


def test_the_policy_of_the_page_runs():
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    names = {}
    exec(code, names)
    for seed in range(3):
        world = random_world(seed, memory_mib=0)
        trace = simulate(world.platform, world.workload, names["policy"])
        assert (trace.records["run_s"] > 0).all()
        assert trace.time_in_state_s["sleeping"] > 0


def test_options_and_platforms_have_the_same_defaults():
    assert NodePower.read(NodePowerOptions().model_dump()) == NodePower()
    suspending = NodePowerOptions.model_validate({"suspend": {}})
    assert NodePower.read(suspending.model_dump()) == NodePower(suspend=SuspendPower())


def test_the_page_tells_every_key_and_what_was_claimed():
    told = {}
    for names, numbers in re.findall(r"^\| (`\w+`(?:, `\w+`)?) \| ([\d., ]+) \|", PAGE, re.MULTILINE):
        told |= zip(re.findall(r"`(\w+)`", names), map(float, numbers.split(", ")), strict=True)
    assert told | {"suspend": None} == {name: field.default for name, field in NodePowerOptions.model_fields.items()}
    (block,) = re.findall(r"^\| `suspend` \| null \| (.*) \|$", PAGE, re.MULTILINE)
    told = {name: float(number) for name, number in re.findall(r"`(\w+)` \(([\d.]+)\)", block)}
    assert told == {name: field.default for name, field in SuspendOptions.model_fields.items()}
    claimed = {one.place: one.value for one in read_experiment("node-power").claims()}
    ratios = re.findall(r"^\| `(\S+)` \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", PAGE, re.MULTILINE)
    assert len(ratios) == 7
    for name, *numbers in ratios:
        for metric, number in zip(("energy_j", "wasted_energy_j", "mean_wait_s"), numbers, strict=True):
            assert f"{claimed[name, f'ratio of {metric}']:.2f}" == number


def test_no_job_starts_on_a_node_that_is_off():
    def policy(view):
        if view.now_s == 0 and not len(view.waiting):
            return [SwitchOff([1])]
        return [Start(int(job), [1]) for job in view.waiting]

    with pytest.raises(DecisionError, match="core 1 is not free"):
        simulate(two_nodes().platform, small_workload(JobSpec(50.0, 1, 10.0)), policy)
