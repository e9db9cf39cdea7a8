"""A Slurm of three scripts: prints what a test wrote, notes how it was called, and what it was told."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from hdrl.deploy.slurm import COLUMNS

SCRIPT = """#!/bin/sh
echo "$(basename "$0") $*" >> {folder}/calls
env | grep -E '^(SQUEUE|SINFO|SCONTROL|SLURM)' | sort > {folder}/environment
case "$(basename "$0") $*" in
   squeue*) cat {folder}/squeue; exit "$(cat {folder}/code)" ;;
   sinfo*) cat {folder}/sinfo ;;
   "scontrol show config") cat {folder}/config ;;
   "scontrol ") cat >> {folder}/told; cat {folder}/said >&2 ;;
   *) echo "unknown: $0 $*" >&2; exit 1 ;;
esac
"""


class FakeSlurm:
    """Three scripts on ``PATH``."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        bin_folder = folder / "bin"
        bin_folder.mkdir(parents=True)
        for name in ("squeue", "sinfo", "scontrol"):
            (bin_folder / name).write_text(SCRIPT.format(folder=folder))
            (bin_folder / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{bin_folder}{os.pathsep}{os.environ['PATH']}")
        for name in ("calls", "told", "said", "squeue"):
            (folder / name).write_bytes(b"")
        self.write("code", "0")
        self.write("config", "PriorityType            = priority/multifactor\nPriorityWeightAge       = 1000\n")
        self.free(0)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def free(self, n_cores: int, total: int = 16) -> None:
        node = f"{'n1':<64}{f'{total - n_cores}/{n_cores}/0/{total}':<48}\n"
        self.write("sinfo", node * 2)  # a node of two partitions

    def queue(self, *jobs: bytes) -> None:
        (self.folder / "squeue").write_bytes(b"".join(job + b"\n" for job in jobs))

    def take(self, name: str) -> list[str]:
        """Return the lines of a file, and empty it."""
        lines = (self.folder / name).read_text().splitlines()
        self.write(name, "")
        return lines


def job_line(number: int, **changed: Any) -> bytes:
    """Return a line of squeue; what is not said is a job of one core that waits."""
    words = {
        "JobID": number,
        "StateCompact": "PD",
        "NumCPUs": 1,
        "TimeLimit": "1:00:00",
        "SubmitTime": 1_000_000,
        "EligibleTime": 1_000_000,
        "StartTime": "N/A",
        "EndTime": "N/A",
        "Reason": "Priority",
        "UserName": "ann",
        "Account": "chem",
        **changed,
    }
    cells = ((str(words[name]).encode("utf-8", "surrogateescape"), width) for name, width in COLUMNS.items())
    return b"".join(text[:width].ljust(width) for text, width in cells)
