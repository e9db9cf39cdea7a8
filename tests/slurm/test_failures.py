"""Commands that stand in for Slurm and go wrong: one line within the time, and no process or file left."""

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from hdrl.base.errors import DecisionError, OptionsError, SimulationError
from hdrl.batch import read_platform, simulate
from hdrl.settings.batch.simulators import SlurmSettings
from hdrl.slurm import cluster
from hdrl.slurm.cluster import COMMANDS
from hdrl.testing import JobSpec, small_workload

LISTENING = """
import os, re, socket, time
port = int(re.search(r"SlurmctldPort=(\\d+)", open(os.environ["SLURM_CONF"]).read())[1])
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(("127.0.0.1", port))
server.listen()
time.sleep(60)
"""
"""A slurmctld that listens and does nothing else."""

GOOD = {
    "slurmctld": LISTENING,
    "slurmd": "import time; time.sleep(60)",
    "sinfo": "print('k0n1=idle')",
    "sbatch": "print(1)",
    "squeue": "print('1:Resources')",
    "scancel": "",
    "scontrol": "",
    "faketime": "import os; os.execv(sys.argv[3], sys.argv[3:])",
}


@pytest.fixture(autouse=True)
def _leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    temporary = Path(tempfile.mkdtemp(prefix="fails-"))
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    yield
    assert list(temporary.iterdir()) == []
    temporary.rmdir()
    assert not [one for one in command_lines() if str(tmp_path) in one or str(temporary) in one]


def command_lines() -> list[str]:
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            try:
                found.append((path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
            except OSError:
                continue
    return found


def stand_ins(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, names: Sequence[str] = COMMANDS, **changes: str | None
) -> None:
    """Put commands on PATH that do as they should, apart from the changes; ``None``: there is none."""
    place = folder / "bin"
    place.mkdir()
    for name in names:
        code = changes[name] if name in changes else GOOD[name]
        if code is not None:
            path = place / name
            version = "print('slurm-wlm 22.05.8'); sys.exit(0)"
            path.write_text(f"#!{sys.executable}\nimport sys\nif sys.argv[1:] == ['-V']:\n    {version}\n{code}\n")
            path.chmod(0o755)
    monkeypatch.setenv("PATH", str(place))
    monkeypatch.setattr(cluster, "_MORE_PLACES", "")


def fails(*, timeout_s: float = 20.0) -> str:
    began_s = time.monotonic()
    with pytest.raises(SimulationError) as caught:
        simulate(
            read_platform("homogeneous:4"),
            small_workload(JobSpec(0.0, 2)),
            "slurm",
            simulator="slurm",
            slurm=SlurmSettings(speed=1.0, timeout_s=timeout_s, daemons=1),
        )
    assert time.monotonic() - began_s < timeout_s + 20.0
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def test_missing_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_ins(tmp_path, monkeypatch, slurmctld=None, faketime=None)
    assert fails() == (
        "simulator 'slurm' needs slurmctld, faketime, which are not on PATH: make slurm, or apt-get install slurmctld "
        "slurmd slurm-client faketime"
    )


def test_parts_of_different_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_ins(tmp_path, monkeypatch)
    path = tmp_path / "bin" / "slurmd"
    path.write_text(path.read_text().replace("22.05.8", "21.08.8"))
    assert "parts of different versions of Slurm: slurmctld 'slurm-wlm 22.05.8', slurmd 'slurm-wlm 21" in fails()


@pytest.mark.parametrize(
    ("changes", "timeout_s", "problem"),
    [
        ({"slurmctld": "sys.exit(3)"}, 20.0, "Slurm: slurmctld ended with code 3"),
        ({"slurmctld": "import os; os.abort()"}, 20.0, "Slurm: slurmctld ended with signal 6"),
        ({"slurmctld": "sys.exit('slurmctld: fatal: no port is free')"}, 20.0, "slurmctld says no port is free"),
        ({"slurmctld": "import time; time.sleep(60)"}, 1.0, "Slurm: slurmctld does not listen after 1 s"),
        ({"slurmd": "sys.exit(1)", "sinfo": "print('k0n1=down')"}, 20.0, "Slurm: slurmd of k0n1 ended with code 1"),
        ({"sinfo": "print('k0n1=down')"}, 1.0, "Slurm: not all nodes are idle after 1 s"),
        ({"sinfo": "import time; time.sleep(60)"}, 2.0, "Slurm has not answered for 2 s (slurm.timeout_s)"),
        (
            {"sbatch": "sys.exit('sbatch: error: no way')"},
            20.0,
            "Slurm: sbatch ended with code 1: sbatch: error: no way",
        ),
        ({}, 1.0, "1 jobs submitted, 0 started, 0 ended, and nothing has changed for"),
        ({"faketime": "sys.exit(5)"}, 20.0, "Slurm: faketime ended with code 5"),
    ],
)
def test_a_slurm_that_misbehaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], timeout_s: float, problem: str
) -> None:
    stand_ins(tmp_path, monkeypatch, **changes)
    assert problem in fails(timeout_s=timeout_s)


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        ("fcfs", "policy 'fcfs': is the order of Slurm without weights"),
        ("f1", "policy 'f1': weighs the date at which a log began"),
        ("sjf+easy@geo/all", "Slurm reserves by requested times"),
        (lambda view: [], "'slurm' and named policies that order jobs, not one in Python"),
    ],
)
def test_policies_that_no_slurm_follows(policy: Any, problem: str) -> None:
    with pytest.raises((DecisionError, OptionsError), match=problem):
        simulate(read_platform("homogeneous:4"), small_workload(JobSpec(0.0, 2)), policy, simulator="slurm")


def test_runs_that_take_too_long() -> None:
    hours = [JobSpec(3600.0 * hour, 1, gflop=60.0, requested_time_s=60.0) for hour in range(20)]
    with pytest.raises(SimulationError) as caught:
        simulate(
            read_platform("homogeneous:4"),
            small_workload(*hours),
            "slurm",
            simulator="slurm",
            slurm=SlurmSettings(max_minutes=10.0),
        )
    assert str(caught.value) == (
        "20 jobs over 19.0 simulated hours at 40 times real time would take about 29 min, more than 10 "
        "(slurm.max_minutes); take the first 7 jobs (nb_jobs) or a higher limit"
    )


def test_limits_that_slurm_cannot_have() -> None:
    killed_later = small_workload(JobSpec(0.0, 2, walltime_s=200.0, requested_time_s=100.0))
    with pytest.raises(SimulationError, match="Slurm has one limit for both"):
        simulate(read_platform("homogeneous:4"), killed_later, "slurm", simulator="slurm")
