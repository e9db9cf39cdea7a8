"""evalys, the tool for Batsim's results, reads our files."""

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest

from .four_jobs import write_run

if find_spec("evalys") is None:
    pytest.skip("needs evalys: pip install evalys", allow_module_level=True)

CODE = """
import json, sys, warnings
warnings.simplefilter("ignore")  # its own affair
from evalys.jobset import JobSet
jobs = JobSet.from_csv(sys.argv[1])
frame = jobs.df
print(json.dumps({
    "job_id": [str(value) for value in frame["jobID"]],
    "wait_s": frame["waiting_time"].tolist(),
    "cores": [str(value) for value in frame["allocated_resources"]],
    "queue": jobs.queue["load"].tolist() if hasattr(jobs, "queue") else None,
    "busy": jobs.utilisation["load"].tolist(),
}))
"""
"""In a process of its own: what it loads changes settings of libraries that other tests use."""


def test_evalys_reads_the_jobs(tmp_path):
    run = write_run(tmp_path / "small")
    # It has no notion of a job without dates.
    lines = (run / "out_jobs.csv").read_text().splitlines()
    (run / "out_jobs.csv").write_text("\n".join(line for line in lines if "REJECTED" not in line) + "\n")
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(run / "out_jobs.csv")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert sorted(found["job_id"]) == ["1", "2", "3"]
    assert found["wait_s"] == [0, 5, 14]
    assert found["cores"] == ["0-1", "0-3", "2"]
    assert max(found["busy"]) == 4
