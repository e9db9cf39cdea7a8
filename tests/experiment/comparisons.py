"""Small comparisons for tests."""

from pathlib import Path

from hdrl.experiment.run.inputs import make_sweep
from hdrl.options.sweep import Sweep
from hdrl.settings.batch.workload import lublin_log, write_swf

N_JOBS = 240
PLATFORM = "homogeneous:16"


def write_log(folder: Path, name: str = "log.swf", seed: int = 0) -> Path:
    path = folder / name
    write_swf(lublin_log(N_JOBS, 16, seed=seed, load=0.8), path)
    return path


def sweep(folder: Path, **changes) -> Sweep:
    """Return four candidates (the baseline among them) on six windows of forty jobs."""
    if not (folder / "log.swf").exists():
        write_log(folder)
    data = {
        "platform": PLATFORM,
        "candidates": ["f4+easy_sjbf", "sjf+easy", "fcfs"],
        "workloads": ["log.swf"],
        "windows": {"length": 40},
        "resamples": 200,
    }
    return make_sweep({**data, **changes}, folder=folder)
