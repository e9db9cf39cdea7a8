"""hdrl clean deletes runs, and nothing else, however hard one tries."""

import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import hdrl.experiment.run.clean as cleaning
from hdrl.errors import OutputError
from hdrl.experiment import run_experiment
from hdrl.experiment.run.inputs import read_options
from hdrl.launcher.main import cli

FILES = {
    "metrics.json",
    "options.resolved.json",
    "out_jobs.csv",
    "out_machine_states.csv",
    "out_schedule.csv",
    "overutilizations.json",
    "provenance.json",
    "timing.json",
}


def clean(*words: object) -> Result:
    return CliRunner().invoke(cli, ["clean", *map(str, words)], prog_name="hdrl")


def refused(*words: object) -> str:
    result = clean(*words)
    assert result.exit_code == 2, result.output
    assert len(result.output.splitlines()) == 1
    return result.output.strip()


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def run(small_world: Path, stand_in) -> Path:
    """Return the folder of a run."""
    folder = small_world.parent / "results"
    run_experiment(read_options(small_world), out=folder)
    assert names(folder) == FILES
    return folder


def test_a_run_goes_altogether(run):
    inputs = names(run.parent)
    result = clean(run)
    assert result.exit_code == 0, result.output
    assert result.output == f"{run}: the folder and its 8 files deleted\n"
    assert names(run.parent) == inputs - {"results"}


def test_a_dry_run_deletes_nothing(run):
    assert clean(run, "--dry-run").output == f"{run}: the folder and its 8 files would be deleted\n"
    assert names(run) == FILES


def test_a_soft_clean_leaves_what_repeats_the_run(run):
    said = clean(run, "--soft").output
    assert said.splitlines()[0] == f"{run}: 6 files deleted"
    assert names(run) == {"options.resolved.json", "provenance.json"}
    assert clean(run).exit_code == 0
    assert not run.exists()


def test_files_of_others_stay(run):
    (run / "notes.txt").write_text("mine")
    (run / "gantt.png").write_text("mine")
    (run / "out_jobs.csv.bak").write_text("mine")
    (run / "plots").mkdir()
    (run / "plots" / "out_jobs.csv").write_text("mine")
    said = clean(run).output
    assert names(run) == {"notes.txt", "gantt.png", "out_jobs.csv.bak", "plots"}
    assert (run / "plots" / "out_jobs.csv").exists()
    assert "  notes.txt stays: not made by the run" in said


def test_links_are_neither_followed_nor_deleted(run, tmp_path):
    precious = tmp_path / "precious.csv"
    shutil.copy(run / "out_jobs.csv", precious)
    (run / "out_jobs.csv").unlink()
    (run / "out_jobs.csv").symlink_to(precious)
    (run / "losses.log").symlink_to(tmp_path / "nowhere")
    said = clean(run).output
    assert precious.is_file()
    assert names(run) == {"out_jobs.csv", "losses.log"}
    assert "out_jobs.csv stays: no regular file" in said


def test_folders_with_the_names_of_files_stay(run):
    (run / "out_jobs.csv").unlink()
    (run / "out_jobs.csv").mkdir()
    (run / "out_jobs.csv" / "x").write_text("mine")
    assert clean(run).exit_code == 0
    assert (run / "out_jobs.csv" / "x").read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("out_jobs.csv", "job,cores\n1,2\n"),
        ("out_schedule.csv", "my notes"),
        ("metrics.json", '{"grade": 5}'),
        ("metrics.json", "[1, 2]"),
        ("timing.json", "{}"),
        ("overutilizations.json", "{}"),
        ("losses.log", "1.0\n"),
        ("model.pt", "PK"),
        ("platform.xml", "<?xml version='1.0'?><platform/>"),
        ("workload.json", '{"nb_res": 4, "jobs": [], "profiles": {}}'),
        ("batsim.log", "mine"),
    ],
)
def test_look_alikes_stay(run, name, text):
    """A file that has only the name of one of ours; and what this simulator never writes, here inputs of somebody."""
    (run / name).write_text(text)
    assert clean(run).exit_code == 0
    assert (run / name).read_text() == text
    assert names(run) == {name}


def test_options_that_were_changed_stay(run):
    path = run / "options.resolved.json"
    options = json.loads(path.read_text()) | {"seed": 99}
    path.write_text(json.dumps(options))
    assert "options.resolved.json stays: changed since the run" in clean(run).output
    assert names(run) == {"options.resolved.json"}


def change_options(run: Path, **changes: object) -> None:
    """Make the run one with other options: the provenance vouches for them."""
    import hashlib

    options = json.loads((run / "options.resolved.json").read_text())
    for key, value in changes.items():
        if key == "agent_type":
            options["pybatsim"]["agent"]["type"] = value
        else:
            options[key] = value
    (run / "options.resolved.json").write_text(json.dumps(options))
    provenance = json.loads((run / "provenance.json").read_text())
    text = json.dumps(options, sort_keys=True, separators=(",", ":"))
    provenance["options"]["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    (run / "provenance.json").write_text(json.dumps(provenance))


def test_files_of_batsim_go_where_it_ran(run):
    change_options(run, simulator="batsim")
    (run / "platform.xml").write_text("<?xml version='1.0'?>\n<platform/>")
    (run / "workload.json").write_text('{"nb_res": 4}')
    (run / "workload_w1.json").write_text('{"nb_res": 4}')
    (run / "batsim.log").write_text("x")
    (run / "platform.json").write_text("mine")
    (run / "model.pt").write_text("PK")
    assert clean(run).exit_code == 0
    assert names(run) == {"platform.json", "model.pt"}


TRAINED = {
    "losses.log": "1.5\n-2\n",
    "rewards.log": "",
    "makespans.log": "4\n",
    "probs.json": '{"probs": [[1]]}',
    "training.csv": "iteration,loss\n1,\n2,0.5\n",
    "episodes.csv": "episode,return\n",
    "resume.json": '{"where": "", "folder": "", "options": {}}',
    "checkpoint.pt": "PK",
    "best.pt": "PK",
    "model.pt": "PK",
}


@pytest.fixture
def trained(run) -> Path:
    """Return the folder of a training."""
    change_options(run, agent_type="LEARNING")
    for name, text in TRAINED.items():
        (run / name).write_text(text)
    (run / "tensorboard").mkdir()
    (run / "tensorboard" / "events.out.tfevents.1.host").write_text("x")
    (run / "tensorboard" / "events.out.tfevents.2.host").write_text("x")
    return run


def test_a_training_goes_altogether(trained):
    assert "the folder and its 20 files deleted" in clean(trained).output
    assert not trained.exists()


def test_a_soft_clean_of_a_training_leaves_the_model(trained):
    said = clean(trained, "--soft").output
    assert names(trained) == {"options.resolved.json", "provenance.json", "model.pt"}
    assert "model.pt stays: takes a training to make again" in said


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("model.pt", "not torch's"),
        ("losses.log", "error: disk full\n"),
        ("training.csv", "day,distance\nmonday,4\n"),
        ("episodes.csv", "a,b\n1\n"),
        ("probs.json", "[]"),
        ("resume.json", '{"cv": 1}'),
    ],
)
def test_look_alikes_in_a_training_stay(trained, name, text):
    (trained / name).write_text(text)
    clean(trained)
    assert names(trained) == {name}


def test_folders_of_events_with_something_else_stay(trained):
    (trained / "tensorboard" / "notes").write_text("mine")
    assert "tensorboard stays: not made by the run" in clean(trained).output
    assert len(names(trained / "tensorboard")) == 3


def test_a_folder_of_events_that_is_a_link_stays(trained, tmp_path):
    (trained / "tensorboard").rename(tmp_path / "elsewhere")
    (trained / "tensorboard").symlink_to(tmp_path / "elsewhere")
    clean(trained)
    assert len(names(tmp_path / "elsewhere")) == 2
    assert names(trained) == {"tensorboard"}


def test_a_folder_of_events_that_becomes_a_link_stays(trained, tmp_path):
    plans = cleaning.clean_plans([trained])
    (trained / "tensorboard").rename(tmp_path / "elsewhere")
    (trained / "tensorboard").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutputError, match="cannot be cleaned"):
        cleaning.clean_runs(plans)
    assert len(names(tmp_path / "elsewhere")) == 2


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda run: (run / "provenance.json").unlink(), "is no run of hdrl: it has no provenance.json"),
        (lambda run: (run / "provenance.json").write_text("{}"), "is not the provenance of a run of hdrl"),
        (lambda run: (run / "provenance.json").write_text("[" * 9999), "is not the provenance of a run of hdrl"),
        (
            lambda run: (run / "provenance.json").write_text('{"versions": {"hdrl": "1"}, "options": {"sha256": "x"}}'),
            "is not the provenance of a run of hdrl",
        ),
    ],
)
def test_what_is_no_run_is_refused(run, change, problem):
    change(run)
    before = names(run)
    assert problem in refused(run)
    assert names(run) == before


def test_a_provenance_that_is_a_link_marks_nothing(run, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(run / "out_jobs.csv", other)
    (other / "provenance.json").symlink_to(run / "provenance.json")
    assert "its provenance.json is no regular file" in refused(other)
    assert names(other) == {"out_jobs.csv", "provenance.json"}


def test_places_that_are_never_cleaned(run, tmp_path, monkeypatch):
    link = tmp_path / "link"
    link.symlink_to(run)
    assert "is a link, expected the folder itself" in refused(link)
    monkeypatch.setenv("HOME", str(run))
    assert "is the current folder, the home folder or one above them" in refused(run)
    monkeypatch.setenv("HOME", str(tmp_path))
    (run / "below").mkdir()
    for here in (run, run / "below"):
        monkeypatch.chdir(here)
        for spelling in (run, ".", here / "..", os.path.relpath(run)):
            assert refused(spelling)
    assert names(run) == FILES | {"below"}
    assert "no such folder" in refused(tmp_path / "nowhere")
    assert "is a file" in refused(run / "out_jobs.csv")
    assert "Missing argument" in refused()


def test_all_or_nothing(run, tmp_path):
    """If one of several folders is wrong, nothing is deleted."""
    (tmp_path / "empty").mkdir()
    assert "is no run of hdrl" in refused(run, tmp_path / "empty")
    assert names(run) == FILES


def test_an_experiment_of_several_runs(small_world, stand_in):
    folder = small_world.parent / "many"
    run_experiment(read_options(small_world, overrides=["runs=2"]), out=folder)
    assert names(folder) == {"run_0", "run_1"}
    (folder / "run_1" / "mine").write_text("x")
    assert clean(folder).exit_code == 0
    assert names(folder) == {"run_1"}
    (folder / "run_1" / "mine").unlink()
    (folder / "run_1").rmdir()
    folder.rmdir()
    run_experiment(read_options(small_world, overrides=["runs=2"]), out=folder)
    (folder / "mine").write_text("x")
    assert "is no run of hdrl" in refused(folder), "something else is in it: name the runs"
    (folder / "mine").unlink()
    assert clean(folder).exit_code == 0
    assert not folder.exists()


def test_the_folder_above_stays_where_a_run_was_named(small_world, stand_in):
    folder = small_world.parent / "mine"
    run_experiment(read_options(small_world), out=folder / "run_0")
    assert clean(folder / "run_0").exit_code == 0
    assert folder.is_dir()


def test_what_changes_between_looking_and_deleting(run, tmp_path):
    """A file that becomes a link, and a folder that is replaced by a link, are left alone."""
    (plan,) = cleaning.clean_plans([run])
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (run / "out_jobs.csv").unlink()
    (run / "out_jobs.csv").symlink_to(precious)
    cleaning.clean_runs([plan])
    assert precious.read_text() == "mine"
    assert names(run) == {"out_jobs.csv"}

    other = tmp_path / "other"
    other.mkdir()
    for name in plan.files:
        (other / name).write_text("mine")
    shutil.rmtree(run)
    run.symlink_to(other)
    with pytest.raises(OutputError, match="cannot be cleaned"):
        cleaning.clean_runs([plan])
    assert len(names(other)) == len(plan.files)


def test_a_file_that_is_gone_meanwhile_is_told(run):
    (plan,) = cleaning.clean_plans([run])
    (run / "out_jobs.csv").unlink()
    with pytest.raises(OutputError, match=r"changed meanwhile \(out_jobs.csv is gone\)"):
        cleaning.clean_runs([plan])
    assert "provenance.json" in names(run), "the mark goes last, so that it can be done again"
    assert clean(run).exit_code == 0
