"""Models of JobPick judged by windows of logs: what is played is what the kernel would have them do."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import hdrl
from hdrl.experiment import Model, run_experiment
from hdrl.experiment.run.inputs import read_options
from hdrl.experiments import batch_evolution as evolution_protocols
from hdrl.experiments import batch_learned as learned_protocols
from hdrl.experiments.batch_learned import windows_of_model
from hdrl.settings.batch.envs.window_judge import JudgedLog


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the model file of a short training."""
    folder = tmp_path_factory.mktemp("picking")
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
    path = folder / "options.json"
    path.write_text(json.dumps(options))
    run_experiment(read_options(path), out=folder / "out")
    return folder / "out" / "model.pt"


def test_a_models_windows_are_those_of_the_kernel(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(trained)
    platform = hdrl.read_platform("homogeneous:2280")
    load = hdrl.read_workload("lublin_gaia_1000", platform, memory="none", bandwidth="none")
    log = JudgedLog(platform, load, 0, 600, 40, "mean_bounded_slowdown", "fcfs+easy")
    monkeypatch.setattr(learned_protocols, "LENGTH", 40)
    starts = [700, 760, 820]
    found = windows_of_model(model, log, starts, 10, 20)
    for start, outcome in zip(starts, found, strict=True):
        window = load.window(start - 10, 70)
        trace = model.play(platform, window)
        wait_s = trace.records["start_s"] - window.jobs["submit_s"]
        run_s = trace.records["run_s"]
        counted = slice(10, 50)
        slowdown = np.maximum(1.0, (wait_s + run_s) / np.maximum(run_s, 10.0))[counted]
        assert outcome.value == pytest.approx(float(slowdown.mean()), rel=1e-3)
        assert outcome.longest_s == pytest.approx(float(wait_s[counted].max()), abs=1.0)


class Row:
    """A model that belongs to a row of an experiment."""

    def __init__(self, row: str, model: object) -> None:
        self.row, self._model = row, model

    def __getattr__(self, name: str) -> object:
        return getattr(self._model, name)


def test_rows_of_both_kinds_are_judged_by_the_same_windows_and_whole_runs(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learned_protocols, "LOGS", {"small": ("small", 2280)})
    for module in (learned_protocols, evolution_protocols):
        monkeypatch.setattr(module, "LENGTH", 40)
    monkeypatch.setitem(evolution_protocols.PADDING, "padded", (10, 20))
    unmoved = SimpleNamespace(
        environment={"id": "hdrl/JobIndex-v0", "arguments": {"form": "additive"}},
        agent_state={"weights": np.zeros(24)},
    )
    models = [Row("ppo", Model(trained)), Row("es", unmoved), Row("es", unmoved)]
    results = learned_protocols.ppo_held_out_logs({"small": "lublin_gaia_1000"}, models)
    found = {position: one.value for position, one in results.items()}
    assert len(results["es, small", "windows, to requests"].trainings) == 2
    assert {one.null for one in results.values()} == {1.0}
    for protocol in ("windows", "padded", "continuous"):
        for opponent in ("requests", "predictions"):
            column = f"{protocol}, to {opponent}"
            assert found["es, all logs", column] == found["index by hand, all logs", column]
            assert found["ppo, small", column] == pytest.approx(
                found["ppo, small", f"{protocol}, to es"] * found["es, small", column]
            )
    assert found["ppo, small", "windows, to es"] != pytest.approx(1.0)
    assert found["ppo, small", "windows, to es"] == pytest.approx(found["ppo, small", "windows, to index by hand"])
    # One whole run of the log tells how long its last jobs wait.
    platform = hdrl.read_platform("homogeneous:2280")
    load = hdrl.read_workload("lublin_gaia_1000", platform, memory="none", bandwidth="none")
    trace = Model(trained).play(platform, load)
    wait_s = (trace.records["start_s"] - load.jobs["submit_s"])[700:]
    log, (to_requests, _) = evolution_protocols.judged_log("lublin_gaia_1000", 2280)
    ((opponent_run,),) = evolution_protocols.outcomes_of(log, "continuous", [to_requests])
    assert found["ppo, small", "longest wait, to requests"] == pytest.approx(wait_s.max() / opponent_run.longest_s)


def test_evolved_weights_are_held_against_their_structure_untrained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evolution_protocols, "LOGS", {"small": ("small", 2280)})
    monkeypatch.setattr(evolution_protocols, "LENGTH", 40)
    monkeypatch.setattr(evolution_protocols, "N_RESAMPLES", 500)
    monkeypatch.setitem(evolution_protocols.PADDING, "padded", (10, 20))

    def model(offset: float) -> object:
        weights = np.zeros(24)
        weights[0] = offset
        return SimpleNamespace(
            environment={"id": "hdrl/JobIndex-v0", "arguments": {"form": "additive"}}, agent_state={"weights": weights}
        )

    models = [model(4.0), model(-4.0)]
    found = evolution_protocols.es_held_out({"small": "lublin_gaia_1000"}, models)
    for protocol in ("windows", "padded", "continuous"):
        column = f"{protocol}, to index by hand"
        # The mean of both is the index by hand, neither of them is.
        assert found["all logs", column].value == pytest.approx(1.0)
        assert max(found["all logs", column].trainings) > 1.0
        assert len(found["small", f"{protocol}, to requests"].trainings) == 2
    spread = found["all logs", "windows, to index by hand"]
    assert spread.low < 1.0 < spread.high  # by its trainings alone
    assert np.isnan(found["all logs", "continuous, to requests"].low)
