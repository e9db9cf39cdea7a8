"""Synchronous workers are held against torch's own: processes with gloo and DistributedDataParallel."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs torch (the extra learn)")

if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
    pytest.skip("needs a torch with gloo", allow_module_level=True)

HERE = Path(__file__).parent
N = 2


def module(name: str):
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train every agent by real processes; their weights lie there."""
    folder = tmp_path_factory.mktemp("ddp")
    command = [sys.executable, str(HERE / "ddp.py")]
    processes = [
        subprocess.Popen([*command, str(number), str(N), str(folder)], stderr=subprocess.PIPE, text=True)
        for number in range(N)
    ]
    try:
        for process in processes:
            _, told = process.communicate(timeout=120)
            assert process.returncode == 0, told
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    return folder


@pytest.mark.parametrize("name", ["a2c", "ppo", "d3qn"])
def test_synchronous_workers_do_what_torch_s_parallel_processes_do(name: str, folder: Path) -> None:
    ddp = module("ddp")
    team = ddp.teams.team(name, "sync", workers=N)
    team.run(ddp.N_ITERATIONS)
    ours = ddp.weights(team)
    for number in range(N):
        theirs = torch.load(folder / f"{name}_{number}.pt")
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-6)
    alone = ddp.worker(name, 0, N)
    alone.run(ddp.N_ITERATIONS)
    away = max(float((one - other).abs().max()) for one, other in zip(ours, ddp.weights(alone), strict=True))
    assert away > 1e-4  # so what the others learned counts
