"""A machine, a load or a policy of a wrong type is an error in one line that says what was expected."""

from __future__ import annotations

from typing import Any

import gymnasium
import pytest

import hdrl
import hdrl.envs  # noqa: F401 (registers the environments)
from hdrl import adaptation, gpu, pipelines
from hdrl.base.errors import HdrlError, OptionsError
from hdrl.settings.pipelines.inputs import loads_of

OTHERS = ("GpuCluster", "GpuIndex", "Pipelines", "PipelinesIndex", "Adaptation", "AdaptationIndex")
BATCH = ("JobPick", "PolicyPair", "JobIndex")


@pytest.mark.parametrize(
    ("name", "machine", "load"),
    [*((name, "machine", "load") for name in OTHERS), *((name, "platform", "workload") for name in BATCH)],
)
def test_environments_refuse_numbers_as_machines_and_loads(name: str, machine: str, load: str) -> None:
    usual: dict[str, Any] = {"platform": "gaia", "workload": "lublin_gaia_1000"} if machine == "platform" else {}
    for key, value, what in ((machine, 5, machine), (load, 5, load), (load, [5], load)):
        with pytest.raises(OptionsError, match=rf"^{what} is 5, expected "):
            gymnasium.make(f"hdrl/{name}-v0", **usual | {key: value})


def test_modes_of_compatibility_refuse_them_too() -> None:
    with pytest.raises(OptionsError, match=r"^machine is 5, expected "):
        gymnasium.make("hdrl/GpuCluster-v0", compatibility="drl-gpu", machine=5)
    with pytest.raises(OptionsError, match=r"^platform is 5, expected "):
        gymnasium.make("hdrl/JobPick-v0", compatibility="dissertation", platform=5)


def test_simulations_refuse_them() -> None:
    cluster, jobs = gpu.read_cluster("sia"), gpu.poisson_load(gpu.Poisson(), 4, seed=0)
    units, (load,) = pipelines.read_machine("1cpu+1gpu"), loads_of("generated")
    device, tables = adaptation.read_device("counted"), adaptation.find_tables("digits_*", "digits_*", "load")
    networks: Any = adaptation.jobs_of("digits", tables, 4)
    wrong: Any = 5
    for call, what in (
        (lambda: gpu.simulate(wrong, jobs, "fifo"), "cluster"),
        (lambda: gpu.simulate(cluster, wrong, "fifo"), "load"),
        (lambda: gpu.simulate(cluster, jobs, wrong), "policy"),
        (lambda: gpu.simulate_rounds(wrong, jobs, "gavel-las"), "cluster"),
        (lambda: gpu.simulate_rounds(cluster, jobs, wrong), "policy"),
        (lambda: pipelines.simulate(wrong, load, "edf"), "machine"),
        (lambda: pipelines.simulate(units, wrong, "edf"), "load"),
        (lambda: pipelines.simulate(units, load, wrong), "policy"),
        (lambda: pipelines.simulate_python(wrong, load, lambda view: None), "machine"),
        (lambda: adaptation.simulate(wrong, networks, wrong), "device"),
        (lambda: adaptation.simulate(device, wrong, wrong), "load"),
        (lambda: adaptation.simulate(device, networks, wrong), "advisor"),
    ):
        with pytest.raises(OptionsError, match=rf"^{what} is 5, expected "):
            call()
    with pytest.raises(HdrlError, match=r"hdrl\.gpu\.simulate_rounds simulates it"):
        gpu.simulate(cluster, jobs, "gavel-las")


def test_a_policy_of_gpu_clusters_may_be_a_name() -> None:
    cluster, jobs = gpu.read_cluster("sia"), gpu.poisson_load(gpu.Poisson(), 20, seed=0)
    one, other = (gpu.simulate(cluster, jobs, policy) for policy in ("sjf+fgd", gpu.read_policy("sjf+fgd")))
    assert hdrl.gpu.compute_metrics(one) == hdrl.gpu.compute_metrics(other)


def test_large_objects_print_in_one_short_line() -> None:
    (table, *_) = adaptation.find_tables("digits_*", "digits_*", "load")
    assert repr(table) == "<Table digits_feedforward2_middle: 64 sequences on counted>"
    pytest.importorskip("torch")
    from hdrl.agents import make_agent
    from hdrl.learn import Trainer, checkpoint_of

    envs = gymnasium.make_vec("hdrl/Adaptation-v0", num_envs=1)
    agent = make_agent("random", envs.single_observation_space, envs.single_action_space)
    assert repr(agent) == "<Random: Box(0.0, 63.0, (33,), float32) to Discrete(4)>"
    assert repr(Trainer(agent, envs, seed=1)) == "<Trainer: 0 iterations, 0 steps>"
    named = checkpoint_of(agent, "random", environment={"id": "hdrl/Adaptation-v0", "arguments": {}})
    assert repr(named) == "<Checkpoint of random in hdrl/Adaptation-v0>"
