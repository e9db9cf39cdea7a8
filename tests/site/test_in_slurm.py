"""A window of a site's log in a real Slurm: what fills the machine, and how far Slurm is from the site."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from hdrl.base.errors import SimulationError
from hdrl.batch import SwfLog
from hdrl.launcher.main import cli
from hdrl.settings.batch.platform.conversion import build_platform
from hdrl.settings.batch.site_rules.columns import SiteColumns
from hdrl.settings.batch.site_rules.conf import Nodes, SiteConf
from hdrl.settings.batch.site_rules.machine import platform_of
from hdrl.settings.batch.site_rules.rules import rules_of
from hdrl.settings.batch.workload.swf import unknown_rows
from hdrl.site.in_slurm import _with_earlier
from hdrl.site.replay import replay
from hdrl.slurm import cluster


def hdrl(*words: object) -> Result:
    return CliRunner().invoke(cli, list(map(str, words)), prog_name="hdrl")


def test_jobs_that_were_there_fill_the_machine() -> None:
    rows = unknown_rows(5)
    rows["job_number"] = np.arange(1, 6)
    rows["submit_s"] = 0, 10, 20, 100, 130
    rows["wait_s"] = 0, 100, 0, 0, 40
    rows["run_s"], rows["requested_s"] = (50, 20, 200, 10, 10), 300
    found, n_before = _with_earlier(SwfLog("log", rows, {}), 3, 2)
    # When job 4 comes, job 1 has ended, job 2 waits, and job 3 has run for 80 s.
    assert (found["job_number"].tolist(), n_before) == ([3, 2, 4, 5], 2)
    assert found["submit_s"].tolist() == [100, 100, 100, 130]
    assert found["run_s"].tolist() == [120, 20, 10, 10]
    assert found["requested_s"].tolist() == [220, 300, 300, 300]


def test_jobs_that_never_start_are_not_compared() -> None:
    conf = SiteConf("small", (Nodes("n1", 1, 2),), accounts={"phys": {"MaxTRES": "cpu=1"}})
    platform = replace(build_platform(platform_of(conf), name="small"), site=rules_of(conf))
    rows = unknown_rows(3)
    rows["job_number"], rows["submit_s"], rows["wait_s"], rows["run_s"] = [1, 2, 3], [0, 5, 10], [0, 55, 110], 60
    rows["processors"] = rows["requested_processors"] = [1, 2, 1]
    requests = SiteColumns(Path("log"), tuple((job, {"job": str(job), "account": "phys"}) for job in (1, 2, 3)))
    log = SwfLog("log", rows, {}, columns=requests)
    told: list[str] = []
    found = replay(
        log, platform, n_jobs=None, n_attempts=np.ones(3), partitions=["all"], first_s=0.0, progress=told.append
    )
    assert len(told) == len(found.replays) == 3
    for one in found.replays:
        # The second job asks for more than MaxTRES. The third waits for 110 s at the site, and not at all here.
        assert (one.whole.n_jobs, one.n_never, one.peak_cores) == (2, 1, 2)
        assert one.limits == {"MaxTRES=cpu of a job": 1}
        assert (one.whole.mean_wait_s, one.whole.site_mean_wait_s) == (0, 55)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    header = "JobID|User|Account|Partition|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|AllocCPUS|ReqCPUS|State"
    rows = [(1, 0, 0, 40, 2), (2, 5, 40, 60, 2), (3, 10, 60, 80, 1)]

    def row(job: int, submit: int, start: int, end: int, cores: int) -> str:
        dates = "|".join(f"2026-01-05T00:00:{second:02d}" for second in (submit, submit, start))
        ended = f"2026-01-05T00:01:{end - 60:02d}" if end >= 60 else f"2026-01-05T00:00:{end:02d}"
        return f"{job}|ann|phys|main|{dates}|{ended}|{end - start}|10|{cores}|{cores}|COMPLETED"

    (tmp_path / "sacct.txt").write_text("\n".join([header, *(row(*one) for one in rows)]).replace(":60", ":59") + "\n")
    (tmp_path / "slurm.conf").write_text(
        "NodeName=n1 CPUs=2 RealMemory=1000\nPartitionName=main Nodes=n1 Default=YES MaxTime=60 State=UP\n"
    )
    words = ["site", "import", tmp_path / "sacct.txt", "--conf", tmp_path / "slurm.conf", "-o", tmp_path / "site"]
    done = hdrl(*words, "-q", "--replay", "none")
    assert done.exit_code == 0, done.output
    return tmp_path / "site"


def test_windows_that_the_log_has_not(site: Path) -> None:
    done = hdrl("site", "replay", site, "--jobs", 3, "--first", 1)
    assert done.exit_code == 2
    assert "has 3 jobs, expected at least 4 (--jobs, --first)" in done.output


def test_a_replay(site: Path) -> None:
    try:
        cluster.find_commands()
    except SimulationError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    done = hdrl("site", "replay", site, "--jobs", 3, "--speed", 20)
    assert done.exit_code == 0, done.output
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[:2] for line in lines[1:4]] == [["the", "site"], ["slurm", "0.00%"], ["slurm,", "simulated"]]
    assert lines[1][2] == "28"
