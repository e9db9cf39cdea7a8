"""The numbers behind pictures, held against what is counted by hand on a run of four jobs."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hdrl
from hdrl.base.errors import OptionsError, ReadError, UnknownName
from hdrl.figures.folders import distinct_names
from hdrl.figures.logs import LOSSES, REWARDS, action_probabilities, learning_log, training_table
from hdrl.settings.batch.report import data
from hdrl.settings.batch.report.groups import groups_of, with_labels
from hdrl.settings.batch.report.over_time import MAKESPANS
from hdrl.settings.batch.report.runs import read_run, read_runs, run_of_trace

from .four_jobs import write_run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_run(tmp_path / "small")


@pytest.fixture
def run(folder: Path) -> data.RunData:
    return read_run(folder)


def test_a_folder_is_read_with_its_facts(run):
    assert (run.name, run.policy, run.workload, run.platform) == ("small", "fcfs", "four", "small")
    assert (run.n_jobs, run.n_cores, run.n_hidden) == (4, 4, 0)
    assert run.span_s == (0.0, 40.0)
    assert run.has_ended.tolist() == [True, True, True, False]
    assert run.blocks.job.tolist() == [0, 1, 2]
    assert run.blocks.first_core.tolist() == [0, 0, 2]
    assert run.blocks.n_cores.tolist() == [2, 4, 1]


def test_a_folder_of_batsim_alone_is_a_run(folder):
    for path in folder.iterdir():
        if path.name != "out_jobs.csv":
            path.unlink()
    run = read_run(folder)
    assert (run.n_cores, run.policy, dict(run.metrics)) == (4, None, {})


def test_the_queue_by_hand(run):
    steps = data.queue_size(run)
    assert steps.edges_s.tolist() == [0, 5, 6, 10, 20, 40]
    assert steps.values.tolist() == [0, 1, 2, 1, 0]


def test_cores_in_use_by_hand(run):
    steps = data.busy_cores(run)
    assert steps.edges_s.tolist() == [0, 10, 20, 40]
    assert steps.values.tolist() == [2, 4, 1]
    assert data.utilization(run).mean == (20 + 40 + 20) / (4 * 40)


def test_power_by_hand(run):
    steps = data.power(run)
    assert steps.edges_s.tolist() == [0, 10, 20, 40]
    assert steps.values.tolist() == [10, 20, 5]


def test_rows_of_energy_that_are_too_close_are_one(folder):
    lines = ["time,energy,event_type,wattmin,epower", "0,0,s,1,NA", "0.000001,0.01,p,1,NA", "10,100,e,1,NA"]
    (folder / "out_consumed_energy.csv").write_text("\n".join([*lines, "10.0000001,100.0,e,1,NA"]) + "\n")
    assert data.power(read_run(folder)).values.tolist() == [pytest.approx(10)]


def test_values_per_job_by_hand(run):
    assert data.job_values(run, "wait_s").tolist() == [0, 5, 14]
    assert data.job_values(run, "turnaround_s").tolist() == [10, 15, 34]
    assert data.job_values(run).tolist() == [1, 1.5, 1.7]
    assert data.job_values(run, "energy_j").tolist() == [40, 80, 10]
    with pytest.raises(UnknownName, match="did you mean 'wait_s'"):
        data.job_values(run, "waits_s")


def test_the_distribution_counts_equal_values_once():
    values, share = data.cumulative_distribution(np.array([2.0, 1.0, np.nan, 2.0, 4.0]))
    assert values.tolist() == [1, 2, 4]
    assert share.tolist() == [0.25, 0.75, 1]
    assert [len(part) for part in data.cumulative_distribution(np.zeros(0))] == [0, 0]


def test_over_committed_spans(run):
    assert [part.tolist() for part in data.over_committed_spans(run)] == [[1], [10], [20]]
    assert data.n_processors(run) == 2


def test_an_open_span_ends_with_the_run(folder):
    spans = {"nb_procs": 2, "procs": {"0": {"state": 1, "values": [30]}}}
    (folder / "overutilizations.json").write_text(json.dumps({"core": [], "mem": [], "mem_bw": spans}))
    assert [part.tolist() for part in data.over_committed_spans(read_run(folder))] == [[0], [30], [40]]


def test_folder_and_trace_tell_the_same():
    """What a run leaves behind gives the same numbers as the trace that it was written from."""
    import tempfile

    from hdrl.settings.batch.simulation import write_batsim_files, write_overutilizations

    platform = hdrl.read_platform("gaia")
    workload = hdrl.read_workload("lublin_gaia_1000", platform, n_jobs=120)
    trace = hdrl.simulate(platform, workload, "shortest-high_gflops")
    with tempfile.TemporaryDirectory() as name:
        write_batsim_files(trace, name)
        write_overutilizations(trace, Path(name) / "overutilizations.json")
        read, taken = read_run(name), run_of_trace(trace)
        order = np.argsort(trace.completion_order)
        for field in ("start_s", "end_s", "submit_s", "cores"):
            np.testing.assert_allclose(getattr(read, field)[order], getattr(taken, field), atol=2e-6, err_msg=field)
        assert sorted(zip(read.blocks.first_core, read.blocks.n_cores, strict=True)) == sorted(
            zip(taken.blocks.first_core, taken.blocks.n_cores, strict=True)
        )
        metrics = hdrl.compute_metrics(trace)
        for run in (read, taken):
            assert data.utilization(run).mean == pytest.approx(metrics["utilization"], rel=1e-6)
            assert data.power(run).mean == pytest.approx(metrics["mean_power_w"], rel=1e-6)
            waits_s = data.queue_size(run).mean * (run.span_s[1] - run.span_s[0])
            assert waits_s == pytest.approx(metrics["mean_wait_s"] * run.n_jobs, rel=1e-6, abs=1e-3)


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9), st.integers(-5, 5)), min_size=1, max_size=30),
    st.integers(1, 12),
)
def test_bins_keep_means_and_extremes(changes, n_bins):
    dates, lengths, amounts = (np.array(column, dtype=float) for column in zip(*changes, strict=True))
    steps = data.steps_of_changes(np.concatenate((dates, dates + lengths)), np.concatenate((amounts, -amounts)))
    bins = steps.binned(n_bins)
    assert np.mean(bins.mean) == pytest.approx(steps.mean, abs=1e-9)
    assert np.max(bins.high) == np.max(steps.values)
    assert np.min(bins.low) == np.min(steps.values)
    assert np.all(bins.low - 1e-9 <= bins.mean)
    assert np.all(bins.mean <= bins.high + 1e-9)


def test_bins_beyond_the_function_are_zero():
    steps = data.StepFunction(np.array([10.0, 20.0]), np.array([3.0]))
    bins = steps.binned(4, (0.0, 40.0))
    assert bins.mean.tolist() == [0, 3, 0, 0]
    assert (bins.low.tolist(), bins.high.tolist()) == ([0, 3, 0, 0], [0, 3, 0, 0])
    assert data.StepFunction(np.zeros(0), np.zeros(0)).binned(2, (0, 1)).mean.tolist() == [0, 0]


def test_jobs_that_never_ended_are_counted(tmp_path):
    assert read_run(write_run(tmp_path / "a", n_hidden=3)).n_hidden == 3


def test_experiments_of_several_runs(tmp_path):
    for index in (0, 1, 10, 2):
        write_run(tmp_path / "results" / f"run_{index}")
    assert [run.name for run in read_runs([tmp_path / "results"])] == ["run_0", "run_1", "run_2", "run_10"]
    with pytest.raises(ReadError, match="holds 4 runs, expected one: name it, for instance run_0"):
        read_run(tmp_path / "results")


def test_names_tell_runs_apart(tmp_path):
    paths = [tmp_path / "a" / "run_0", tmp_path / "b" / "run_0", tmp_path / "c"]
    assert distinct_names(paths) == ["a/run_0", "b/run_0", f"{tmp_path.name}/c"]
    assert distinct_names([Path("x"), Path("x")]) == ["x", "x"]
    assert distinct_names([]) == []
    write_run(tmp_path / "a")
    with pytest.raises(OptionsError, match="number of names: 2, of runs: 1"):
        read_runs([tmp_path / "a"], ["x", "y"])
    with pytest.raises(OptionsError, match="same name"):
        read_runs([tmp_path / "a", tmp_path / "a"], ["x", "x"])


@pytest.mark.parametrize(
    ("path", "problem"),
    [("nowhere", "no such folder"), ("empty", "is not a run: it has no out_jobs.csv"), ("file", "is a file")],
)
def test_what_is_no_run(tmp_path, path, problem):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    with pytest.raises(ReadError, match=problem):
        read_run(tmp_path / path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("time,joules\n0,0\n1,1\n", "has no column 'energy'"),
        ("time,energy\n0,0\n1,x\n", "is not a table of numbers"),
        ("time,energy\n5,0\n1,1\n", "ascending"),
        ("time,energy\n0,0\n", "has no energy"),
    ],
)
@pytest.mark.filterwarnings("ignore:loadtxt")
def test_damaged_energy(folder, text, problem):
    (folder / "out_consumed_energy.csv").write_text(text)
    with pytest.raises(ReadError, match=problem):
        data.power(read_run(folder))


def test_missing_files_are_named(folder):
    (folder / "out_consumed_energy.csv").unlink()
    with pytest.raises(ReadError, match=r"has no out_consumed_energy\.csv"):
        data.power(read_run(folder))
    with pytest.raises(ReadError, match="is not a run"):
        data.as_runs(str(folder.parent))
    with pytest.raises(TypeError, match="int is not a run"):
        data.as_runs(3)


def test_sizes_are_grouped_by_powers_of_two(run):
    grouped = groups_of(run, "size")
    assert grouped.names == ("1", "2", "3-4", "9-16")
    assert grouped.group.tolist() == [1, 2, 0, 3]
    assert groups_of(run, "size", max_groups=2).names == ("1-8", "9-16")


def test_groups_of_a_log_need_the_workload(run, tmp_path):
    with pytest.raises(OptionsError, match="no file of the run holds the user"):
        groups_of(run, "user")
    log = tmp_path / "jobs.swf"
    users = {"1": 7, "2": 7, "3": 8, "4": -1}
    log.write_text("".join(f"{i} 0 0 9 1 -1 -1 1 9 -1 1 {user} 1 1 1 1 -1 -1\n" for i, user in users.items()))
    labelled = with_labels(run, log)
    assert groups_of(labelled, "user").names == ("unknown", "user 7", "user 8")
    assert groups_of(labelled, "user").group.tolist() == [1, 1, 2, 0]
    assert groups_of(labelled, "user", max_groups=2).names == ("user 7", "2 others")
    log.write_text("1 0 0 9 1 -1 -1 1 9 -1 1 7 1 1 1 1 -1 -1\n")
    with pytest.raises(OptionsError, match=r"lacks 3 jobs of small, for instance '2'"):
        with_labels(run, log)
    with pytest.raises(ReadError, match="does not name its workload"):
        with_labels(run)
    with pytest.raises(UnknownName, match="did you mean 'user'"):
        groups_of(run, "users")


def test_the_workload_is_found_if_it_is_the_same(folder):
    import hashlib

    log = folder.parent / "jobs.swf"
    log.write_text("".join(f"{i} 0 0 9 1 -1 -1 1 9 -1 1 {i} 1 1 1 1 -1 -1\n" for i in range(1, 5)))
    provenance = json.loads((folder / "provenance.json").read_text())
    provenance["workload"]["origin"] = {"sha256": hashlib.sha256(log.read_bytes()).hexdigest()}
    (folder / "provenance.json").write_text(json.dumps(provenance))
    (folder / "options.resolved.json").write_text(json.dumps({"workload_file_path": "jobs.swf"}))
    assert with_labels(read_run(folder)).labels["user"].tolist() == [1, 2, 3, 4]
    log.write_text(log.read_text() + "\n")
    with pytest.raises(ReadError, match="is not there, or has changed"):
        with_labels(read_run(folder))


def test_logs_of_a_training(tmp_path):
    (tmp_path / "losses.log").write_text("3.5\n\n-1e-3\n")
    assert learning_log(tmp_path, LOSSES).tolist() == [3.5, -0.001]
    (tmp_path / "episodes.csv").write_text("episode,return,makespan_s\n1,-4,\n2,-3,7\n")
    assert learning_log(tmp_path, REWARDS).tolist() == [-4, -3]
    assert learning_log(tmp_path, MAKESPANS).tolist() == [7]
    assert training_table(tmp_path, "episodes.csv")["episode"].tolist() == [1, 2]
    (tmp_path / "probs.json").write_text('{"probs": [[0.5, 0.25], [0.5, 0.75]]}')
    values, names = action_probabilities(tmp_path)
    assert (values.tolist(), names) == ([[0.5, 0.25], [0.5, 0.75]], [])
    (tmp_path / "training.csv").write_text("iteration,probability.a-b,probability.void\n1,0.1,0.9\n")
    values, names = action_probabilities(tmp_path)
    assert (values.tolist(), names) == ([[0.1], [0.9]], ["a-b", "void"])


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("losses.log", "1\nnan\n", r"losses\.log:2: 'nan', expected a finite number"),
        ("losses.log", "\n", "holds no losses"),
        ("training.csv", "iteration,loss\n1\n", r"training\.csv:2: 1 fields, expected 2"),
        ("training.csv", "", "is empty"),
        ("probs.json", '{"probs": [[0.5], [0.5, 1]]}', "as many probabilities"),
        ("probs.json", '{"probs": [[2.0]]}', "as many probabilities"),
        ("other", "", r"has no (losses\.log|probs\.json)"),
    ],
)
def test_damaged_logs(tmp_path, name, text, problem):
    (tmp_path / name).write_text(text)
    with pytest.raises(ReadError, match=problem):
        learning_log(tmp_path, LOSSES) if name != "probs.json" else action_probabilities(tmp_path)
