"""What reports are made of: escaping, packed arrays, numbers for people, the verdict and the warnings."""

import base64
import gzip
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from hdrl.errors import ReadError
from hdrl.report.data import Bars, Steps
from hdrl.report.html.figures import MOST_STEPS, _closed, _fewer, _thinned
from hdrl.report.html.findings import best_of, findings_of_runs
from hdrl.report.html.markup import Markup, joined, script_json, tag
from hdrl.report.html.numbers import listed, metric_form, metric_label
from hdrl.report.html.packing import Pack
from hdrl.report.html.sources import read_report_runs
from hdrl.report.html.tables import headline_table

from .made_runs import make_run

METRIC = "mean_bounded_slowdown"


def test_everything_that_is_no_markup_is_escaped():
    assert tag("td", "<b>&", title='"x') == '<td title="&quot;x">&lt;b&gt;&amp;</td>'
    assert tag("td", tag("b", "1"), hidden=True, class_="a", data_x=None) == '<td hidden class="a"><b>1</b></td>'
    assert joined(["<", Markup("<")], ",") == "&lt;,<"
    hostile = script_json({"name": "</script><!--"})
    assert "<" not in hostile
    assert json.loads(hostile) == {"name": "</script><!--"}


def unpack(pack: Pack, name: str) -> np.ndarray:
    """Undo a packed array as assets/data.js does."""
    data = gzip.decompress(base64.b64decode(pack.text()))
    place = pack.arrays[name]
    steps = np.frombuffer(data, f"<u{place['bytes']}", place["n"], place["at"]).astype(np.int64)
    return place["offset"] + place["scale"] * (np.cumsum(steps) if place["rising"] else steps)


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
    form = metric_form(metric, values)
    assert [form.quantity(value) for value in values] == shown


def test_words():
    assert metric_label("mean_wait_s") == "mean wait"
    assert metric_label("n_unfinished") == "unfinished jobs"
    assert metric_label("throughput_jobs_per_h") == "throughput"
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed(["a", "b", "c"], most=1) == "a and 2 more"


def test_the_best_is_marked_only_where_it_means_something():
    assert best_of([3, 1, 1], METRIC, allowed=[True] * 3) == [False, True, True]
    assert best_of([3, 1, 2], METRIC, allowed=[True, False, True]) == [False, False, True]
    assert best_of([0.1, 0.9], "utilization", allowed=[True] * 2) == [False, True]
    assert best_of([2, 2], METRIC, allowed=[True] * 2) == [False, False]
    assert best_of([2, 5], "n_jobs", allowed=[True] * 2) == [False, False]


def test_numbers_that_read_alike_are_marked_alike(tmp_path: Path):
    for name, wait, energy in (("a", 15012.0, 5e6), ("b", 15012.1, 6e6), ("c", 15012.2, 7e6)):
        make_run(tmp_path / name, policy=name, metrics={"mean_wait_s": wait, "energy_j": energy, "max_wait_s": wait})
    text = headline_table(read_report_runs([tmp_path / name for name in "abc"]), "energy_j")
    assert text.count('class="number is-best"') == 1 + (METRIC in text)
    assert text.count("4.17") == 6


def test_verdict_of_two_runs(tmp_path: Path):
    make_run(tmp_path / "a", policy="a-policy", metrics={METRIC: 2.0})
    make_run(tmp_path / "b", policy="b-policy", metrics={METRIC: 8.0})
    found = findings_of_runs(read_report_runs([tmp_path / "b", tmp_path / "a"]), METRIC)
    assert found.verdict == (
        "a-policy has the lowest mean bounded slowdown: 2.00, which is 0.250 times the 8.00 of b-policy."
    )
    assert found.certainty.startswith("One run each: no interval")
    assert found.question == "Which of b-policy and a-policy has the lowest mean bounded slowdown for jobs on made?"
    assert len(found.warnings) == 1
    assert "offered load" in found.warnings[0]


def test_a_run_that_left_jobs_unrun_cannot_win(tmp_path: Path):
    make_run(tmp_path / "a", policy="lazy", metrics={METRIC: 1.0, "n_not_started": 3, "n_rejected": 1})
    make_run(tmp_path / "b", policy="busy", metrics={METRIC: 8.0})
    found = findings_of_runs(read_report_runs([tmp_path / "a", tmp_path / "b"]), METRIC)
    assert found.verdict.startswith("Only busy ran all jobs")
    assert any("lazy did not run 4 of 12 jobs (3 never started, 1 rejected)" in text for text in found.warnings)


def test_runs_of_different_workloads_have_no_verdict(tmp_path: Path):
    make_run(tmp_path / "a", policy="one", metrics={METRIC: 1.0})
    make_run(tmp_path / "b", policy="two", metrics={METRIC: 8.0}, workload="other")
    found = findings_of_runs(read_report_runs([tmp_path / "a", tmp_path / "b"]), METRIC)
    assert "no common question" in found.verdict
    assert "is-best" not in headline_table(read_report_runs([tmp_path / "a", tmp_path / "b"]), METRIC)
    assert "2 different workloads" in found.warnings[0]


def test_runs_of_other_programs_are_told_apart_by_their_jobs(tmp_path: Path):
    for name, n_jobs in (("a", 12), ("b", 12), ("c", 13)):
        run = make_run(tmp_path / name, n_jobs=n_jobs)
        for file in ("provenance.json", "options.resolved.json", "metrics.json"):
            (run / file).unlink()
    same = findings_of_runs(read_report_runs([tmp_path / "a", tmp_path / "b"]), METRIC)
    assert same.verdict.startswith("a and b share the lowest mean bounded slowdown")
    assert "no common" in findings_of_runs(read_report_runs([tmp_path / "a", tmp_path / "c"]), METRIC).verdict


def test_repeated_runs_are_averaged_and_seeds_compared(tmp_path: Path):
    for seed, value in ((1, 2.0), (2, 4.0)):
        make_run(tmp_path / f"many/run_{seed}", policy="a", seed=seed, metrics={METRIC: value})
    make_run(tmp_path / "b", policy="b", seed=1, metrics={METRIC: 6.0})
    runs = read_report_runs([tmp_path / "many", tmp_path / "b"])
    found = findings_of_runs(runs, METRIC)
    assert [run.name for run in runs] == ["a, seed 1", "a, seed 2", "b, seed 1"]
    assert "a has the lowest mean bounded slowdown: 3.00, which is 0.500 times the 6.00 of b" in found.verdict
    assert "a from 2.00 to 4.00" in found.certainty
    assert any("different seeds" in text for text in found.warnings)


def test_more_is_better_where_it_is(tmp_path: Path):
    make_run(tmp_path / "a", policy="a", metrics={"utilization": 0.5})
    make_run(tmp_path / "b", policy="b", metrics={"utilization": 0.75})
    found = findings_of_runs(read_report_runs([tmp_path / "a", tmp_path / "b"]), "utilization")
    assert found.verdict == "b has the highest utilization: 75.0 %, which is 1.50 times the 50.0 % of a."


def test_no_run_folder(tmp_path: Path):
    with pytest.raises(ReadError, match="no such folder"):
        read_report_runs([tmp_path / "nothing"])
    with pytest.raises(ReadError, match="is no run"):
        read_report_runs([tmp_path])


def test_long_curves_keep_their_mean():
    rng = np.random.default_rng(5)
    steps = Steps(np.cumsum(rng.exponential(1.0, 60_001)), rng.uniform(0, 9, 60_000))
    edges, values = _thinned(steps)
    assert len(values) == MOST_STEPS
    assert np.sum(values * np.diff(edges)) / (edges[-1] - edges[0]) == pytest.approx(steps.mean)


def test_long_distributions_keep_their_tail():
    values = np.arange(1.0, 50_001.0)
    shares = values / len(values)
    fewer, their_shares = _fewer(values, shares)
    assert len(fewer) < 2_300
    assert fewer[-200:].tolist() == values[-200:].tolist()
    np.testing.assert_allclose(their_shares, fewer / len(values))


def test_many_bars_are_joined_within_jobs_only(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("hdrl.report.html.figures.MOST_BARS", 5)
    job = np.array([0, 0, 0, 1, 1, 1])
    first = np.array([0, 2, 9, 4, 6, 8])
    one = np.ones(6, dtype=np.int64)
    bars, closed = _closed(Bars(job, job * 1.0, job + 1.0, first, one))
    assert closed == 1
    assert bars.job.tolist() == [0, 0, 1]
    assert bars.first_core.tolist() == [0, 9, 4]
    assert bars.n_cores.tolist() == [3, 1, 5]
    assert bars.end_s.tolist() == [1.0, 1.0, 2.0]


def test_reading_reports_loads_no_drawing_library():
    code = "import sys, hdrl.report.html; print([m for m in ('plotly', 'matplotlib', 'torch') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
