"""A training by several workers, from options to its folder."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch (the extra learn)")

from hdrl.base.errors import HdrlError, LearningError, OptionsError
from hdrl.experiment import Progress, resumed_options, run_experiment
from hdrl.experiment.plan import plan_of, plans_of
from hdrl.experiment.run.inputs import read_options
from hdrl.experiment.train.modeluse import Model
from hdrl.experiment.train.run import TrainingRun
from hdrl.experiment.train.world import TrainingEnvs, TrainingWorld
from hdrl.learn.checkpoint import load_checkpoint, save_checkpoint
from hdrl.learn.library import Specialist, specialists_of, with_specialists
from hdrl.setting import find_setting

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
    make_envs = TrainingEnvs(TrainingWorld(plan_of(given)))
    return [make_envs(1, share=(number, n)) for number in range(n)]


def test_each_worker_has_configurations_of_its_own(tmp_path: Path) -> None:
    given = options(tmp_path, *SETS, "learning.episodes.n_jobs=8")
    load = plan_of(given).load
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
        ((*SETS, "learning.episodes.n_jobs=8", "learning.episodes.start=9"), r"start is 9, an index in one config"),
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
    with pytest.raises(OptionsError, match=r"mine.py: other processes cannot import its class, expected --on local$"):
        run_experiment(options(tmp_path, *changes), out=tmp_path / "out", on="ray")


RELIANT = (*SETS, "learning.distributed.scheme=sync", "learning.distributed.reliance=nearest", "learning.iterations=4")


def test_a_model_holds_an_agent_for_each_configuration_and_plays_it_where_it_is_in_force(tmp_path: Path) -> None:
    given = options(tmp_path, *RELIANT)
    run_experiment(given, out=tmp_path / "out")
    whole = TrainingWorld(plan_of(given))
    points = whole.configuration_coordinates()
    checkpoint = load_checkpoint(tmp_path / "out" / "model.pt")
    specialists = specialists_of(checkpoint.agent, "model.pt")
    assert [one.point for one in specialists] == points
    bounds = [*whole.load.first_items, whole.load.n_items]

    def played(specialists: list, number: int) -> list:
        """Play one configuration alone, whose number among the loads is not told."""
        save_checkpoint(
            tmp_path / "changed.pt", replace(checkpoint, agent=with_specialists(checkpoint.agent, specialists))
        )
        load = whole.load.window(bounds[number], bounds[number + 1] - bounds[number])
        model = Model(tmp_path / "changed.pt", setting=find_setting("pipelines"))
        return model.play(whole.machine, load).runs.tolist()

    def upside_down(one: Specialist) -> Specialist:
        return Specialist(one.point, {k: {n: -x for n, x in part.items()} for k, part in one.modules.items()})

    for number in range(4):
        others = [one if k == number else upside_down(one) for k, one in enumerate(specialists)]
        assert played(specialists, number) == played(others, number)
    assert any(played(specialists, n) != played([upside_down(one) for one in specialists], n) for n in range(4))
    # In one run through all of them each decides in its turn.
    tour = Model(tmp_path / "out" / "model.pt", setting=find_setting("pipelines")).play(whole.machine, whole.load)
    save_checkpoint(
        tmp_path / "last.pt", replace(checkpoint, agent=with_specialists(checkpoint.agent, specialists[-1:]))
    )
    last = Model(tmp_path / "last.pt", setting=find_setting("pipelines")).play(whole.machine, whole.load)
    from_last = whole.load.instances["release_us"][bounds[3]]
    runs = [one.runs[one.runs["start_us"] < from_last].tolist() for one in (tour, last)]
    assert runs[0] != runs[1]


def test_a_test_of_a_model_with_an_agent_for_each_configuration_plays_as_the_training_did(tmp_path: Path) -> None:
    run_experiment(options(tmp_path, *RELIANT), out=tmp_path / "out")
    test = options(
        tmp_path,
        *RELIANT,
        "agent.run=test",
        f"agent.input_model={json.dumps(str(tmp_path / 'out' / 'model.pt'))}",
    )
    run_experiment(test, out=tmp_path / "again")
    assert (tmp_path / "again" / "runs.csv").read_bytes() == (tmp_path / "out" / "runs.csv").read_bytes()
    # A training that begins with it begins with one of its agents.
    told: list[str] = []
    from_it = test.with_agent(run="train")
    TrainingRun(next(plans_of(from_it, tmp_path / "new")), progress=Progress(told.append, lambda *_: None))
    (line,) = [text for text in told if "model.pt holds" in text]
    assert line.endswith("for 4 configurations, each for itself: this training begins with what was learned last")


def test_an_interrupted_training_on_configurations_leaves_the_same_files(tmp_path: Path) -> None:
    own = "learning.distributed.allotment=configurations"
    run_experiment(options(tmp_path, *RELIANT, own, "learning.iterations=3"), out=tmp_path / "whole")
    run_experiment(options(tmp_path, *RELIANT, own, "learning.iterations=1"), out=tmp_path / "part")
    longer = resumed_options(tmp_path / "part", ["learning.iterations=3"])
    run_experiment(longer, out=tmp_path / "part", resumes=True)
    for name in ("model.pt", "training.csv", "metrics.json"):
        assert (tmp_path / "part" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ((), r"reliance is 'none', but there is one configuration to train on, expected at least 2, or reliance 'pool"),
        ((*SETS, "learning.episodes.n_jobs=50"), r"reliance is 'none', but configuration \d holds \d+ jobs, expected"),
        ((*SETS, "learning.validation_every=1"), r"validation_every chooses one agent, but .* expected null"),
        ((*SETS, "learning.distributed.visit_iterations=0"), r"visit_iterations is 0, expected"),
        ((*SETS, "learning.distributed.reliance=nearst"), r"'nearst'; did you mean 'nearest'"),
    ],
)
def test_configurations_that_cannot_have_agents_of_their_own(
    changes: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    base = ("learning.distributed.scheme=sync", "learning.distributed.reliance=none")
    with pytest.raises(HdrlError, match=message):
        run_experiment(options(tmp_path, *base, *changes), out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_damaged_library_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(LearningError, match=r"^m.pt: its configurations are damaged"):
        specialists_of({"configurations": [{"point": ["far"], "modules": {}}]}, "m.pt")


def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "distributed.md").read_text(encoding="utf-8")
    commands = [line.split()[1:] for line in re.findall(r"^\$ hdrl-launch .*$", text, re.MULTILINE)]
    here = [one for one in commands if "--on" not in one]
    assert len(here) >= 2
    path = tmp_path / "options.json"
    given = json.loads(re.findall(r"^```json\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[0])
    path.write_text(json.dumps({**given, "agent": {"type": "LEARNING"}, "learning": {**LEARNING, "n_envs": 1}}))
    for number, (_, algorithm, name, *rest) in enumerate(here):
        assert name == "options.json"
        assert rest[0::2] == ["--set"] * (len(rest) // 2)
        read = read_options(path, overrides=[f"learning.algorithm={algorithm}", *rest[1::2]])
        run_experiment(read, out=tmp_path / str(number))
        assert (tmp_path / str(number) / "model.pt").is_file()
