"""Learned models as candidates: several trainings are one candidate, and what they were trained on is known."""

import csv
import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("scipy", reason="scipy is not installed (extra report)")
pytest.importorskip("torch", reason="torch is not installed (extra learn)")

import torch

import hdrl
from hdrl.base.errors import HdrlError, OptionsError
from hdrl.experiment import evaluate_model, resumed_options, run_experiment
from hdrl.experiment.compare.comparison import run_comparison
from hdrl.experiment.run.inputs import make_sweep, parse_options
from hdrl.settings.batch.workload import lublin_log, write_swf


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a log and two models that were hardly trained on its first half."""
    folder = tmp_path_factory.mktemp("models")
    write_swf(lublin_log(200, 16, load=0.8), folder / "log.swf")
    for seed in (0, 1):
        options = parse_options(
            {
                "seed": seed,
                "platform_file_path": "homogeneous:16",
                "workload_file_path": "log.swf",
                "workload": {"bandwidth": "none"},
                "pybatsim": {"agent": {"type": "LEARNING", "run": "train"}},
                "learning": {
                    "algorithm": "reinforce",
                    "environment": "job_pick",
                    "arguments": {"order": "f2"},
                    "episodes": {"n_jobs": 20, "train": [0.0, 0.5], "validation": [0.5, 0.7], "test": [0.7, 1.0]},
                    "validation_every": 1,
                    "n_validation_episodes": 1,
                    "tensorboard": False,
                },
            },
            folder=folder,
        )
        run_experiment(options, out=folder / f"run{seed}")
    return folder


def sweep(folder: Path, **changes):
    data = {
        "platform": "homogeneous:16",
        "candidates": ["mine=run*/model.pt"],
        "workloads": ["log.swf"],
        "workload": {"bandwidth": "none"},
        "windows": {"length": 25},
        "range": [0.5, 1.0],
        "metrics": ["mean_bounded_slowdown"],
        "resamples": 200,
    }
    return make_sweep({**data, **changes}, folder=folder)


def test_several_trainings_are_the_seeds_of_one_candidate(folder: Path, tmp_path: Path):
    result = run_comparison(sweep(folder), out=tmp_path / "out", n_workers=1)
    with (tmp_path / "out" / "results.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["candidate"] == "mine"]
    assert [row["seed"] for row in rows] == ["0", "1"] * 4
    platform = hdrl.read_platform("homogeneous:16")
    jobs = hdrl.read_workload(folder / "log.swf", platform, bandwidth="none").window(125, 25)
    for row, run in zip(rows[2:4], ("run0", "run1"), strict=True):
        trace = evaluate_model(folder / run / "model.pt", platform, jobs, seed=int(row["seed"]))
        assert float(row["mean_bounded_slowdown"]) == hdrl.compute_metrics(trace)["mean_bounded_slowdown"]
    assert result.rows[-1].n_seeds == 2
    assert "over 4 windows and 2 seeds" in result.verdict
    kinds = {caution.kind: caution.text for caution in result.cautions}
    assert "mine is the result of 2 trainings" in kinds["few-trainings"]
    assert "trained-on" not in kinds, "it was trained on the other half"
    assert "scales" not in kinds, "it sees jobs here as in its training"
    assert kinds["dates"].startswith("mine learned with f2 (order) of dates from the beginning of its log")


def test_models_of_older_versions_are_played_as_ever_but_not_trained_further(folder: Path, tmp_path: Path):
    older = shutil.copytree(folder / "run0", tmp_path / "older")
    for name in ("model.pt", "checkpoint.pt"):
        content = torch.load(older / name, weights_only=True)
        header = json.loads(content["header"])
        del header["environment"]["arguments"]["scales"]
        torch.save(content | {"header": json.dumps(header)}, older / name)
    result = run_comparison(sweep(folder, candidates=[f"older={older}/model.pt"]), out=tmp_path / "out", n_workers=1)
    (text,) = [caution.text for caution in result.cautions if caution.kind == "scales"]
    assert text.startswith("older learned with requested times divided by the largest of its log; here by that of each")
    options = resumed_options(older, ["learning.iterations=99"])
    with pytest.raises(OptionsError, match=r"checkpoint.pt: was trained with scales = 'largest', not 'fixed'"):
        run_experiment(options, out=older, resumes=True)


def test_windows_that_a_model_was_trained_on_are_told(folder: Path, tmp_path: Path):
    result = run_comparison(sweep(folder, range=[0.0, 1.0]), out=tmp_path / "out", n_workers=1)
    (text,) = [caution.text for caution in result.cautions if caution.kind == "trained-on"]
    assert text == "mine was trained on jobs of 4 of the 8 windows that judge it (log)"


def test_windows_that_a_model_was_chosen_by_are_told(folder: Path, tmp_path: Path):
    result = run_comparison(sweep(folder), out=tmp_path / "out", n_workers=1)
    (text,) = [caution.text for caution in result.cautions if caution.kind == "chosen-by"]
    assert text == "mine was chosen by its results on jobs of 2 of the 4 windows that judge it (log)"
    result = run_comparison(sweep(folder, range=[0.7, 1.0]), out=tmp_path / "later", n_workers=1)
    assert not any(caution.kind == "chosen-by" for caution in result.cautions)


def test_the_same_bytes_from_other_processes(folder: Path, tmp_path: Path):
    for name, n_workers in (("one", 1), ("two", 2)):
        run_comparison(sweep(folder), out=tmp_path / name, n_workers=n_workers)
    assert (tmp_path / "one" / "results.csv").read_bytes() == (tmp_path / "two" / "results.csv").read_bytes()


def test_files_that_cannot_decide_are_refused(folder: Path, tmp_path: Path):
    (folder / "learns.py").write_text(
        "from hdrl.compat.hdeeprm.bases import PolicyLearningAgent\n\nclass Mine(PolicyLearningAgent):\n    pass\n"
    )
    with pytest.raises(OptionsError, match=r"learns\.py: an agent that learns is compared by its model"):
        run_comparison(sweep(folder, candidates=["learns.py"]), out=tmp_path / "out", n_workers=1)
    (folder / "broken.pt").write_text("no model")
    with pytest.raises(HdrlError, match=r"broken\.pt: "):
        run_comparison(sweep(folder, candidates=["broken.pt"]), out=tmp_path / "out", n_workers=1)
    assert not (tmp_path / "out").exists(), "told before anything is simulated"
