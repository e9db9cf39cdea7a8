"""Small runs, written by hand, for the tests of pictures."""

import json
from pathlib import Path

from hdrl.settings.batch.simulation.outputs import JOB_COLUMNS

HEADER = ",".join(JOB_COLUMNS)

ROWS = (
    # id, submit, cores, state, start, run, allocation, energy
    ("1", 0, 2, "COMPLETED_SUCCESSFULLY", 0, 10, "0-1", 40),
    ("2", 5, 4, "COMPLETED_SUCCESSFULLY", 10, 10, "0-3", 80),
    ("3", 6, 1, "COMPLETED_KILLED", 20, 20, "2", 10),
    ("4", 8, 9, "REJECTED", None, None, "", None),
)
"""Four cores, 40 s: job 2 waits for job 1, job 3 for job 2, job 4 is rejected."""


def job_line(job_id, submit, cores, state, start, run, allocation, energy) -> str:
    ended = [""] * 6 if start is None else [start, run, start + run, start - submit, start + run - submit, 1]
    success = int(state == "COMPLETED_SUCCESSFULLY")
    values = [job_id, "w0", "p", submit, cores, -1, success, state, *ended, allocation]
    values += ["" if energy is None else energy, '""']
    return ",".join(map(str, values))


def write_run(folder: Path, rows=ROWS, *, n_cores: int = 4, n_hidden: int = 0, policy: str = "fcfs") -> Path:
    """Write a run folder with everything that pictures read."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "out_jobs.csv").write_text("\n".join([HEADER, *(job_line(*row) for row in rows)]) + "\n")
    energy = ["time,energy,event_type,wattmin,epower", "0,0,s,1,NA", "10,100,e,1,10", "10,100,s,1,NA"]
    energy += ["20,300,e,1,20", "40,400,e,1,5"]
    (folder / "out_consumed_energy.csv").write_text("\n".join(energy) + "\n")
    spans = {"nb_procs": 2, "procs": {"1": {"state": 0, "values": [[10, 10]]}}}
    (folder / "overutilizations.json").write_text(json.dumps({"core": [5, 6], "mem": [], "mem_bw": spans}))
    (folder / "metrics.json").write_text(json.dumps({"n_jobs": len(rows) + n_hidden, "energy_j": 400.0}))
    provenance = {
        "versions": {"hdrl": "0"},
        "agent": {"name": "classic", "policy": policy},
        "workload": {"name": "four"},
        "platform": {"name": "small", "n_cores": n_cores},
    }
    (folder / "provenance.json").write_text(json.dumps(provenance))
    return folder
