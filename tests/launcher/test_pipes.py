"""Logs that come through ``/dev/stdin`` and ``<(command)``, as shells give them."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from hdrl.base.pipes import is_pipe

LOG = "; MaxProcs: 4\n" + "".join(
    f"{k} {5 * k} 0 {10 + k % 3} {1 + k % 4} -1 -1 {1 + k % 4} 30 -1 1 {k % 2} 1 1 -1 -1 -1 -1\n" for k in range(1, 61)
)
RUN = "import sys; from hdrl.launcher.{module} import {command}; {command}(prog_name='{name}')"


def run(words: str, folder: Path, *, content: bytes | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command by bash, whose process substitutions it may hold; HDRL and LAUNCH stand for the programs."""
    programs = {"HDRL": ("main", "cli", "hdrl"), "LAUNCH": ("launch", "launch", "hdrl-launch")}
    for word, (module, command, name) in programs.items():
        code = RUN.format(module=module, command=command, name=name)
        words = words.replace(word, f'{sys.executable} -c "{code}"')
    found = subprocess.run(["bash", "-c", words], cwd=folder, input=content, capture_output=True, check=False)
    return subprocess.CompletedProcess(words, found.returncode, found.stdout.decode(), found.stderr.decode())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "log.swf").write_text(LOG)
    options = {"platform_file_path": "homogeneous:4", "workload_file_path": "/dev/stdin"}
    (tmp_path / "o.json").write_text(json.dumps(options))
    return tmp_path


@pytest.mark.parametrize("content", [LOG.encode(), gzip.compress(LOG.encode())], ids=["plain", "gz"])
def test_stat_describes_a_log_from_stdin(folder: Path, content: bytes):
    expected = run("HDRL workload stat log.swf", folder)
    found = run("HDRL workload stat /dev/stdin", folder, content=content)
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines()[1:] == expected.stdout.splitlines()[1:]  # all but the name of the log


def test_stat_describes_what_a_command_prints(folder: Path):
    found = run("HDRL workload stat <(head -n 3 log.swf) size max", folder)
    assert (found.returncode, found.stdout.strip()) == (0, "3"), found.stderr


@pytest.mark.parametrize("words", ["o.json", "o.json --set workload_file_path=<(cat log.swf)"])
def test_a_run_takes_its_log_from_a_pipe(folder: Path, words: str):
    expected = run("LAUNCH sjf o.json --set workload_file_path=$PWD/log.swf --out expected", folder)
    assert expected.returncode == 0, expected.stderr
    found = run(f"LAUNCH sjf {words} --out found", folder, content=LOG.encode())
    assert found.returncode == 0, found.stderr
    assert (folder / "found/out_jobs.csv").read_bytes() == (folder / "expected/out_jobs.csv").read_bytes()


def test_a_comparison_takes_its_log_from_a_pipe(folder: Path):
    command = "HDRL compare fcfs+easy sjf+easy -p homogeneous:4 --windows 20:3 --metrics mean_wait_s"
    expected = run(f"{command} -w log.swf --out expected", folder)
    assert expected.returncode == 0, expected.stderr
    found = run(f"{command} -w /dev/stdin --out found", folder, content=LOG.encode())
    assert found.returncode == 0, found.stderr
    tables = [text.stdout.split("warning")[0] for text in (found, expected)]
    assert tables[0] == tables[1]


def test_only_inputs_are_pipes(tmp_path: Path):
    assert not is_pipe(tmp_path / "log.swf")
    assert not is_pipe("/dev/fd/9999")
    with (tmp_path / "written").open("w") as file:  # a file to write to is nothing to read from
        assert not is_pipe(f"/dev/fd/{file.fileno()}")
