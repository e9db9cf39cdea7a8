"""The workloads that are simulated, and the options files that ask for them."""

from __future__ import annotations

import contextlib
import gzip
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from common.measure import ROOT

CONTENTION = 12
"""Dates are divided by this for a contended workload: the jobs then ask for more than the machine has."""

RICC = ROOT / ".." / "shared" / "traces" / "swf" / "RICC-2010-2.noheader.swf.gz"
"""The log of the RICC cluster in the Parallel Workloads Archive, where it has been put beside the checkout."""

N_JOBS = 10_000
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Inputs:
    """Workload files of ten thousand jobs each, by name."""

    folder: Path
    classic: Path
    classic_contended: Path
    shipped: Path
    shipped_contended: Path

    def options(self, name: str, workload: Path, platform: str = "gaia", **more: object) -> Path:
        """Write an options file and return it.

        Parameters
        ----------
        name
            Its name, without suffix.
        workload
            The workload's file.
        platform
            Name of a shipped platform.
        **more
            Further options.
        """
        file = self.folder / f"{name}.json"
        policy = {"agent": {"type": "CLASSIC", "policy_pair": "shortest-high_gflops"}}
        options = {
            "seed": 2009,
            "platform_file_path": platform,
            "workload_file_path": str(workload.resolve()),
            "pybatsim": policy,
        }
        file.write_text(json.dumps(options | more))
        return file


@contextlib.contextmanager
def prepared_inputs() -> Iterator[Inputs]:
    """Make the workloads in a temporary folder; they are the same every time.

    *Classic* is the usual set-up: the Lublin-Feitelson model for a machine of 256 processors, as one would run it on
    HDeepRM. *Shipped* is ``workloads/lublin_gaia_10000.swf.gz``, which is sized to gaia
    and asks for eight times as much.

    Yields
    ------
    Inputs
        The files.
    """
    from hdrl.settings.batch.workload import lublin_log, write_swf

    with tempfile.TemporaryDirectory(prefix="hdrl-benchmark-") as name:
        folder = Path(name)
        inputs = Inputs(
            folder,
            classic=folder / "classic.swf.gz",
            classic_contended=folder / "classic_contended.swf.gz",
            shipped=ROOT / "workloads" / "lublin_gaia_10000.swf.gz",
            shipped_contended=folder / "shipped_contended.swf.gz",
        )
        write_swf(lublin_log(N_JOBS, 256, seed=2009), inputs.classic)
        _contend(inputs.classic, inputs.classic_contended)
        _contend(inputs.shipped, inputs.shipped_contended)
        yield inputs


def write_repeated(source: Path, target: Path, n_jobs: int) -> None:
    """Write the jobs of a log again and again, each time an hour after the last submission before.

    Parameters
    ----------
    source
        The log.
    target
        What is written.
    n_jobs
        How many jobs it shall hold.
    """
    with gzip.open(source, "rt") as log:
        rows = [line.split() for line in log if not line.startswith(";")]
    period_s = max(int(float(row[1])) for row in rows) + 3600
    with target.open("w") as out:
        for number in range(n_jobs):
            row = rows[number % len(rows)]
            submit_s = int(float(row[1])) + number // len(rows) * period_s
            out.write(" ".join([str(number + 1), str(submit_s), *row[2:]]) + "\n")


def _contend(source: Path, target: Path) -> None:
    from hdrl.settings.batch.workload import read_swf, write_swf

    log = read_swf(source)
    rows = log.rows.copy()
    rows["submit_s"] /= CONTENTION
    write_swf(replace(log, rows=rows), target)


def log_or_generated(log: str | None, platform: Any) -> Any:
    """Return the jobs of a log, or 20,000 of the Lublin-Feitelson model with users and Tsafrir's estimates at load 0.9.

    Parameters
    ----------
    log
        The log's file; ``None``: jobs are generated.
    platform
        The machine.
    """
    from hdrl.settings.batch.envs.machines import pool_inputs
    from hdrl.settings.batch.workload import lublin_log, workload_from_swf

    if log is not None:
        return pool_inputs(log, platform, None).workloads[0]
    made = lublin_log(20_000, platform.n_cores, load=0.9, seed=1, n_users=60, estimates="tsafrir")
    return workload_from_swf(made, platform, bandwidth="none", memory="none")
