"""Models of JobPick judged by windows of logs: what is played is what the kernel would have them do."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import hdrl
from hdrl.experiment import Model, run_experiment
from hdrl.experiment.run.inputs import read_options
from hdrl.settings.batch import learned_protocols
from hdrl.settings.batch.envs.window_judge import JudgedLog
from hdrl.settings.batch.learned_protocols import values_of


def test_a_models_windows_are_those_of_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {
        "platform_file_path": "homogeneous:2280",
        "workload_file_path": "lublin_gaia_1000",
        "energy": False,
        "workload": {"memory": "none", "bandwidth": "none"},
        "learning": {
            "environment": "job_pick",
            "arguments": {"features": ["index"], "backfilling": "easy_priority", "may_hold": True, "max_jobs": 16},
            "algorithm": "ppo",
            "settings": {"network": "kernel", "n_steps": 16},
            "n_envs": 4,
            "iterations": 1,
            "tensorboard": False,
            "episodes": {"n_jobs": 32, "test": [0.98, 1.0]},
        },
    }
    path = tmp_path / "options.json"
    path.write_text(json.dumps(options))
    run_experiment(read_options(path), out=tmp_path / "out")
    model = Model(tmp_path / "out" / "model.pt")
    platform = hdrl.read_platform("homogeneous:2280")
    load = hdrl.read_workload("lublin_gaia_1000", platform, memory="none", bandwidth="none")
    log = JudgedLog(platform, load, 0, 600, 40, "mean_bounded_slowdown", "fcfs+easy")
    monkeypatch.setattr(learned_protocols, "LENGTH", 40)
    starts = [700, 760, 820]
    values = values_of(model, log, starts, 10, 20)
    for start, value in zip(starts, values, strict=True):
        window = load.window(start - 10, 70)
        trace = model.play(platform, window)
        wait_s = trace.records["start_s"] - window.jobs["submit_s"]
        run_s = trace.records["run_s"]
        counted = slice(10, 50)
        slowdown = np.maximum(1.0, (wait_s + run_s) / np.maximum(run_s, 10.0))[counted]
        assert value == pytest.approx(float(slowdown.mean()), rel=1e-3)
