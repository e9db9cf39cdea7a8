"""A training by several workers, from options to its folder."""

import json
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch (the extra learn)")

from hdrl.errors import HdrlError, OptionsError
from hdrl.experiment import resumed_options, run_experiment
from hdrl.experiment.run.inputs import read_options

LEARNING = {
    "algorithm": "d3qn",
    "n_envs": 4,
    "tensorboard": False,
    "checkpoint_every": 1,
    "settings": {"warm_up": 16, "batch_size": 8, "updates_per_iteration": 4, "capacity": 256, "hidden": [8]},
}


def options(tmp_path: Path, *changes: str):
    path = tmp_path / "options.json"
    given = {"seed": 2, "platform": "1cpu+1gpu", "workload": "generated", "setting": "pipelines"}
    given |= {"load": {"horizon_ms": 2000}, "agent": {"type": "LEARNING"}, "learning": LEARNING}
    path.write_text(json.dumps(given))
    return read_options(path, overrides=["learning.distributed.scheme=apex", *changes])


def test_an_interrupted_training_leaves_the_same_files(tmp_path: Path) -> None:
    run_experiment(options(tmp_path, "learning.iterations=3"), out=tmp_path / "whole")
    run_experiment(options(tmp_path, "learning.iterations=1"), out=tmp_path / "part")
    longer = resumed_options(tmp_path / "part", ["learning.iterations=3"])
    run_experiment(longer, out=tmp_path / "part", resumes=True)
    for name in ("model.pt", "training.csv", "metrics.json"):
        assert (tmp_path / "part" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    header = (tmp_path / "whole" / "training.csv").read_text().splitlines()[0]
    assert {"replay_ratio", "mean_actor_lag", "virtual_time_s"} <= set(header.split(","))


def test_a_training_by_one_says_nothing_of_workers(tmp_path: Path) -> None:
    alone = options(tmp_path, "learning.distributed=null")
    assert "distributed" not in alone.model_dump(mode="json")["learning"]
    with pytest.raises(OptionsError, match=r"--on ray is for several workers, expected learning.distributed"):
        run_experiment(alone, out=tmp_path / "out", on="ray")


def test_mistakes_write_nothing(tmp_path: Path) -> None:
    with pytest.raises(HdrlError, match=r"expected a multiple of learning.distributed.workers, 3"):
        run_experiment(options(tmp_path, "learning.distributed.workers=3"), out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_agent_from_a_file_stays_in_this_process(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("from hdrl.agents.a2c import A2C\n\n\nclass Mine(A2C):\n    pass\n")
    changes = (
        "learning.algorithm=null",
        f"agent.file={json.dumps(str(tmp_path / 'mine.py'))}",
        "learning.settings={}",
        "learning.distributed.scheme=sync",
    )
    with pytest.raises(OptionsError, match=r"mine.py: other processes do not know its class, expected --on local$"):
        run_experiment(options(tmp_path, *changes), out=tmp_path / "out", on="ray")
