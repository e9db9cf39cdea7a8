"""Failures that are drawn for the nodes of a site, and the jobs that they stop."""

import csv
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from hdrl.base.errors import OptionsError
from hdrl.batch import read_platform, read_workload, simulate
from hdrl.site import ImportChoices, import_site
from hdrl.site.failures import FailureChoices, write_failures

HOUR_S = 3600
CONF = "ClusterName=small\nNodeName=n[1-40] CPUs=1\nPartitionName=main Nodes=ALL\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a site of 40 nodes, on which 100 jobs of 10 hours each begin every 10 hours."""
    folder = tmp_path_factory.mktemp("failures")
    date = np.datetime64("2025-01-01T00:00:00")
    rows = ["JobID|Submit|Eligible|Start|End|TimelimitRaw|AllocCPUS|State"]
    for job in range(100):
        begin, end = (date + np.timedelta64(10 * hours, "h") for hours in (job, job + 1))
        rows.append(f"{job + 1}|{begin}|{begin}|{begin}|{end}|600|40|COMPLETED")
    (folder / "sacct.txt").write_text("\n".join(rows) + "\n")
    (folder / "slurm.conf").write_text(CONF)
    choices = ImportChoices(confs=(folder / "slurm.conf",), n_replayed=0)
    import_site([folder / "sacct.txt"], folder / "site", choices)
    return folder


def spans(table: Path) -> dict[str, list[tuple[float, float]]]:
    """Return begin and end of the failures of each node."""
    found: dict[str, list[tuple[float, float]]] = {}
    with table.open(newline="") as file:
        for row in csv.DictReader(file):
            assert row["kind"] == "failure"
            dates = [datetime.fromisoformat(row[name]).timestamp() for name in ("start", "end")]
            found.setdefault(row["nodes"], []).append((dates[0], dates[1]))
    return found


def test_times_between_failures_have_the_mean_that_was_said(site: Path):
    table = site / "often.csv"
    n_failures, n_nodes = write_failures(site / "site", FailureChoices(20.0, 5.0, seed=1), table)
    found = spans(table)
    assert (n_nodes, n_failures) == (40, sum(map(len, found.values())))
    begin_s = datetime.fromisoformat("2025-01-01T00:00:00Z").timestamp()
    assert all(begin_s <= start_s < begin_s + 1000 * HOUR_S for one in found.values() for start_s, _ in one)
    assert all(
        end_s - start_s in (5 * HOUR_S, 5 * HOUR_S - 1, 5 * HOUR_S + 1)
        for one in found.values()
        for start_s, end_s in one
    )
    up_s = np.array([later[0] - earlier[1] for one in found.values() for earlier, later in pairwise(one)])
    assert up_s.min() >= 0
    assert up_s.mean() / HOUR_S == pytest.approx(20, rel=0.1)  # about 1,600 draws: four standard errors
    again = site / "again.csv"
    write_failures(site / "site", FailureChoices(20.0, 5.0, seed=1), again)
    assert again.read_bytes() == table.read_bytes()
    write_failures(site / "site", FailureChoices(20.0, 5.0, seed=2), again)
    assert again.read_bytes() != table.read_bytes()


def test_jobs_begin_anew_when_their_nodes_fail(site: Path):
    table = site / "seldom.csv"
    n_failures, _ = write_failures(site / "site", FailureChoices(2000.0, 12.0), table)
    choices = ImportChoices(confs=(site / "slurm.conf",), downtimes=table, n_replayed=0)
    import_site([site / "sacct.txt"], site / "failing", choices)
    platform = read_platform(site / "failing" / "platform.json")
    assert platform.site is not None
    assert len(platform.site.outages) == n_failures
    trace = simulate(platform, read_workload(site / "failing" / "jobs.swf", platform), "fcfs+easy")
    # A failure stops the one job that runs, or none if that waits for its nodes.
    assert 0 < trace.info["n_requeued"] <= n_failures


def test_too_many_failures_are_refused(site: Path):
    with pytest.raises(OptionsError, match="expected at most 200,000"):
        write_failures(site / "site", FailureChoices(0.01, 0.01), site / "none.csv")
    assert not (site / "none.csv").exists()
