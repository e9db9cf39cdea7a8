"""A training by several workers, from options to its folder."""

import json
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch (the extra learn)")

from hdrl.errors import HdrlError, OptionsError
from hdrl.experiment import resumed_options, run_experiment
from hdrl.experiment.run.inputs import read_options
from hdrl.experiment.train.world import TrainingEnvs, World

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


SETS = ('load={"sets": 2, "utilizations": [0.6, 0.8], "horizon_ms": 2000}', "learning.episodes.train=[0.0,1.0]")


def worlds_of(given, n: int) -> list:
    """Return the environments of n workers who have the configurations among themselves."""
    make_envs = TrainingEnvs(World(given), given)
    return [make_envs(1, share=(number, n)) for number in range(n)]


def test_each_worker_has_configurations_of_its_own(tmp_path: Path) -> None:
    given = options(tmp_path, *SETS, "learning.episodes.n_jobs=8")
    load = World(given).load
    assert len(load.first_items) == 4
    bounds = [*load.first_items, load.n_items]
    for n in (4, 2, 3):
        cuts = [bounds[4 * number // n] for number in range(n + 1)]
        seen = []
        for envs in worlds_of(given, n):
            envs.reset(seed=0)
            for _ in range(40):
                envs.reset()
                seen.append(envs.window(0))
            mine = seen[-40:]
            number = len(seen) // 40 - 1
            assert {cuts[number] <= one.start <= cuts[number + 1] - 8 for one in mine} == {True}
    whole = options(tmp_path, *SETS)  # episodes hold all that a worker has
    for number, envs in enumerate(worlds_of(whole, 4)):
        envs.reset(seed=0)
        assert (envs.window(0).start, envs.window(0).n_jobs) == (bounds[number], bounds[number + 1] - bounds[number])


@pytest.mark.parametrize("scheme", ["sync", "sync_backup", "apex"])
def test_the_allotment_changes_what_is_learned(scheme: str, tmp_path: Path) -> None:
    changes = [*SETS, f"learning.distributed.scheme={scheme}", "learning.episodes.n_jobs=8", "learning.iterations=1"]
    changes += ["learning.distributed.backup=1"] if scheme == "sync_backup" else []
    models = set()
    for number, allotment in enumerate(["simulations", "configurations", "configurations"]):
        given = options(tmp_path, *changes, f"learning.distributed.allotment={allotment}")
        run_experiment(given, out=tmp_path / str(number))
        models.add((tmp_path / str(number) / "model.pt").read_bytes())
    assert len(models) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ((), r"'configurations', but there is 1 of generated-0.5-0 to train on for 2 workers, expected at least"),
        (
            (*SETS, "learning.n_envs=8", "learning.distributed.workers=8"),
            r"there are 4 of generated-0.6/0.8-0..1 to train on for 8 workers, .* or allotment 'simulations'$",
        ),
        (
            (*SETS, "learning.episodes.n_jobs=60"),
            r"those of worker 0 hold \d+ jobs, expected at least learning.episodes.n_jobs = 60$",
        ),
        ((*SETS, "learning.episodes.n_jobs=8", "learning.episodes.start=9"), r"start is 9, a place in one config"),
        (("learning.distributed.allotment=configuration",), r"allotment is 'configuration'; did you mean 'configurati"),
    ],
)
def test_configurations_that_cannot_be_shared(changes: tuple[str, ...], message: str, tmp_path: Path) -> None:
    with pytest.raises(HdrlError, match=message):
        run_experiment(
            options(tmp_path, "learning.distributed.allotment=configurations", *changes), out=tmp_path / "out"
        )
    assert not (tmp_path / "out").exists()


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
