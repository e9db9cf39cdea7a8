"""hdrl clean deletes runs, and nothing else, however hard one tries."""

import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import hdrl.experiment.run.clean as cleaning
from hdrl.base.errors import OutputError
from hdrl.experiment import run_experiment
from hdrl.experiment.locks import FolderLock
from hdrl.experiment.run.inputs import read_options
from hdrl.experiment.run.manifest import write_manifest
from hdrl.launcher.main import cli

FILES = {
    "manifest.json",
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
    assert result.output == f"{run}: the folder and its 9 files deleted\n"
    assert names(run.parent) == inputs - {"results"}


def test_a_dry_run_deletes_nothing(run):
    assert clean(run, "--dry-run").output == f"{run}: the folder and its 9 files would be deleted\n"
    assert names(run) == FILES


def test_a_soft_clean_leaves_what_repeats_the_run(run):
    said = clean(run, "--soft").output
    assert said.splitlines()[0] == f"{run}: 6 files deleted"
    assert names(run) == {"manifest.json", "options.resolved.json", "provenance.json"}
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
    assert "  notes.txt stays: not made by hdrl" in said


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


@pytest.mark.parametrize("name", ["out_jobs.csv", "metrics.json", "options.resolved.json"])
def test_files_that_were_changed_stay(run, name):
    (run / name).write_text("mine")
    assert f"{name} stays: changed since it was made" in clean(run).output
    assert names(run) == {name}


@pytest.mark.parametrize("name", ["losses.log", "model.pt", "platform.xml", "batsim.log"])
def test_names_that_other_runs_have_are_somebody_elses(run, name):
    (run / name).write_text("mine")
    assert f"{name} stays: not made by hdrl" in clean(run).output
    assert names(run) == {name}


def test_results_of_every_setting_go(tmp_path):
    options = tmp_path / "options.json"
    setting = Path(__file__).parents[1] / "settings" / "mmc.py"
    options.write_text(json.dumps({"setting": str(setting), "platform": "servers:2", "workload": "poisson:0.5"}))
    run_experiment(read_options(options, overrides=["nb_jobs=9", "agent.policy=fcfs"]), out=tmp_path / "out")
    assert "tasks.csv" in names(tmp_path / "out")
    assert clean(tmp_path / "out").exit_code == 0
    assert names(tmp_path) == {"options.json"}


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
    for name, text in TRAINED.items():
        (run / name).write_text(text)
    (run / "tensorboard").mkdir()
    (run / "tensorboard" / "events.out.tfevents.1.host").write_text("x")
    (run / "tensorboard" / "events.out.tfevents.2.host").write_text("x")
    write_manifest(run, {*FILES, *TRAINED})
    return run


def test_a_training_goes_altogether(trained):
    assert "the folder and its 21 files deleted" in clean(trained).output
    assert not trained.exists()


@pytest.mark.skipif(os.name != "posix", reason="needs locks on folders")
@pytest.mark.parametrize("options", [[], ["--soft"], ["--dry-run"]])
def test_a_training_that_goes_on_is_left_alone(trained, options):
    lock, before = FolderLock(trained), names(trained)
    lock.take()
    answer = clean(trained, *options)
    lock.release()
    assert answer.exit_code == 2
    assert f"{trained}: another process trains in this folder; wait for it, or stop it" in answer.output
    assert names(trained) == before


def test_a_soft_clean_of_a_training_leaves_the_model(trained):
    said = clean(trained, "--soft").output
    assert names(trained) == {"manifest.json", "options.resolved.json", "provenance.json", "resume.json", "model.pt"}
    assert "model.pt stays: takes a training to make again" in said


def test_what_came_into_a_training_stays(trained):
    (trained / "notes.txt").write_text("mine")
    write_manifest(trained, {*FILES, *TRAINED}, is_final=False)
    assert "notes.txt stays: not made by hdrl" in clean(trained).output
    assert names(trained) == {"notes.txt"}


def test_folders_of_events_with_something_else_stay(trained):
    (trained / "tensorboard" / "notes").write_text("mine")
    assert "tensorboard stays: not made by hdrl" in clean(trained).output
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
        (lambda run: (run / "manifest.json").unlink(), "is not a folder of results of hdrl: it has no manifest.json"),
        (lambda run: (run / "manifest.json").write_text("{}"), "is not a manifest of results (hdrl is missing"),
        (lambda run: (run / "manifest.json").write_text("[" * 9999), "is nested too deeply"),
        (lambda run: (run / "manifest.json").write_text('{"hdrl": "1", "files": ["out_jobs.csv"]}'), "files is a list"),
    ],
)
def test_what_is_no_folder_of_results_is_refused(run, change, problem):
    change(run)
    before = names(run)
    assert problem in refused(run)
    assert names(run) == before


def test_a_manifest_that_is_a_link_marks_nothing(run, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(run / "out_jobs.csv", other)
    (other / "manifest.json").symlink_to(run / "manifest.json")
    assert "it has no manifest.json" in refused(other)
    assert names(other) == {"out_jobs.csv", "manifest.json"}


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
    assert "is not a folder of results of hdrl" in refused(run, tmp_path / "empty")
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
    assert "is not a folder of results of hdrl" in refused(folder), "something else is in it: name the runs"
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
