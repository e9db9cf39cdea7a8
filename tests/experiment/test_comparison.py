"""hdrl compare from Python: what is simulated, what is written, and that it is the same however it is done."""

import contextlib
import csv
import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest

import hdrl
from hdrl.base.csvfiles import write_records
from hdrl.base.errors import HdrlError, MissingExtra, OutputError, ReadError
from hdrl.experiment.compare import comparison as module
from hdrl.experiment.compare.comparison import CompareProgress, read_comparison, run_comparison
from hdrl.experiment.compare.points import PointResult, PointRunner
from hdrl.experiment.compare.pointstore import PointStore, Scope, read_unfinished
from hdrl.experiment.run.results import versions
from hdrl.settings.batch.kernel import warm_up

pytest.importorskip("scipy", reason="scipy is not installed (extra report)")


@pytest.fixture(scope="module", autouse=True)
def compiled():
    warm_up(lambda _: None)


@pytest.fixture
def sweep():
    import comparisons

    return comparisons.sweep


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


def table(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name != "timing.json"}


def test_a_row_for_each_point_with_the_numbers_of_a_plain_simulation(sweep, tmp_path: Path):
    result = run_comparison(sweep(tmp_path), out=tmp_path / "out", n_workers=1)
    rows = table(tmp_path / "out" / "results.csv")
    assert len(rows) == result.n_points == result.n_simulated == 4 * 6
    assert [row["candidate"] for row in rows[::6]] == ["fcfs+easy", "f4+easy_sjbf", "sjf+easy", "fcfs"]
    platform = hdrl.read_platform("homogeneous:16")
    workload = hdrl.read_workload(tmp_path / "log.swf", platform)
    for row in rows[5::4]:
        jobs = workload.window(int(row["first_job"]), 40)
        metrics = hdrl.compute_metrics(hdrl.simulate(platform, jobs, row["candidate"]))
        for name, value in metrics.items():
            assert float(row[name] or "nan") == pytest.approx(value, rel=0, abs=0, nan_ok=True), name
    assert {row["problem"] for row in rows} == {""}
    assert rows[0]["n_jobs"] == "40", "counts are whole numbers"


def test_the_table_is_that_of_the_points(sweep, tmp_path: Path):
    result = run_comparison(sweep(tmp_path), out=tmp_path / "out", n_workers=1)
    rows = table(tmp_path / "out" / "results.csv")
    by = {
        name: np.array([float(r["mean_bounded_slowdown"]) for r in rows if r["candidate"] == name])
        for name in ("fcfs+easy", "f4+easy_sjbf", "sjf+easy", "fcfs")
    }
    assert result.baseline == "fcfs+easy"
    assert result.metric == "mean_bounded_slowdown"
    of = {row.candidate: row for row in result.rows if row.metric == result.metric}
    for name, values in by.items():
        row = of[name]
        assert row.mean == pytest.approx(values.mean())
        assert row.mean_low <= row.mean <= row.mean_high
        assert row.ratio == pytest.approx(np.exp(np.mean(np.log(values / by["fcfs+easy"]))))
        assert row.worst == values.max()
        assert row.p99 == pytest.approx(np.percentile(values, 99))
        assert (row.n_windows, row.n_jobs, row.n_unfinished, row.is_baseline) == (6, 240, 0, name == "fcfs+easy")
    worst = next(row for row in result.rows if row.metric == "utilization" and row.candidate == "fcfs")
    values = np.array([float(r["utilization"]) for r in rows if r["candidate"] == "fcfs"])
    assert worst.worst == values.min(), "more is better: the worst is the least"
    assert worst.p99 == pytest.approx(np.percentile(values, 1))
    saved = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert saved["verdict"] == result.verdict
    assert len(saved["rows"]) == len(table(tmp_path / "out" / "summary.csv")) == len(result.rows) == 4 * 6


REMEMBERS = """
from hdrl.settings.batch.simulation import Start

seen = []

def policy(view):
    seen.append(1)
    if len(view.running) or not len(view.waiting):
        return []
    job = view.waiting[-1 if len(seen) % 3 else 0]
    return [Start(job, view.free_cores[: view.workload.jobs["cores"][job]])]
"""


def test_the_same_bytes_for_any_number_of_workers(sweep, tmp_path: Path):
    # What the file remembers must not pass from one window to the next: that would depend on who simulates which.
    (tmp_path / "remembers.py").write_text(REMEMBERS)
    asked = sweep(tmp_path, candidates=["f4+easy_sjbf", "remembers.py", "random-random"], seeds=2)
    for folder, n_workers in (("one", 1), ("two", 2)):
        run_comparison(asked, out=tmp_path / folder, n_workers=n_workers)
    names = {"results.csv", "results.parquet", "summary.csv", "summary.json", "sweep.json", "provenance.json"}
    names |= {"manifest.json", "resume.json"}
    assert set(content(tmp_path / "one")) | {"results.parquet"} == names
    assert content(tmp_path / "one") == content(tmp_path / "two")


COUNTS = """
from pathlib import Path

with Path(__file__).with_suffix(".txt").open("a") as runs:
    runs.write("x")

def priority(job, now_s):
    return job.cores
"""


def test_each_simulation_runs_the_file_of_a_policy_once(sweep, tmp_path: Path):
    (tmp_path / "counts.py").write_text(COUNTS)
    run_comparison(sweep(tmp_path, candidates=["counts.py"]), out=tmp_path / "out", n_workers=1)
    n_simulations = sum(row["candidate"] == "counts.py" for row in table(tmp_path / "out" / "results.csv"))
    # And once before all, to check it.
    assert (tmp_path / "counts.txt").read_text() == "x" * (1 + n_simulations)


def test_the_sweep_in_the_folder_repeats_it(sweep, tmp_path: Path):
    from hdrl.experiment.run.inputs import read_sweep

    run_comparison(sweep(tmp_path), out=tmp_path / "one", n_workers=1)
    run_comparison(read_sweep(tmp_path / "one" / "sweep.json"), out=tmp_path / "two", n_workers=1)
    assert content(tmp_path / "one") == content(tmp_path / "two")


def test_what_was_interrupted_continues_and_gives_the_same_bytes(sweep, tmp_path: Path, monkeypatch):
    run_comparison(sweep(tmp_path), out=tmp_path / "whole", n_workers=1)
    simulate, n_simulated = PointRunner._result, []

    def stops_after_nine(self, *arguments):
        if len(n_simulated) == 9:
            raise KeyboardInterrupt
        n_simulated.append(1)
        return simulate(self, *arguments)

    monkeypatch.setattr(PointRunner, "_result", stops_after_nine)
    with pytest.raises(KeyboardInterrupt):
        run_comparison(sweep(tmp_path), out=tmp_path / "parts", n_workers=1)
    assert sorted(path.name for path in (tmp_path / "parts").iterdir()) == ["points.jsonl", "resume.json", "sweep.json"]
    n_kept = len((tmp_path / "parts" / "points.jsonl").read_text().splitlines()) - 1
    assert 0 < n_kept <= 9
    with (tmp_path / "parts" / "points.jsonl").open("a") as file:
        file.write('{"point": "torn')
    again, said = [], []
    monkeypatch.setattr(PointRunner, "_result", lambda self, *rest: again.append(1) or simulate(self, *rest))
    result = run_comparison(
        sweep(tmp_path), out=tmp_path / "parts", n_workers=1, progress=CompareProgress(said.append, lambda a, b: None)
    )
    assert len(again) == result.n_simulated == 24 - n_kept
    assert any(f"continues, {n_kept} points are there" in line for line in said)
    assert content(tmp_path / "parts") == content(tmp_path / "whole")


def test_a_finished_comparison_is_not_done_again(sweep, tmp_path: Path, monkeypatch):
    first = run_comparison(sweep(tmp_path), out=tmp_path / "out", n_workers=1)
    before = content(tmp_path / "out")
    monkeypatch.setattr(PointRunner, "_result", None)
    again = run_comparison(sweep(tmp_path), out=tmp_path / "out", n_workers=1)
    assert again.n_simulated == 0
    assert content(tmp_path / "out") == before
    assert str(dataclasses.replace(first, n_simulated=0)) == str(again) == str(read_comparison(tmp_path / "out"))


@pytest.mark.parametrize("text", ["[]", "{}", '{"rows": 3}', "{"])
def test_a_summary_that_is_none_is_told(tmp_path: Path, text: str):
    (tmp_path / "summary.json").write_text(text)
    with pytest.raises(ReadError, match=r"summary\.json"):
        read_comparison(tmp_path)


@pytest.mark.parametrize("state", ["finished", "unfinished"])
def test_a_folder_of_another_comparison_is_refused(sweep, tmp_path: Path, monkeypatch, state: str):
    if state == "unfinished":
        monkeypatch.setattr(module, "summarise", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            run_comparison(sweep(tmp_path), out=tmp_path / "out", n_workers=1)
    else:
        run_comparison(sweep(tmp_path), out=tmp_path / "out", n_workers=1)
    before = content(tmp_path / "out")
    with pytest.raises(OutputError, match=r"holds another comparison \(sweep differs\)"):
        run_comparison(sweep(tmp_path, seed=1), out=tmp_path / "out", n_workers=1)
    import comparisons

    comparisons.write_log(tmp_path, seed=3)
    with pytest.raises(OutputError, match=r"holds another comparison \(workloads differs\)"):
        run_comparison(sweep(tmp_path), out=tmp_path / "out", n_workers=1)
    comparisons.write_log(tmp_path)
    monkeypatch.setattr(module, "versions", lambda: {**versions(), "hdrl": "0.1.0"})
    with pytest.raises(OutputError, match=rf"comparison \(versions.hdrl is {hdrl.__version__}, not 0.1.0\)"):
        run_comparison(sweep(tmp_path), out=tmp_path / "out", n_workers=1)
    assert content(tmp_path / "out") == before


def _interrupt(*_, **__):
    raise KeyboardInterrupt


def test_a_folder_with_other_things_is_refused(sweep, tmp_path: Path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").touch()
    with pytest.raises(OutputError, match="is not empty and holds no unfinished comparison"):
        run_comparison(sweep(tmp_path), out=tmp_path / "out")
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="is a file, expected a folder"):
        run_comparison(sweep(tmp_path), out=tmp_path / "file")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "points.jsonl").write_text('{"identity": 7}\n')
    with pytest.raises(OutputError, match=r"points\.jsonl:1: is not a line of a comparison"):
        run_comparison(sweep(tmp_path), out=tmp_path / "bad")


def test_two_processes_do_not_work_in_one_folder(sweep, tmp_path: Path, monkeypatch):
    pytest.importorskip("fcntl", reason="no file locks on this system")

    def second(*_, **__):
        with pytest.raises(OutputError, match="another process is working on this comparison"):
            run_comparison(sweep(tmp_path), out=tmp_path / "out", n_workers=1)
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "run_tasks", second)
    with pytest.raises(KeyboardInterrupt):
        run_comparison(sweep(tmp_path), out=tmp_path / "out", n_workers=1)


def test_missing_scipy_is_told_before_anything_is_simulated(sweep, tmp_path: Path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(MissingExtra, match="scipy"):
        run_comparison(sweep(tmp_path), out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_without_polars_there_is_no_parquet(sweep, tmp_path: Path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "polars", None)
    run_comparison(sweep(tmp_path), out=tmp_path / "out", n_workers=1)
    assert "results.parquet" not in content(tmp_path / "out")


def test_the_parquet_holds_the_same_rows(sweep, tmp_path: Path):
    polars = pytest.importorskip("polars", reason="polars is not installed (extra frames)")
    run_comparison(sweep(tmp_path), out=tmp_path / "out", n_workers=1)
    frame = polars.read_parquet(tmp_path / "out" / "results.parquet")
    rows = table(tmp_path / "out" / "results.csv")
    assert frame.columns == list(rows[0])
    assert frame["mean_wait_s"].to_list() == [float(row["mean_wait_s"]) for row in rows]
    assert frame["n_jobs"].dtype.is_integer()


def test_candidates_that_draw_are_run_with_every_seed(sweep, tmp_path: Path):
    result = run_comparison(
        sweep(tmp_path, candidates=["random-random", "fcfs"], seeds=3, seed=5), out=tmp_path / "out", n_workers=1
    )
    rows = table(tmp_path / "out" / "results.csv")
    seeds = {name: [int(row["seed"]) for row in rows if row["candidate"] == name] for name in ("random-random", "fcfs")}
    assert seeds == {"random-random": [5, 6, 7] * 6, "fcfs": [5] * 6}
    platform = hdrl.read_platform("homogeneous:16")
    jobs = hdrl.read_workload(tmp_path / "log.swf", platform).window(40, 40)
    row = next(r for r in rows if (r["candidate"], r["window"], r["seed"]) == ("random-random", "1", "6"))
    expected = hdrl.compute_metrics(hdrl.simulate(platform, jobs, "random-random", seed=6))
    assert float(row["mean_wait_s"]) == expected["mean_wait_s"]
    assert {row.n_seeds for row in result.rows if row.candidate == "random-random"} == {3}


def test_generated_sequences_have_the_loads_that_are_asked_for(sweep, tmp_path: Path):
    choices = {"workloads": [], "loads": [0.5, 0.9], "windows": {"length": 60, "count": 4}}
    result = run_comparison(sweep(tmp_path, **choices), out=tmp_path / "out", n_workers=1)
    rows = [row for row in table(tmp_path / "out" / "results.csv") if row["candidate"] == "fcfs"]
    assert [row["workload"] for row in rows] == ["lublin@0.5"] * 4 + ["lublin@0.9"] * 4
    assert np.mean([float(row["offered_load"]) for row in rows[:4]]) == pytest.approx(0.5, abs=0.02)
    assert np.mean([float(row["offered_load"]) for row in rows[4:]]) == pytest.approx(0.9, abs=0.02)
    assert len({row["makespan_s"] for row in rows}) == 8, "no two are the same"
    assert [caution.kind for caution in result.cautions if caution.kind == "exact-estimates"] == []
    workloads = {row.workload for row in result.rows}
    assert workloads == {"all", "lublin@0.5", "lublin@0.9"}


def test_exact_estimates_are_noticed(sweep, tmp_path: Path):
    choices = {"loads": [0.5], "windows": {"length": 60, "count": 2}, "generated_estimates": "exact"}
    asked = sweep(tmp_path, workload={"estimates": "exact"}, candidates=["fcfs"], **choices)
    result = run_comparison(asked, out=tmp_path / "out", n_workers=1)
    (text,) = [caution.text for caution in result.cautions if caution.kind == "exact-estimates"]
    assert "true run times in log, lublin@0.5: " in text


def test_a_warm_machine(sweep, tmp_path: Path):
    choices = {"candidates": ["fcfs"], "baseline": "fcfs", "windows": {"length": 40, "warm_up": 30}}
    run_comparison(sweep(tmp_path, **choices), out=tmp_path / "out", n_workers=1)
    rows = table(tmp_path / "out" / "results.csv")
    assert [int(row["first_job"]) for row in rows] == [30, 70, 110, 150, 190]
    platform = hdrl.read_platform("homogeneous:16")
    workload = hdrl.read_workload(tmp_path / "log.swf", platform)
    trace = hdrl.simulate(platform, workload.window(40, 70), "fcfs")
    wait_s = (trace.records["start_s"] - trace.workload.jobs["submit_s"])[30:]
    assert rows[1]["n_jobs"] == "40"
    assert float(rows[1]["mean_wait_s"]) == pytest.approx(wait_s.mean())
    # Energy from the first submission that counts to the last end, by hand from the log.
    span = trace.workload.jobs["submit_s"][30], (trace.records["start_s"] + trace.records["run_s"])[30:].max()
    expected = np.diff(np.interp(span, trace.energy["time_s"], trace.energy["energy_j"]))[0]
    assert float(rows[1]["energy_j"]) == pytest.approx(expected)
    assert float(rows[1]["energy_j"]) < trace.consumed_j
    assert rows[1]["n_core_shortages"] == "", "nobody knows which of them belong to the jobs that count"


def test_a_candidate_that_cannot_go_on_is_told_and_has_no_numbers(sweep, tmp_path: Path):
    (tmp_path / "lazy.py").write_text("def policy(view):\n    return []\n")
    result = run_comparison(sweep(tmp_path, candidates=["lazy.py", "sjf+easy"]), out=tmp_path / "out", n_workers=1)
    rows = [row for row in table(tmp_path / "out" / "results.csv") if row["candidate"] == "lazy.py"]
    assert all("wait" in row["problem"] for row in rows)
    assert rows[0]["mean_wait_s"] == ""
    row = next(row for row in result.rows if row.candidate == "lazy.py")
    assert math.isnan(row.mean)
    assert math.isnan(row.ratio)
    assert (row.n_failed, row.n_unfinished) == (6, 240)
    caution = next(caution for caution in result.cautions if caution.kind == "failed")
    assert "lazy.py could not be simulated to the end in 6 of 6 simulations" in caution.text
    assert result.verdict.startswith("the best of 2 candidates, sjf+easy, has ")
    assert "lazy.py cannot be compared with fcfs+easy" in result.verdicts[0]
    assert result.verdicts[0].endswith("; it left 240 of 240 jobs unrun.")


def test_a_mistake_in_a_file_of_the_user_ends_it_with_its_line(sweep, tmp_path: Path):
    (tmp_path / "bad.py").write_text("def policy(view):\n    return view.nothing\n")
    with pytest.raises(HdrlError, match=r"bad\.py:2: AttributeError"):
        run_comparison(sweep(tmp_path, candidates=["bad.py", "fcfs"]), out=tmp_path / "out", n_workers=1)
    assert not (tmp_path / "out").exists(), "nothing was finished, nothing is left"
    (tmp_path / "worse.py").write_text("def policy(view:\n")
    with pytest.raises(HdrlError, match=r"worse\.py:1: "):
        run_comparison(sweep(tmp_path, candidates=["worse.py"]), out=tmp_path / "out", n_workers=1)


def test_the_best_heuristic_is_chosen_by_earlier_jobs(sweep, tmp_path: Path):
    choices = {"baseline": "best", "opponents": "priorities", "range": [0.5, 1.0], "candidates": ["fcfs+easy"]}
    result = run_comparison(sweep(tmp_path, **choices), out=tmp_path / "out", n_workers=1)
    rows = table(tmp_path / "out" / "selection.csv")
    assert len(rows) == 17
    means = {row["candidate"]: float(row["geometric_mean_of_mean_bounded_slowdown"]) for row in rows}
    assert result.baseline == min(means, key=means.get)
    assert [row["candidate"] for row in rows if row["is_chosen"] == "True"] == [result.baseline]
    platform = hdrl.read_platform("homogeneous:16")
    workload = hdrl.read_workload(tmp_path / "log.swf", platform)
    values = [
        hdrl.compute_metrics(hdrl.simulate(platform, workload.window(start, 40), "saf"))["mean_bounded_slowdown"]
        for start in (0, 40, 80)
    ]
    assert means["saf"] == pytest.approx(np.exp(np.mean(np.log(values)))), "by the first half alone"
    saved = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert saved["chosen_by"] == "best of 17 by mean_bounded_slowdown over 3 training windows (120 jobs)"
    assert not [caution for caution in result.cautions if caution.kind == "chosen-on-test"]
    assert {row["candidate"] for row in table(tmp_path / "out" / "results.csv")} == {result.baseline, "fcfs+easy"}


def test_the_best_heuristic_of_generated_sequences_is_chosen_by_other_sequences(sweep, tmp_path: Path):
    choices = {"workloads": [], "loads": [0.8], "windows": {"length": 40, "count": 3}, "baseline": "best"}
    result = run_comparison(sweep(tmp_path, opponents="f?", **choices), out=tmp_path / "out", n_workers=1)
    assert result.baseline in {"f1", "f2", "f3", "f4"}
    assert not [caution for caution in result.cautions if caution.kind == "chosen-on-test"]


def test_ray_gives_the_same_bytes(sweep, tmp_path: Path):
    pytest.importorskip("ray", reason="ray is not installed (extra ray)")
    import subprocess
    import sys

    # In a process of its own: Ray leaves sockets to the garbage collector.
    sweep(tmp_path)
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\n"
        "import comparisons\n"
        "from hdrl.experiment.compare.comparison import run_comparison\n"
        "folder = Path(sys.argv[2])\n"
        "run_comparison(comparisons.sweep(folder), out=folder / 'ray', on='ray', n_workers=2)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(Path(__file__).parent), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    run_comparison(sweep(tmp_path), out=tmp_path / "local", n_workers=1)
    assert content(tmp_path / "ray") == content(tmp_path / "local")


def test_logs_of_different_length_share_a_table(sweep, tmp_path: Path):
    """One log ends with the range, the other has jobs behind it: only one window has jobs that follow it."""
    import comparisons

    from hdrl.settings.batch.workload.swf import read_swf, write_swf

    long = read_swf(comparisons.write_log(tmp_path))
    write_swf(dataclasses.replace(long, name="short", rows=long.rows[:3]), tmp_path / "short.swf")
    windows = {"length": "all", "follow_up": 40}
    asked = sweep(tmp_path, workloads=["short.swf", "log.swf"], candidates=["fcfs"], windows=windows, range=[0.0, 0.9])
    run_comparison(asked, out=tmp_path / "out", n_workers=1)
    rows = table(tmp_path / "out" / "results.csv")
    assert {(row["workload"], row["follow_up"]) for row in rows} == {("short", "0"), ("log", "24")}
    assert all(None not in row and row["problem"] == "" for row in rows)


def test_rows_with_different_keys_are_no_table(tmp_path: Path):
    with pytest.raises(ValueError, match="row 1 of the table has other columns than the first one: b"):
        write_records(tmp_path / "a.csv", [{"a": 1}, {"a": 2, "b": 3}])
    assert list(tmp_path.iterdir()) == []


def test_a_resumed_point_is_what_it_was(tmp_path: Path):
    scope = Scope(n_cases=1, n_points=1, may_grow=False)
    names = ("a", "b", "c", "d")
    point = PointResult(dict(zip(names, (math.inf, -math.inf, math.nan, 2.5), strict=True)), math.inf)
    with contextlib.closing(PointStore(tmp_path / "out", {}, names, scope)) as store:
        store.add({"0/fcfs/0": point})
    with contextlib.closing(PointStore(tmp_path / "out", {}, names, scope)) as store:
        found = store.results["0/fcfs/0"]
    assert repr(found) == repr(point)
    assert repr(read_unfinished(tmp_path / "out", names).points["0/fcfs/0"]) == repr(point)


def test_the_confidence_of_a_comparison_is_that_of_its_rows(sweep, tmp_path: Path):
    asked = sweep(tmp_path, candidates=["sjf+easy"], confidence=0.8)
    result = run_comparison(asked, out=tmp_path / "out", n_workers=1)
    assert {row.confidence for row in result.rows} == {0.8}
    assert {row.confidence for row in read_comparison(tmp_path / "out").rows} == {0.8}
