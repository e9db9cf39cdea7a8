"""Run folders: complete or absent, the same bytes again, with what is needed to repeat them."""

import errno
import fcntl
import json
import os
import shutil
import stat
import sys
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from hdrl.base.errors import OptionsError, OutputError, ReadError, WorkloadError
from hdrl.base.files import output_errors
from hdrl.experiment import Progress, default_folder, resolve_options, run_experiment
from hdrl.experiment.run import folder as folder_module
from hdrl.experiment.run.clean import clean_plans
from hdrl.experiment.run.folder import new_folder
from hdrl.experiment.run.inputs import read_options
from hdrl.experiment.run.results import strip_folders
from hdrl.settings.batch.inputs import platform_of, workload_of
from hdrl.settings.batch.options import Options
from hdrl.settings.batch.workload.read import shipped_workloads

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


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "timing.json"
    }


def test_a_run_folder_is_complete(small_world: Path, stand_in, tmp_path: Path):
    result = run_experiment(read_options(small_world), out=tmp_path / "out")
    assert {path.name for path in result.folder.iterdir()} == FILES
    (run,) = result.runs
    assert (run.policy, run.n_jobs, run.seed, run.folder) == ("first-high_gflops", 3, 7, tmp_path / "out")
    # The stand-in starts the jobs at 6, 16 and 26 s; they were submitted at 0, 5 and 6 s.
    assert result.metrics["mean_wait_s"] == pytest.approx((6 + 11 + 20) / 3)
    written = json.loads((result.folder / "metrics.json").read_text())
    assert written["mean_wait_s"] == result.metrics["mean_wait_s"]
    assert written["energy_j"] is None, "no energy was measured, which JSON cannot say with NaN"


def test_files_that_options_ask_for_are_written_too(small_world: Path, stand_in, tmp_path: Path):
    extra = {"out_schedule.trace", "platform.xml", "workload.json"}
    options = read_options(small_world, overrides=[f"also_write={json.dumps(sorted(extra))}"])
    result = run_experiment(options, out=tmp_path / "out")
    assert {path.name for path in result.folder.iterdir()} == FILES | extra
    again = read_options(small_world, overrides=[f"platform_file_path={result.folder / 'platform.xml'}"])
    assert platform_of(again).n_cores == platform_of(options).n_cores
    (plan,) = clean_plans([result.folder], soft=True)
    assert {"platform.xml", "workload.json", "options.resolved.json"} <= plan.kept.keys()
    assert "out_schedule.trace" in plan.files


def test_files_of_decisions_that_nobody_makes_are_told(small_world: Path, stand_in, tmp_path: Path):
    told: list[str] = []
    options = read_options(small_world, overrides=['also_write=["actions.log", "log_probs.log", "platform.xml"]'])
    result = run_experiment(options, out=tmp_path / "out", progress=Progress(told.append, lambda *_: None))
    assert "no actions.log and no log_probs.log (also_write): first-high_gflops is not an agent with actions" in told
    assert {path.name for path in result.folder.iterdir()} == FILES | {"platform.xml"}


def test_insights_tell_what_happened(small_world: Path, stand_in, tmp_path: Path):
    run_experiment(read_options(small_world, overrides=["pybatsim.log_level=INFO"]), out=tmp_path / "out")
    lines = (tmp_path / "out" / "insights.log").read_text().splitlines()
    assert [line.split(": ")[1].split(" on ")[0] for line in lines[:2]] == ["job 0 started", "job 0 ended"]
    assert not [line for line in lines if "arrived" in line], "arrivals are told at DEBUG"
    assert "insights.log" in json.loads((tmp_path / "out" / "manifest.json").read_text())["files"]


def test_the_simulator_gets_what_the_options_say(small_world: Path, stand_in, tmp_path: Path):
    options = read_options(small_world, overrides=["energy=false", "seed=3"])
    run_experiment(options, out=tmp_path / "out")
    (call,) = stand_in.calls
    assert call == {
        "policy": "first-high_gflops",
        "seed": 3,
        "energy": False,
        "compatibility": None,
        "progress": None,
    }


def test_equal_runs_give_equal_bytes(small_world: Path, stand_in, tmp_path: Path):
    first = run_experiment(read_options(small_world), out=tmp_path / "a")
    second = run_experiment(read_options(small_world), out=tmp_path / "deeper" / "b")
    assert contents(first.folder) == contents(second.folder)
    assert str(tmp_path).encode() not in b"".join(contents(first.folder).values())


def test_resolved_options_repeat_the_run(small_world: Path, stand_in, tmp_path: Path):
    first = run_experiment(read_options(small_world), out=tmp_path / "a")
    copied = small_world.with_name("again.json")
    copied.write_bytes((first.folder / "options.resolved.json").read_bytes())
    second = run_experiment(read_options(copied), out=tmp_path / "b")
    assert contents(first.folder) == contents(second.folder)


@pytest.mark.parametrize(
    "overrides",
    [
        ["pybatsim.agent.policy_pair=shortest-high_flops"],
        ["pybatsim.agent.policy_pair=null", 'pybatsim.env.actions.selection=[{"shortest": ["high_gflops"]}]'],
        ["pybatsim.agent.policy_pair=shortest-high_gflops", "pybatsim.seed=3", "pybatsim.agent.type=CLASSIC"],
    ],
)
def test_what_options_imply_is_made_explicit(small_world: Path, overrides: list[str]):
    options = resolve_options(read_options(small_world, overrides=overrides))
    assert options.pybatsim.agent.policy_pair == "shortest-high_gflops"
    assert options.pybatsim.agent.type == "CLASSIC"
    assert options.pybatsim.seed is None
    assert resolve_options(options) == options
    assert options.folder == small_world.parent


def test_provenance_says_what_was_run(small_world: Path, stand_in, tmp_path: Path):
    options = read_options(small_world)
    result = run_experiment(options, out=tmp_path / "out")
    told = json.loads((result.folder / "provenance.json").read_text())
    assert set(told["versions"]) == {"hdrl", "python", "numpy", "numba"}
    assert told["versions"]["numpy"] == np.__version__
    assert told["options"]["sha256"] == resolve_options(options).sha256()
    assert told["platform"]["sha256"] == platform_of(options).sha256()
    assert told["agent"] == {"name": "classic", "policy": "first-high_gflops", "sha256": None}


def test_wall_clock_times_have_a_file_of_their_own(small_world: Path, stand_in, tmp_path: Path):
    result = run_experiment(read_options(small_world), out=tmp_path / "out")
    timing = json.loads((result.folder / "timing.json").read_text())
    assert timing["scheduling_time_s"] == 0.1
    assert set(timing) >= {"read_s", "compile_s", "simulate_s", "write_s"}


def test_several_runs_have_seeds_of_their_own(small_world: Path, stand_in, tmp_path: Path):
    result = run_experiment(read_options(small_world, overrides=["runs=3"]), out=tmp_path / "out")
    assert [run.folder.name for run in result.runs] == ["run_0", "run_1", "run_2"]
    seeds = [run.seed for run in result.runs]
    assert len(set(seeds)) == 3
    assert [call["seed"] for call in stand_in.calls] == seeds
    more = read_options(small_world, overrides=["runs=5"]).run_seeds
    assert more[:3] == seeds, "more runs do not change the first ones"
    # Each of them can be had alone.
    alone = run_experiment(read_options(small_world, overrides=[f"seed={seeds[1]}"]), out=tmp_path / "alone")
    assert contents(alone.folder) == contents(result.runs[1].folder)


def test_runs_of_the_compatibility_mode_share_their_seed(small_world: Path):
    options = read_options(small_world, overrides=["runs=2", "compatibility=hdeeprm-0.3.1", "workload.memory=log"])
    assert options.run_seeds == [7, 7]


def test_metrics_of_several_runs_are_means(small_world: Path, stand_in, tmp_path: Path):
    result = run_experiment(read_options(small_world, overrides=["runs=2"]), out=tmp_path / "out")
    assert result.metrics["n_jobs"] == 3
    assert result.metrics["mean_wait_s"] == pytest.approx(np.mean([run.metrics["mean_wait_s"] for run in result.runs]))


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, OptionsError])
def test_nothing_half_written_stays(small_world: Path, stand_in, tmp_path: Path, error: type[BaseException]):
    def fail(call: int) -> None:
        raise error

    stand_in.during = fail
    before = sorted(tmp_path.iterdir())
    with pytest.raises(error):
        run_experiment(read_options(small_world), out=tmp_path / "out")
    assert sorted(tmp_path.iterdir()) == before


def test_finished_runs_stay(small_world: Path, stand_in, tmp_path: Path):
    def interrupt(call: int) -> None:
        if call == 2:
            raise KeyboardInterrupt

    stand_in.during = interrupt
    with pytest.raises(KeyboardInterrupt):
        run_experiment(read_options(small_world, overrides=["runs=3"]), out=tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["run_0"]
    assert {path.name for path in (tmp_path / "out" / "run_0").iterdir()} == FILES


def test_nothing_is_overwritten(small_world: Path, stand_in, tmp_path: Path):
    kept = tmp_path / "out" / "precious.txt"
    kept.parent.mkdir()
    kept.write_text("mine")
    with pytest.raises(OutputError, match="is not empty, expected a new folder"):
        run_experiment(read_options(small_world), out=kept.parent)
    with pytest.raises(OutputError, match="is a file, expected a new folder"):
        run_experiment(read_options(small_world), out=kept)
    assert kept.read_text() == "mine"
    assert not stand_in.calls, "the folder is checked before the work"


def test_an_empty_folder_is_used(small_world: Path, stand_in, tmp_path: Path):
    (tmp_path / "out").mkdir()
    assert run_experiment(read_options(small_world), out=tmp_path / "out").runs


def test_a_folder_that_was_filled_meanwhile_is_left_alone(tmp_path: Path):
    def fill() -> None:
        with new_folder(tmp_path / "out") as folder:
            (folder / "a").write_text("a")
            (tmp_path / "out").mkdir()
            (tmp_path / "out" / "b").write_text("b")

    with pytest.raises(OutputError, match="is not empty"):
        fill()
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "b"]


def test_folders_have_usual_permissions(tmp_path: Path):
    (tmp_path / "plain").mkdir()
    with new_folder(tmp_path / "out"):
        pass
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


def test_a_full_disk_names_the_folder_of_the_user(tmp_path: Path):
    with pytest.raises(OutputError) as raised, new_folder(tmp_path / "out") as filled, output_errors(filled / "a.csv"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert str(raised.value) == f"{tmp_path / 'out' / 'a.csv'}: cannot be written (No space left on device)"
    assert list(tmp_path.iterdir()) == []


def test_a_place_below_a_file_is_refused(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="file: is a file, expected a folder"), new_folder(tmp_path / "file" / "out"):
        pass


def test_progress_is_told(small_world: Path, stand_in, tmp_path: Path):
    said: list[str] = []
    counted: list[tuple[int, int]] = []
    run_experiment(
        read_options(small_world, overrides=["runs=2"]),
        out=tmp_path / "out",
        progress=Progress(said.append, lambda done, total: counted.append((done, total))),
    )
    told = [text for text in said if text.startswith("simulating")]
    assert len(told) == 2
    assert all(text.startswith("simulating 3 jobs on 4 cores of learning, offered load ") for text in told), told
    assert counted == [(3, 3), (3, 3)]


@pytest.mark.parametrize(("n_jobs", "warnings"), [(3, []), (4, ["nb_jobs is 4, but the workload has 3 usable jobs"])])
def test_a_workload_with_too_few_jobs_is_told(
    small_world: Path, stand_in, tmp_path: Path, n_jobs: int, warnings: list[str]
):
    said: list[str] = []
    options = read_options(small_world, overrides=[f"nb_jobs={n_jobs}"])
    run_experiment(options, out=tmp_path / "out", progress=Progress(said.append, lambda done, total: None))
    assert [text for text in said if text.startswith("nb_jobs")] == warnings


def test_a_custom_workload_is_taken_as_it_is_and_told(small_world: Path):
    options = read_options(small_world, overrides=["nb_jobs=1", "workload.custom=jobs.json"])
    assert options.unmet(2) == "nb_jobs is 1, but a custom workload is taken as it is: 2 jobs"
    assert options.unmet(1) is None


@pytest.mark.parametrize(
    ("overrides", "error", "message"),
    [
        (["nb_resources=5"], OptionsError, "nb_resources is 5, but platform 'learning' has 4 cores"),
        (["platform_file_path=learnin"], ReadError, "did you mean 'learning'?"),
        (["workload_file_path=none.swf"], ReadError, "no such file"),
        (["workload_file_path=nothing"], OptionsError, "no shipped workload of that name"),
        (["workload.run_time=trce"], OptionsError, "workload: no run-time model 'trce'; did you mean 'trace'?"),
        (["workload.memory=logg"], OptionsError, "did you mean 'log'?"),
        (["pybatsim.agent.policy_pair=shortst-random"], OptionsError, "did you mean 'shortest-random'?"),
        (["pybatsim.agent.type=LEARNING"], OptionsError, "asks for a LEARNING agent, but names none"),
        (["pybatsim.agent.input_model=m.pt"], OptionsError, "a classic agent has no model"),
        (["pybatsim.agent.output_model=m.pt"], OptionsError, "a classic agent has no model"),
        (["pybatsim.agent.file=none.py"], ReadError, "none.py: no such file"),
    ],
)
def test_wrong_input_writes_nothing(
    small_world: Path, stand_in, tmp_path: Path, overrides: list[str], error: type[Exception], message: str
):
    before = sorted(tmp_path.iterdir())
    with pytest.raises(error) as caught:
        run_experiment(read_options(small_world, overrides=overrides), out=tmp_path / "out")
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert sorted(tmp_path.iterdir()) == before
    assert not stand_in.calls


def too_big(path: Path) -> Options:
    swf = path.with_name("jobs.swf")
    swf.write_text(swf.read_text() + "4 9 0 30 5 -1 -1 5 40 -1 1 1 1 1 1 -1 -1 -1\n")
    return read_options(path)


def test_jobs_that_can_never_run_are_refused_or_dropped(small_world: Path, stand_in, tmp_path: Path):
    options = too_big(small_world)
    with pytest.raises(WorkloadError, match="4"):
        run_experiment(options, out=tmp_path / "out")
    dropping = read_options(small_world, overrides=["workload.oversized=drop"])
    result = run_experiment(dropping, out=tmp_path / "out")
    assert (result.runs[0].n_jobs, result.runs[0].n_dropped) == (3, 1)


def test_the_custom_workload_comes_first(small_world: Path):
    custom = {
        "nb_res": 4,
        "jobs": [{"id": 1, "subtime": 0, "res": 2, "profile": "p"}],
        "profiles": {"p": {"type": "parallel_homogeneous", "com": 0, "req_time": 5, "mem": 10, "mem_bw": 4}},
    }
    small_world.with_name("own.json").write_text(json.dumps(custom))
    options = read_options(small_world, overrides=["workload.custom=own.json"])
    workload = workload_of(options, platform_of(options))
    assert workload.n_jobs == 1
    assert workload.jobs["requested_time_s"].tolist() == [5.0]


def test_shipped_workloads_are_found_by_name(small_world: Path):
    assert shipped_workloads()
    options = read_options(
        small_world, overrides=["platform_file_path=gaia", "workload_file_path=lublin_gaia_1000", "nb_jobs=10"]
    )
    assert workload_of(options, platform_of(options)).n_jobs == 10


def test_hashes_see_what_matters(small_world: Path):
    options = read_options(small_world)
    platform = platform_of(options)
    other = platform_of(read_options(small_world, overrides=["contention=none"]))
    assert platform.sha256() == platform_of(options).sha256()
    assert platform.sha256() != other.sha256()
    workload = workload_of(options, platform)
    fewer = workload_of(read_options(small_world, overrides=["nb_jobs=2"]), platform)
    assert workload.sha256() == workload_of(options, platform).sha256()
    assert workload.sha256() != fewer.sha256()


def test_places_are_forgotten():
    value = {"file": "/home/someone/jobs.swf", "n": np.int64(3), "list": ("a/b", Path("/x/y"))}
    assert strip_folders(value) == {"file": "jobs.swf", "n": 3, "list": ["a/b", "y"]}


def test_default_folder_names_time_and_options():
    assert default_folder("0123456789abcdef", datetime(2026, 1, 2, 3, 4, 5)) == Path("runs/20260102-030405-01234567")


def test_what_killed_runs_left_that_nobody_named_goes_with_the_next_one(tmp_path: Path) -> None:
    """Their names hold the time, so that no other run has the same one."""
    names = (".20260102-030405-01234567.a1b2c3d4", ".20260102-030405-paired-eval.a1b2c3d4", ".2-3-4.a1b2c3d4")
    for name in names:
        (tmp_path / name).mkdir()
    with new_folder(tmp_path / default_folder("f" * 64, datetime(2026, 1, 2, 3, 4, 6)).name) as running:
        assert not (tmp_path / names[0]).exists()
        with new_folder(tmp_path / default_folder("e" * 64, datetime(2026, 1, 2, 3, 4, 7)).name):
            assert running.is_dir()
    with new_folder(tmp_path / "named"):
        assert all((tmp_path / name).is_dir() for name in names[1:])


def test_what_a_killed_run_left_goes_with_the_next_one(tmp_path: Path) -> None:
    left = tmp_path / ".out.a1b2c3d4"
    other = tmp_path / ".other.a1b2c3d4"
    for folder in (left, other):
        folder.mkdir()
        (folder / "half").write_text("x")
    with new_folder(tmp_path / "out") as running:
        assert not left.exists()
        with new_folder(tmp_path / "out") as second:  # one that goes on is left alone
            assert running.is_dir()
            assert second != running
            (second / "done").write_text("x")
            (tmp_path / "out").mkdir(exist_ok=True)
            running_is_there = running.is_dir()
        assert running_is_there
        shutil.rmtree(tmp_path / "out")
    assert other.is_dir()


def test_a_signal_while_the_folder_is_made_is_heeded_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = Path.mkdir

    def make_and_be_stopped(path: Path, **given: Any) -> None:
        make(path, **given)
        if path.name.startswith(".out."):
            raise KeyboardInterrupt

    monkeypatch.setattr(Path, "mkdir", make_and_be_stopped)
    with pytest.raises(KeyboardInterrupt), new_folder(tmp_path / "out"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_signal_while_a_folder_is_made_leaves_nothing(tmp_path: Path) -> None:
    """Whichever line it comes before."""

    def made_with_a_signal_before(number: int) -> bool:
        left = number

        def trace(frame: FrameType, event: str, given: object) -> Any:
            nonlocal left
            if frame.f_code.co_filename != folder_module.__file__:
                return None
            if event == "line":
                left -= 1
                if left == 0:
                    raise KeyboardInterrupt
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            making = new_folder(tmp_path / "out")
            making.__enter__()
        except KeyboardInterrupt:
            return False
        finally:
            sys.settrace(before)
        making.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
        return True

    number = 1
    while not made_with_a_signal_before(number):
        assert list(tmp_path.iterdir()) == [], number
        number += 1
    assert number > 10


@pytest.mark.parametrize("is_over", [True, False])
def test_a_run_whose_folder_another_removes_before_it_is_locked_makes_one_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_over: bool
) -> None:
    """The other one takes it for what a killed run left; it has just removed it, or is about to."""
    make = Path.mkdir
    taken: dict[Path, int] = {}

    def make_and_be_taken_over(path: Path, **given: Any) -> None:
        make(path, **given)
        if path.name.startswith(".out.") and not taken:
            taken[path] = os.open(path, os.O_RDONLY)
            fcntl.flock(taken[path], fcntl.LOCK_EX)
            if is_over:
                shutil.rmtree(path)

    monkeypatch.setattr(Path, "mkdir", make_and_be_taken_over)
    with new_folder(tmp_path / "out") as running:
        (running / "done").write_text("x")
        assert taken
        for path, lock in taken.items():
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)
    assert (tmp_path / "out" / "done").read_text() == "x"
