"""hdrl metrics and the numbers that it shows."""

import json
import math
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import hdrl
from hdrl.figures.numbers import MISSING
from hdrl.launcher.main import cli
from hdrl.settings.batch.metrics import METRICS
from hdrl.settings.batch.report.runs import read_run
from hdrl.settings.batch.report.side_by_side import run_metrics, side_by_side
from hdrl.settings.batch.simulation import write_batsim_files


def metrics(*words: object) -> Result:
    return CliRunner().invoke(cli, ["metrics", *map(str, words)], prog_name="hdrl")


@pytest.fixture(scope="module")
def trace():
    platform = hdrl.read_platform("learning")
    workload = hdrl.read_workload("learning", platform, custom=True)
    return hdrl.simulate(platform, workload, "shortest-high_gflops")


@pytest.fixture
def runs(tmp_path: Path, trace, monkeypatch) -> Path:
    """Make two runs that differ in their metrics only, and go to where they are."""
    for name, changes in (("a", {}), ("b", {"mean_wait_s": 0.25, "n_not_started": 1.0, "energy_j": math.nan})):
        (tmp_path / name).mkdir()
        write_batsim_files(trace, tmp_path / name)
        numbers = hdrl.compute_metrics(trace) | changes
        (tmp_path / name / "metrics.json").write_text(
            json.dumps({key: value if math.isfinite(value) else None for key, value in numbers.items()})
        )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def rows(text: str) -> dict[str, list[str]]:
    cells = [[cell.strip() for cell in line.strip("│").split("│")] for line in text.splitlines() if "│" in line]
    return {row[0]: row[1:] for row in cells}


def test_metrics_as_json(runs):
    found = json.loads(metrics("a", "b", "-m", "mean_wait_s", "-m", "energy_j", "--json").stdout)
    assert found["mean_wait_s"]["b"] == 0.25
    assert found["energy_j"]["b"] is None
    assert "makespan_s" not in found


def test_two_runs_side_by_side(runs):
    result = metrics("a", "b", "-n", "one", "-n", "two")
    assert result.exit_code == 0, result.output
    table = rows(result.output)
    assert "one" in result.output
    assert table["n_jobs"] == ["2", "2", "1.000", ""]
    assert table["mean_wait_s"][1] == "0.250"
    assert table["energy_j"][1:3] == [MISSING, MISSING]
    assert table["n_not_started"] == ["0", "1", MISSING, ""]
    assert "note: two left 1 jobs unrun: its means are those of the others" in result.output


def test_chosen_metrics_come_with_the_counts_that_they_need(runs):
    table = rows(metrics("a", "b", "-m", "p95_wait_s").output)
    assert list(table)[-1] == "p95_wait_s"
    assert "n_unfinished" in table
    assert "energy_j" not in table
    assert set(rows(metrics("a", "--all").output)) == set(METRICS)


def test_the_best_is_marked_by_what_better_means(runs):
    table = side_by_side(["a", "b"], metrics=["mean_wait_s", "utilization", "energy_j"])
    wait = table.values["mean_wait_s"]
    assert table.best["mean_wait_s"] == {wait.index(min(wait))}
    assert table.best["n_not_started"] == {0}
    assert table.best["utilization"] == frozenset(), "all alike"
    assert table.best["energy_j"] == frozenset(), "only one has it"
    assert table.best["n_jobs"] == frozenset(), "more or less jobs are no merit"


def test_runs_that_cannot_be_compared_are_told(runs):
    for name, platform in (("a", "gaia"), ("b", "mc2")):
        facts = {"platform": {"name": platform, "n_cores": 4}, "workload": {"name": "w"}}
        (runs / name / "provenance.json").write_text(json.dumps(facts))
    assert "note: the runs differ in their platform: gaia, mc2" in metrics("a", "b").output


def test_runs_of_other_programs_are_read_by_name(runs, trace):
    """Without metrics.json the numbers come from the jobs, and are the same."""
    (runs / "a" / "metrics.json").unlink()
    computed, known = run_metrics(read_run("a")), hdrl.compute_metrics(trace)
    assert len(computed) > 25
    for name, value in computed.items():
        assert value == pytest.approx(known[name], rel=1e-5, abs=2e-6), name
    # Columns by name, not by position.
    path = runs / "a" / "out_schedule.csv"
    columns = list(zip(*(line.split(",") for line in path.read_text().splitlines()), strict=True))
    path.write_text("\n".join(",".join(line) for line in zip(*reversed(columns), strict=True)) + "\n")
    assert run_metrics(read_run("a")) == computed


def test_the_picture(runs):
    pytest.importorskip("matplotlib", reason="pictures need matplotlib: pip install 'hdrl[report]'")
    result = metrics("a", "b", "-s", "bars.svg")
    assert result.exit_code == 0, result.output
    text = Path("bars.svg").read_text()
    for words in ("energy", "makespan", "max slowdown", "max turnaround", "max wait", "mean slowdown", "mean wait"):
        assert f">{words}</text>" in text
    assert ">a</text>" in text
    few = metrics("a", "b", "-m", "utilization", "-s", "bars.svg")
    assert few.exit_code == 0, few.output
    assert ">makespan</text>" not in Path("bars.svg").read_text()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "Missing argument 'RUN...'"),
        (["nowhere"], "no such folder"),
        (["a", "-m", "mean_wait"], "no metric 'mean_wait'; did you mean 'mean_wait_s'?"),
        (["a", "-n", "x", "-n", "y"], "number of names: 2, of runs: 1"),
        (["a", "-n1", "x"], "-n1 and -n2 name two runs"),
        (["a", "b", "-n1", "b"], "two runs have the same name"),
        (["a/out_jobs.csv"], "has no column 'consumed_joules'"),
        (["a", "-s", "x.bmp"], "expected a name that ends in"),
    ],
)
def test_mistakes_are_one_line(runs, words, problem):
    result = metrics(*words)
    assert result.exit_code == 2
    assert len(result.output.splitlines()) == 1
    assert problem in result.output


def test_damaged_metrics_are_told(runs):
    (runs / "a" / "metrics.json").write_text('{"energy_j": "many"}')
    assert "must be an object of numbers by name" in metrics("a").output


def test_files_of_schedules_with_hdeeprms_names(runs):
    """``hdeeprm-metrics A B -n1 X -n2 Y``, with its files."""
    result = metrics("a/out_schedule.csv", "b/out_schedule.csv", "-n1", "greedy", "-n2", "learned")
    assert result.exit_code == 0, result.output
    assert "greedy" in result.output
    table = rows(result.output)
    computed = rows(metrics("a", "b").output)
    for name in ("makespan_s", "mean_slowdown", "max_turnaround_s", "energy_j"):
        assert table[name][0] == computed[name][0], name
    mixed = metrics("a", "b/out_schedule.csv", "-n2", "learned").output
    assert "note: the makespan of learned counts from date 0" in mixed


def test_means_of_a_schedule_leave_out_rejected_jobs(runs):
    path = runs / "a" / "out_schedule.csv"
    names, values = (line.split(",") for line in path.read_text().splitlines())
    told = dict(zip(names, values, strict=True)) | {"nb_jobs": "4", "nb_jobs_rejected": "2", "mean_waiting_time": "3"}
    path.write_text(f"{','.join(told)}\n{','.join(told.values())}\n")
    assert side_by_side([path]).values["mean_wait_s"] == [6.0]
