"""Run folders made of nothing: all files that a report reads, without a simulation."""

import json
from pathlib import Path

import numpy as np

from hdrl.settings.batch.simulation.outputs import JOB_COLUMNS


def make_run(
    folder: Path,
    *,
    policy: str = "first-high_gflops",
    n_jobs: int = 12,
    n_cores: int = 8,
    n_blocks: int = 1,
    seed: int = 1,
    metrics: dict[str, float] | None = None,
    energy: bool = True,
    workload: str = "w" * 64,
    job_ids: list[str] | None = None,
) -> Path:
    """Write a run folder; jobs are submitted 10 s apart and hold some blocks of cores."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    submit = 10.0 * np.arange(n_jobs)
    wait = rng.exponential(40.0, n_jobs).round(3)
    run = rng.exponential(60.0, n_jobs).round(3) + 1
    width = max(1, n_cores // (4 * n_blocks))
    lines = [",".join(JOB_COLUMNS)]
    sets = []
    for _ in range(n_jobs):
        firsts = np.sort(rng.choice(n_cores // (2 * width), n_blocks, replace=False)) * 2 * width
        sets.append(" ".join(f"{first}-{first + width - 1}" for first in firsts.tolist()))
    ids = job_ids or [str(index) for index in range(n_jobs)]
    for index in range(n_jobs):
        start = submit[index] + wait[index]
        name = ids[index].replace('"', '""')
        lines.append(
            f'"{name}",w0,p,{submit[index]:f},{width * n_blocks},-1.000000,1,COMPLETED_SUCCESSFULLY,{start:f},'
            f"{run[index]:f},{start + run[index]:f},{wait[index]:f},{wait[index] + run[index]:f},"
            f'{1 + wait[index] / run[index]:f},{sets[index]},-1.000000,""'
        )
    (folder / "out_jobs.csv").write_text("\n".join(lines) + "\n")
    if energy:
        times = np.sort(rng.uniform(0, submit[-1] + 100, 2 * n_jobs))
        joules = np.cumsum(rng.uniform(100, 200, 2 * n_jobs))
        rows = [f"{time:f},{joule:f},s,10.0,10.0" for time, joule in zip(times, joules, strict=True)]
        (folder / "out_consumed_energy.csv").write_text(
            "\n".join(["time,energy,event_type,wattmin,epower", *rows]) + "\n"
        )
    counts = {"n_jobs": n_jobs, "n_finished": n_jobs, "n_rejected": 0, "n_unfinished": 0, "n_not_started": 0}
    slowdown = np.maximum(1, (wait + run) / np.maximum(run, 10))
    means = {"mean_bounded_slowdown": float(slowdown.mean()), "mean_wait_s": float(wait.mean()), "energy_j": 5e6}
    (folder / "metrics.json").write_text(json.dumps(counts | means | (metrics or {})))
    (folder / "provenance.json").write_text(
        json.dumps(
            {
                "versions": {"hdrl": "9.9", "python": "3.14"},
                "seed": seed,
                "options": {"sha256": "0" * 64},
                "platform": {"name": "made", "n_cores": n_cores, "sha256": "p" * 64},
                "workload": {"name": "jobs", "n_jobs": n_jobs, "sha256": workload},
                "agent": {"name": "classic", "policy": policy, "sha256": None},
            }
        )
    )
    (folder / "options.resolved.json").write_text(
        json.dumps({"seed": seed, "simulator": "embedded", "pybatsim": {"agent": {"policy_pair": policy}}})
    )
    return folder
