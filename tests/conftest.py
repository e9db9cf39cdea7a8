"""What tests of several areas share."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.simulation.trace import (
    ENERGY_DTYPE,
    MACHINE_STATE_DTYPE,
    PSTATE_CHANGE_DTYPE,
    RECORD_DTYPE,
    BatchTrace,
    JobState,
    OverUtilization,
)
from hdrl.settings.batch.workload.model import Workload

# The same examples at every run; `pytest --hypothesis-profile explore` looks for new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile("repeatable")

# The width of tables; readline, which pytest loads, hands it to the processes of xdist.
os.environ.pop("COLUMNS", None)

# What is begun first: a file that compiles the simulator and one that compiles environments, so that two processes do
# not compile the same; then files that take long as a whole, which begun last would keep a single process busy. Those
# that wait for a real Slurm use next to no processor time: they run while the other process computes. Last in the
# alphabet, they would all run at the end, two at a time.
FIRST_FILES = (
    "test_readme.py",
    "test_policy_pair.py",
    "test_learning_docs.py",
    "test_real.py",
    "test_oracle_equality.py",
    "test_accounting.py",
    "test_page_browser.py",
    "test_fidelity.py",
    "test_failures.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of some files first, without changing the order otherwise."""
    positions = {name: position for position, name in enumerate(FIRST_FILES)}
    items.sort(key=lambda item: positions.get(item.path.name, len(FIRST_FILES)))


SWF = """\
; Version: 2.2
; MaxProcs: 4
1 0 0 10 2 -1 -1 2 20 -1 1 1 1 1 1 -1 -1 -1
2 5 0 20 1 -1 -1 1 30 -1 1 1 1 1 1 -1 -1 -1
3 6 0 30 4 -1 -1 4 40 -1 1 1 1 1 1 -1 -1 -1
"""


@pytest.fixture
def with_and_without_compiler() -> Callable[[str], list[str]]:
    """Return what runs a program as it is and in plain Python, and returns what it printed each time."""

    def run(code: str) -> list[str]:
        return [
            subprocess.run(
                [sys.executable, "-c", code], env=os.environ | extra, capture_output=True, text=True, check=True
            ).stdout
            for extra in ({}, {"NUMBA_DISABLE_JIT": "1"})
        ]

    return run


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Let torch compute with one thread: small tensors are faster so, above all where other programs run."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def small_world(tmp_path: Path) -> Path:
    """Return the options file of three jobs on the four cores of the platform ``learning``."""
    (tmp_path / "jobs.swf").write_text(SWF)
    path = tmp_path / "options.json"
    path.write_text(
        '{"seed": 7, "platform_file_path": "learning", "workload_file_path": "jobs.swf",'
        ' "workload": {"memory": "none"}, "pybatsim": {"agent": {"policy_pair": "first-high_gflops"}}}'
    )
    return path


@pytest.fixture
def generalist_model(tmp_path: Path) -> Path:
    """Return a model file with the weights of the shipped policy ``es-generalist``."""
    pytest.importorskip("torch", reason="agents that learn need torch")
    from gymnasium import spaces

    from hdrl.agents.cma_es import CMAES
    from hdrl.learn.checkpoint import checkpoint_of, save_checkpoint
    from hdrl.settings.batch import policies

    data = json.loads((Path(policies.__file__).parent / "data" / "es-generalist.json").read_text())
    agent = CMAES(spaces.Box(0, 1, (1,)), spaces.Box(-50, 50, (len(data["offsets"]),)))
    agent.load_weights({"weights": np.array(data["offsets"])})
    environment = {"id": "hdrl/JobIndex-v0", "arguments": data["kind"]}
    path = tmp_path / "generalist.pt"
    save_checkpoint(path, checkpoint_of(agent, "cma_es", environment=environment))
    return path


class OneAfterTheOther:
    """A stand-in for the simulator: runs jobs one after the other, ten seconds each, on the first cores.

    Tests of what surrounds a simulation use it; they neither wait for a compiler nor depend on a policy.
    """

    def __init__(self) -> None:
        self.calls: list[dict[str, object]] = []
        self.during: Callable[[int], None] = lambda call: None

    def simulate(self, platform: Platform, workload: Workload, policy: object = "", **arguments: object) -> BatchTrace:
        self.calls.append({"policy": policy, **arguments})
        self.during(len(self.calls))
        if callable(policy):
            policy(None)
        n = workload.n_jobs
        records = np.zeros(n, dtype=RECORD_DTYPE)
        records["state"] = JobState.COMPLETED_SUCCESSFULLY
        records["start_s"] = workload.jobs["submit_s"].max() + 10.0 * np.arange(n)
        records["run_s"] = 10.0
        records["energy_j"] = -1.0
        records["n_cores"] = workload.jobs["cores"]
        records["first_core"] = np.concatenate([[0], np.cumsum(records["n_cores"])[:-1]])
        none = np.zeros(0)
        progress = arguments.get("progress")
        if callable(progress):
            progress(n, n)
        return BatchTrace(
            platform=platform,
            workload=workload,
            records=records,
            completion_order=np.arange(n, dtype=np.int64),
            allocated_cores=np.concatenate([np.arange(k, dtype=np.int32) for k in records["n_cores"]]),
            machine_states=np.zeros(0, dtype=MACHINE_STATE_DTYPE),
            pstate_changes=np.zeros(0, dtype=PSTATE_CHANGE_DTYPE),
            pstate_cores=np.zeros(0, dtype=np.int32),
            energy=np.zeros(0, dtype=ENERGY_DTYPE),
            overutilization=OverUtilization(none, none, np.zeros(0, dtype=np.int32), none, none),
            consumed_j=0.0,
            end_s=float(records["start_s"][-1] + 10.0),
            n_decisions=n,
            n_grouped_switches=0,
            n_machine_switches=0,
            info={"scheduling_time_s": 0.1 * len(self.calls), "simulation_time_s": 0.2 * len(self.calls)},
        )


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> OneAfterTheOther:
    """Replace the simulator by `OneAfterTheOther`."""
    import hdrl.settings.batch.kernel
    import hdrl.settings.batch.policies

    simulator = OneAfterTheOther()
    monkeypatch.setattr(hdrl.settings.batch.policies, "simulate", simulator.simulate)
    monkeypatch.setattr(hdrl.settings.batch.kernel, "warm_up", lambda message: message("ready"))
    return simulator
