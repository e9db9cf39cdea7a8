"""Worlds whose nodes can be switched off, and what is asked of simulations of them."""

from dataclasses import replace

import numpy as np
import pytest

from hdrl.batch import NodePower, PolicyPairEnv, SuspendPower, pstate_rules, simulate
from hdrl.settings.batch.metrics import compute_metrics
from hdrl.testing.worlds import JobSpec, Node, Processor, World, small_platform, small_workload

POWER = NodePower(boot_s=100.0, shutdown_s=20.0, boot_power=0.65, shutdown_power=0.55, off_power=0.05, idle_power=0.5)


def platform_of(*nodes, power=POWER):
    return small_platform(*nodes, rules=pstate_rules(node_power=power))


def two_nodes():
    """Return two nodes of one core of 100 W, and a job of one core at once, one of both 300 s later."""
    platform = platform_of(Node(), Node())
    return World(platform, small_workload(JobSpec(0.0, 1, 10.0), JobSpec(300.0, 2, 10.0)))


def random_powers(seed, n):
    """Return what it takes to switch each of n nodes: not two are alike, some can be suspended, some are always on."""
    draw = np.random.default_rng([seed, 1])
    powers = []
    for kind in draw.permutation(np.arange(n) % 3):
        boot_s, shutdown_s, suspend_s, resume_s = draw.uniform((1, 0.5, 0.2, 0.5), (200, 60, 10, 40)).round(2)
        shares = draw.uniform(0, 1, size=4).round(3)
        suspend = SuspendPower(suspend_s, resume_s, *draw.uniform(0, 1, size=3).round(3)) if kind == 1 else None
        powers.append(NodePower(boot_s, shutdown_s, *shares, suspend=suspend) if kind < 2 else None)
    return powers


def random_world(seed, memory_mib=100, suspend=None, *, different=False):
    """Return some nodes and jobs, no two of one date; nodes that are switched alike, or differently."""
    draw = np.random.default_rng(seed)
    power = NodePower(
        boot_s=float(draw.choice([1.0, 7.0, 100.0, 150.5])),
        shutdown_s=float(draw.choice([0.5, 20.25])),
        suspend=suspend,
    )
    nodes = [
        Node(
            tuple(Processor(int(draw.integers(1, 4)), float(draw.choice([1.0, 2.0, 3.5]))) for _ in range(n)),
            memory_gb=float(draw.choice([1.0, 2.0])),
        )
        for n in draw.integers(1, 3, size=draw.integers(2, 5))
    ]
    if different:
        powers = random_powers(seed, len(nodes))
        nodes = [replace(node, node_power=own) for node, own in zip(nodes, powers, strict=True)]
    platform = platform_of(*nodes, power=None if different else power)
    gaps_s = draw.choice([0.5, 50.0, 300.0, 1000.0], size=12) * draw.random(12) + 0.37
    jobs = [
        JobSpec(
            round(float(date_s), 2),
            int(draw.integers(1, platform.n_cores + 1)),
            float(draw.integers(1, 200)),
            memory_mib=float(draw.choice([0, memory_mib])),
            bandwidth_gbps=float(draw.choice([0.0, 3.0])),
            requested_time_s=float(draw.integers(1, 300)),
            walltime_s=-1.0 if draw.random() < 0.7 else float(draw.integers(5, 100)),
        )
        for date_s in np.cumsum(gaps_s)
    ]
    return World(platform, small_workload(*jobs))


def compare_with_exact(world, policy, seed):
    """Compare what a policy does on the embedded simulator and on the exact one; return the former's trace."""
    ours, exact = (
        simulate(world.platform, world.workload, policy, simulator=simulator, seed=seed)
        for simulator in ("embedded", "exact")
    )
    for name in ("start_s", "run_s"):
        assert ours.records[name] == pytest.approx(exact.records[name], abs=2e-6)
    for name in ours.machine_states.dtype.names:
        assert ours.machine_states[name] == pytest.approx(exact.machine_states[name], abs=1e-5)
    for name in ("time_s", "n_cores", "pstate"):
        assert ours.pstate_changes[name] == pytest.approx(exact.pstate_changes[name], abs=1e-5)
    assert ours.consumed_j == pytest.approx(exact.consumed_j, rel=1e-9)
    assert ours.host_energy_j == pytest.approx(exact.host_energy_j, rel=1e-9)
    for state, spent_s in ours.time_in_state_s.items():
        assert exact.time_in_state_s[state] == pytest.approx(spent_s, abs=1e-5)
    assert compute_metrics(ours)["wasted_energy_j"] == pytest.approx(compute_metrics(exact)["wasted_energy_j"], abs=1)
    return ours


def played(world, actions, chosen):
    """Play an episode by actions, the last one again and again; return its trace."""
    env = PolicyPairEnv(platform=world.platform, workload=world.workload, actions=actions, void=False)
    env.reset(seed=0)
    left = list(chosen)
    while not env.step(left.pop(0) if len(left) > 1 else left[0])[2]:
        pass
    return env.trace()


def dates_of_shutdowns(trace):
    return [row["time_s"] for row in trace.pstate_changes if row["pstate"] == -2]
