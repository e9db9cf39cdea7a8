"""What reports are made of: escaping, packed arrays, numbers for people, the verdict and the warnings."""

import base64
import dataclasses
import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from hdrl.base.errors import ReadError
from hdrl.figures.numbers import axis_number, listed, metric_form, metric_words
from hdrl.report.page.charts import chart, chart_of
from hdrl.report.page.findings import Findings, best_of, findings_of_runs
from hdrl.report.page.page import render
from hdrl.report.page.schedule import Pack, closed_gaps
from hdrl.report.page.tables import headline_table
from hdrl.report.runs import read_report_runs
from hdrl.setting import SETTINGS
from hdrl.settings.batch.metrics import METRICS

from .made_runs import make_run

BATCH = SETTINGS["batch"]


METRIC = "mean_bounded_slowdown"


def test_everything_that_is_no_markup_is_escaped():
    hostile = "</script><!-- \" onload='1'"
    page = render(Findings(hostile, hostile, "", (hostile,)), [(hostile, hostile)], [], {"name": hostile}, {})
    assert hostile not in page
    assert page.count("</script>") == 2, "the model and the scripts"
    (model,) = re.findall(r'<script type="application/json" id="model">(.*?)</script>', page)
    assert json.loads(model) == {"name": hostile}
    with pytest.raises(ValueError, match="not JSON compliant"):
        render(Findings("", "", "", ()), [], [], {"number": float("nan")}, {})


def unpack(pack: Pack, name: str) -> np.ndarray:
    """Undo a packed array as assets/data.js does."""
    data = gzip.decompress(base64.b64decode(pack.text()))
    position = pack.arrays[name]
    steps = np.frombuffer(data, f"<u{position['bytes']}", position["n"], position["at"]).astype(np.int64)
    return position["offset"] + position["scale"] * (np.cumsum(steps) if position["rising"] else steps)


@given(st_numpy.arrays(float, st.integers(0, 30), elements=st.floats(-1e12, 1e12)))
def test_packed_numbers_come_back_to_a_part_in_four_billion(values):
    pack = Pack()
    pack.add("first", [1, 2, 300])
    pack.add("values", values)
    assert unpack(pack, "first").tolist() == [1, 2, 300]
    span = np.ptp(values) if len(values) else 0
    np.testing.assert_allclose(unpack(pack, "values"), values, atol=span / 2**32 + 1e-3, rtol=1e-12)


@given(st.lists(st.integers(0, 2**32 - 1), max_size=30))
def test_packed_whole_numbers_are_exact(values):
    pack = Pack()
    pack.add("values", values)
    assert unpack(pack, "values").tolist() == values


def test_pack_refuses_what_is_no_number():
    pack = Pack()
    with pytest.raises(ValueError, match="not finite"):
        pack.add("values", [1.0, np.nan])


@pytest.mark.parametrize(
    ("metric", "values", "shown"),
    [
        ("mean_wait_s", [3600 * 7.931, 3600 * 23.83], ["7.93 h", "23.83 h"]),
        ("mean_wait_s", [0.0, 12.5], ["0.00 s", "12.50 s"]),
        ("makespan_s", [86400 * 373.1, 86400 * 373.9], ["373.1 d", "373.9 d"]),
        ("utilization", [0.475, 0.5224], ["47.5 %", "52.2 %"]),
        ("energy_j", [96.3e9 * 3.6, 100.3e9 * 3.6], ["96.3 MWh", "100.3 MWh"]),
        ("mean_bounded_slowdown", [91.4, 1549.37], ["91.4", "1,549.4"]),
        ("n_finished", [10_000, 0], ["10,000", "0"]),
        ("mean_wait_s", [float("nan")], ["\N{EN DASH}"]),
    ],
)
def test_numbers_of_a_row_share_unit_and_digits(metric, values, shown):
    form = metric_form(metric, METRICS[metric], values)
    assert [form.quantity(value) for value in values] == shown


def test_words():
    assert metric_words("mean_wait_s") == "mean wait"
    assert metric_words("n_unfinished") == "unfinished"
    assert metric_words("throughput_jobs_per_h") == "throughput"
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed(["a", "b", "c"], most=1) == "a and 2 more"
    assert [axis_number(value) for value in (0.5, -1000, 1e6, 2.25e6)] == [
        "0.5",
        "\N{MINUS SIGN}1,000",
        "1e6",
        "2.25e6",
    ]


def test_the_best_is_marked_only_where_it_means_something():
    assert best_of([3, 1, 1], METRICS[METRIC], allowed=[True] * 3) == [False, True, True]
    assert best_of([3, 1, 2], METRICS[METRIC], allowed=[True, False, True]) == [False, False, True]
    assert best_of([0.1, 0.9], METRICS["utilization"], allowed=[True] * 2) == [False, True]
    assert best_of([2, 2], METRICS[METRIC], allowed=[True] * 2) == [False, False]
    assert best_of([2, 5], METRICS["n_jobs"], allowed=[True] * 2) == [False, False]


def test_numbers_that_read_alike_are_marked_alike(tmp_path: Path):
    for name, wait, energy in (("a", 15012.0, 5e6), ("b", 15012.1, 6e6), ("c", 15012.2, 7e6)):
        make_run(tmp_path / name, policy=name, metrics={"mean_wait_s": wait, "energy_j": energy, "max_wait_s": wait})
    table = headline_table(read_report_runs([tmp_path / name for name in "abc"], BATCH), "energy_j", BATCH)
    marks = {
        column.title: [row.cells[position].mark for row in table.rows] for position, column in enumerate(table.columns)
    }
    assert marks["energy"] == ["best", "", ""]
    assert marks["mean wait"] == ["", "", ""]
    assert [row.cells[2].text for row in table.rows] == [row.cells[2].text for row in table.rows[:1]] * 3


def test_the_first_table_begins_with_the_metric_and_leaves_out_counts_that_are_zero(tmp_path: Path):
    make_run(tmp_path / "a", policy="a")
    (run,) = read_report_runs([tmp_path / "a"], BATCH)
    assert [column.title for column in headline_table([run], METRIC, BATCH).columns][:2] == [
        "mean bounded slowdown",
        "finished",
    ]
    make_run(tmp_path / "b", policy="b", metrics={"n_rejected": 2})
    table = headline_table([run, *read_report_runs([tmp_path / "b"], BATCH)], METRIC, BATCH)
    assert [column.title for column in table.columns][:3] == ["mean bounded slowdown", "rejected", "finished"]
    assert [row.cells[1].mark for row in table.rows] == ["", "bad"]


def test_verdict_of_two_runs(tmp_path: Path):
    make_run(tmp_path / "a", policy="a-policy", metrics={METRIC: 2.0})
    make_run(tmp_path / "b", policy="b-policy", metrics={METRIC: 8.0})
    found = findings_of_runs(read_report_runs([tmp_path / "b", tmp_path / "a"], BATCH), METRIC, BATCH)
    assert found.verdict == (
        "a-policy has the lowest mean bounded slowdown: 2.00, which is 0.250 times the 8.00 of b-policy."
    )
    assert found.certainty.startswith("One run each: no interval")
    assert found.question == "Which of b-policy and a-policy has the lowest mean bounded slowdown for jobs on made?"
    assert len(found.warnings) == 1
    assert "offered load" in found.warnings[0]


def test_the_question_names_no_machine_where_there_are_several(tmp_path: Path):
    make_run(tmp_path / "a", policy="a-policy", n_cores=4)
    make_run(tmp_path / "b", policy="b-policy", n_cores=8)
    runs = read_report_runs([tmp_path / "a", tmp_path / "b"], BATCH)
    elsewhere = dataclasses.replace(runs[1], platform="another")
    found = findings_of_runs([runs[0], elsewhere], METRIC, BATCH)
    assert found.question.endswith("for jobs on 2 platforms?")


def test_a_run_that_left_jobs_unrun_cannot_win(tmp_path: Path):
    make_run(tmp_path / "a", policy="lazy", metrics={METRIC: 1.0, "n_not_started": 3, "n_rejected": 1})
    make_run(tmp_path / "b", policy="busy", metrics={METRIC: 8.0})
    found = findings_of_runs(read_report_runs([tmp_path / "a", tmp_path / "b"], BATCH), METRIC, BATCH)
    assert found.verdict.startswith("Only busy ran all jobs")
    assert any("lazy did not run 4 of 12 jobs (1 rejected, 3 not started)" in text for text in found.warnings)


def test_runs_of_different_workloads_have_no_verdict(tmp_path: Path):
    make_run(tmp_path / "a", policy="one", metrics={METRIC: 1.0})
    make_run(tmp_path / "b", policy="two", metrics={METRIC: 8.0}, workload="other")
    found = findings_of_runs(read_report_runs([tmp_path / "a", tmp_path / "b"], BATCH), METRIC, BATCH)
    assert "no common question" in found.verdict
    table = headline_table(read_report_runs([tmp_path / "a", tmp_path / "b"], BATCH), METRIC, BATCH)
    assert {cell.mark for row in table.rows for cell in row.cells} == {""}
    assert "2 different workloads" in found.warnings[0]


def test_runs_of_other_programs_are_told_apart_by_their_jobs(tmp_path: Path):
    for name, n_jobs in (("a", 12), ("b", 12), ("c", 13)):
        run = make_run(tmp_path / name, n_jobs=n_jobs)
        for file in ("provenance.json", "options.resolved.json", "metrics.json"):
            (run / file).unlink()
    same = findings_of_runs(read_report_runs([tmp_path / "a", tmp_path / "b"], BATCH), METRIC, BATCH)
    assert same.verdict.startswith("a and b share the lowest mean bounded slowdown")
    assert (
        "no common"
        in findings_of_runs(read_report_runs([tmp_path / "a", tmp_path / "c"], BATCH), METRIC, BATCH).verdict
    )


def test_repeated_runs_are_averaged_and_seeds_compared(tmp_path: Path):
    for seed, value in ((1, 2.0), (2, 4.0)):
        make_run(tmp_path / f"many/run_{seed}", policy="a", seed=seed, metrics={METRIC: value})
    make_run(tmp_path / "b", policy="b", seed=1, metrics={METRIC: 6.0})
    runs = read_report_runs([tmp_path / "many", tmp_path / "b"], BATCH)
    found = findings_of_runs(runs, METRIC, BATCH)
    assert [run.name for run in runs] == ["a, seed 1", "a, seed 2", "b, seed 1"]
    assert "a has the lowest mean bounded slowdown: 3.00, which is 0.500 times the 6.00 of b" in found.verdict
    assert "a from 2.00 to 4.00" in found.certainty
    assert any("different seeds" in text for text in found.warnings)


def test_the_same_run_twice_is_one_run(tmp_path: Path):
    make_run(tmp_path / "a", policy="a", seed=1, metrics={METRIC: 2.0})
    make_run(tmp_path / "again", policy="a", seed=1, metrics={METRIC: 2.0})
    found = findings_of_runs(read_report_runs([tmp_path / "a", tmp_path / "again"], BATCH), METRIC, BATCH)
    assert found.certainty.startswith("One run: no interval")
    assert any(text.startswith("a: the same run was given more than once") for text in found.warnings)
    make_run(tmp_path / "other", policy="a", seed=2, metrics={METRIC: 4.0})
    runs = read_report_runs([tmp_path / name for name in ("a", "again", "other")], BATCH)
    assert "a mean bounded slowdown of 3.00" in findings_of_runs(runs, METRIC, BATCH).verdict
    assert findings_of_runs(runs, METRIC, BATCH).certainty.startswith("Means of repeated runs with other seeds")


def test_more_is_better_where_it_is(tmp_path: Path):
    make_run(tmp_path / "a", policy="a", metrics={"utilization": 0.5})
    make_run(tmp_path / "b", policy="b", metrics={"utilization": 0.75})
    found = findings_of_runs(read_report_runs([tmp_path / "a", tmp_path / "b"], BATCH), "utilization", BATCH)
    assert found.verdict == "b has the highest utilization: 75.0 %, which is 1.50 times the 50.0 % of a."


def test_no_run_folder(tmp_path: Path):
    with pytest.raises(ReadError, match="no such folder"):
        read_report_runs([tmp_path / "nothing"], BATCH)
    with pytest.raises(ReadError, match="is not a run"):
        read_report_runs([tmp_path], BATCH)


def test_many_bars_are_joined_within_jobs_only(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("hdrl.report.page.schedule.MOST_BARS", 5)
    job = np.array([0, 0, 0, 1, 1, 1])
    first = np.array([0, 2, 9, 4, 6, 8])
    item, first, n_held, closed = closed_gaps(job, first, np.ones(6, dtype=np.int64))
    assert closed == 1
    assert item.tolist() == [0, 0, 1]
    assert first.tolist() == [0, 9, 4]
    assert n_held.tolist() == [3, 1, 5]


def test_reading_reports_loads_no_drawing_library():
    code = "import sys, hdrl.report.page; print([m for m in ('jinja2', 'matplotlib', 'torch') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.filterwarnings("error")
def test_what_is_off_the_scale_of_a_chart_is_not_drawn():
    from matplotlib.figure import Figure as Drawing

    drawing = Drawing()
    drawing.subplots().plot([0, 1], [0, 1e308])
    assert chart(drawing, "large", "large numbers", []).picture.wide.startswith("data:image")


def test_a_run_without_energy_takes_nothing_from_the_others(tmp_path: Path):
    pytest.importorskip("matplotlib", reason="pictures need matplotlib: pip install 'hdrl[report]'")
    for name in "abc":
        make_run(tmp_path / name, policy=name)
    (tmp_path / "b/out_consumed_energy.csv").write_text("time,energy\n0,0\n")
    (tmp_path / "c/out_consumed_energy.csv").unlink()
    figure = BATCH.view.figures["power"]
    runs = list(enumerate(read_report_runs([tmp_path / name for name in "abc"], BATCH)))
    shown = chart_of(figure, figure.on_page[0], runs)
    assert shown is not None
    assert shown.names == [(0, "a")]
    assert "Means: a " in shown.words
    assert chart_of(figure, figure.on_page[0], runs[1:]) is None
