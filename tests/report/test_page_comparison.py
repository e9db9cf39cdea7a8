"""The report of a comparison, and ``hdrl report`` as it is typed."""

import csv
import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from hdrl.base.errors import OutputError, ReadError, UnknownName
from hdrl.experiment.compare.verdict import headline
from hdrl.experiment.run.manifest import write_manifest
from hdrl.launcher.main import cli
from hdrl.report.comparison import read_compared
from hdrl.report.page import build_report, write_report
from hdrl.report.page.comparison import findings_of_comparison, tables_of_comparison
from hdrl.report.page.forest import WIDTH, Scale

from .made_runs import make_run

for library in ("jinja2", "matplotlib"):
    pytest.importorskip(library, reason="reports need it: pip install 'hdrl[report]'")


def row(candidate: str, **values: object) -> dict[str, object]:
    return {
        "workload": "all",
        "metric": "mean_bounded_slowdown",
        "unit": "1",
        "candidate": candidate,
        "is_baseline": candidate == "fcfs+easy",
        "n_windows": 20,
        "n_seeds": 1,
        "mean": 10.0,
        "mean_low": 8.0,
        "mean_high": 12.5,
        "ratio": 1.0,
        "ratio_low": None,
        "ratio_high": None,
        "p": None,
        "p_holm": None,
        "p99": 20.0,
        "worst": 30.0,
        "log_sd": None,
        "n_jobs": 1000,
        "n_unfinished": 0,
        "n_failed": 0,
    } | values


@pytest.fixture
def comparison(tmp_path: Path) -> Path:
    """Return a folder as ``hdrl compare`` leaves it: a candidate that wins, one of which nothing is known."""
    folder = tmp_path / "comparison"
    folder.mkdir()
    rows = [
        row("fcfs+easy"),
        row("mine<b>", ratio=0.5, ratio_low=0.4, ratio_high=0.62, p=0.001, p_holm=0.002, mean=5.0),
        row("unclear", ratio=0.97, ratio_low=0.8, ratio_high=1.2, p=0.4, p_holm=0.4, n_unfinished=7),
        row("fcfs+easy", metric="energy_j", unit="J", mean=3.6e7),
    ]
    summary = {
        "verdict": "the best of 2 candidates, mine<b>, has 0.500 [0.400, 0.620] times the mean: better.",
        "verdicts": ["one", "two"],
        "warnings": [{"kind": "unrun", "text": "unclear left 7 jobs unrun"}],
        "baseline": "fcfs+easy",
        "metric": "mean_bounded_slowdown",
        "confidence": 0.95,
        "n_points": 60,
        "chosen_by": None,
        "rows": rows,
    }
    (folder / "summary.json").write_text(json.dumps(summary))
    (folder / "sweep.json").write_text('{"platform": "gaia"}')
    identity = {"sweep": "ab" * 32, "platform": {"name": "gaia", "n_cores": 2280}, "workloads": [{"name": "jobs"}]}
    (folder / "provenance.json").write_text(json.dumps({"identity": identity, "seed": 0}))
    with (folder / "results.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["candidate", "workload", "window", "seed", "mean_bounded_slowdown"])
        for name, value in (("fcfs+easy", 10), ("mine<b>", 5), ("unclear", "")):
            table.writerows([name, "jobs", window, 0, value] for window in range(20))
    return folder


def test_the_verdict_is_that_of_the_comparison(comparison: Path):
    found = findings_of_comparison(read_compared(comparison, None))
    assert found.question == "Does any of 2 candidates beat fcfs+easy in mean bounded slowdown?"
    assert found.verdict == "The best of 2 candidates, mine<b>, has 0.500 [0.400, 0.620] times the mean: better."
    assert found.certainty.startswith("1 of 2 candidates are shown to be better.")
    assert found.warnings == ("unclear left 7 jobs unrun.",)


def test_the_page_of_a_comparison(comparison: Path):
    page = build_report([comparison])
    assert "mine&lt;b&gt;" in page
    assert "mine<b>" not in page
    assert "0.500 times the baseline, interval from 0.400 to 0.620" in page
    assert '<td class="number is-bad" data-title="unrun jobs"><span>7</span></td>' in page
    assert "hdrl compare sweep.json --out again" in page
    assert 'id="panel-windows"' in page
    assert 'id="panel-schedule"' not in page


def test_without_ratios_means_decide_the_order_and_no_column_is_empty(comparison: Path):
    path = comparison / "summary.json"
    summary = json.loads(path.read_text())
    summary["rows"] = [
        row("fcfs+easy"),
        row("worst", ratio=None, mean=30.0),
        row("unknown", ratio=None, mean=None),
        row("best", ratio=None, mean=2.0),
    ]
    path.write_text(json.dumps(summary))
    found = read_compared(comparison, None)
    assert [one.candidate for one in found.rows("mean_bounded_slowdown")] == ["fcfs+easy", "best", "worst", "unknown"]
    page = build_report([comparison])
    assert "ratio to fcfs+easy" not in page
    said = headline(
        [one for one in found.rows("mean_bounded_slowdown") if not one.is_baseline][::-1],
        "fcfs+easy",
        found.infos["mean_bounded_slowdown"],
        [],
    )
    assert said.startswith("the best of 3 candidates, best, cannot be compared")


def test_runs_beside_a_comparison(comparison: Path, tmp_path: Path):
    page = build_report([comparison, make_run(tmp_path / "run")], question="Why?")
    assert "<h1>Why?</h1>" in page
    for panel in ("summary", "windows", "runs", "schedule", "over-time", "distributions", "reproduce"):
        assert f'id="panel-{panel}"' in page
    assert page.count('id="panel-reproduce"') == 1


def test_changed_files_are_a_warning(comparison: Path):
    write_manifest(comparison)
    assert "not as hdrl wrote it" not in build_report([comparison])
    (comparison / "results.csv").write_text("")
    (comparison / "sweep.json").write_text("{}")
    page = build_report([comparison])
    assert f"{comparison}/results.csv is not as hdrl wrote it" in page
    assert f"{comparison}/sweep.json is not as hdrl wrote it" in page


def test_what_cannot_be_reported(comparison: Path, tmp_path: Path):
    with pytest.raises(UnknownName, match="'mean_wait_s'; known: energy_j, mean_bounded_slowdown"):
        build_report([comparison], metric="mean_wait_s")
    with pytest.raises(UnknownName, match="did you mean 'mean_wait_s'"):
        build_report([comparison], metric="mean_wait")
    with pytest.raises(ReadError, match="is a second comparison"):
        build_report([comparison, comparison])
    (tmp_path / "held").mkdir()
    (tmp_path / "held" / "held_out.json").touch()
    with pytest.raises(ReadError, match=r"holds comparisons by 3 protocols, expected one of them: .*held.windows, "):
        build_report([tmp_path / "held"])
    (comparison / "summary.json").write_text('{"rows": [{}]}')
    with pytest.raises(ReadError, match="is not a summary of a comparison"):
        build_report([comparison])
    run = make_run(tmp_path / "run")
    (tmp_path / "report.html").write_text("mine")
    with pytest.raises(OutputError, match="exists already"):
        write_report([run], tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text() == "mine"


def test_ratios_stand_on_one_logarithmic_scale():
    scale = Scale.over([0.5, 2.0, float("nan")])
    assert scale.at(1.0) == pytest.approx(WIDTH / 2)
    assert scale.at(0.5) - scale.at(0.25 * 2) == 0
    assert scale.at(2.0) - scale.at(1.0) == pytest.approx(scale.at(1.0) - scale.at(0.5))
    assert 1.0 in scale.ticks()
    assert Scale.over([]).low < 1 < Scale.over([]).high


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    make_run(tmp_path / "a")
    monkeypatch.chdir(tmp_path)
    first = CliRunner().invoke(cli, ["report", "a", "-o", "page.html"])
    assert (first.exit_code, first.output) == (
        0,
        f"page.html: {(tmp_path / 'page.html').stat().st_size / 1e6:.1f} MB\n",
    )
    again = CliRunner().invoke(cli, ["report", "a", "-o", "page.html"])
    assert again.exit_code == 2
    assert again.output == (
        "cli: error: page.html: exists already, expected the name of a new file (--force replaces it)\n"
    )
    assert CliRunner().invoke(cli, ["report", "a", "-o", "page.html", "--force"]).exit_code == 0
    missing = CliRunner().invoke(cli, ["report", "nothing"])
    assert (missing.exit_code, missing.output) == (2, "cli: error: nothing: no such folder\n")
    assert not (tmp_path / "report.html").exists()


def test_the_same_runs_give_the_same_page(tmp_path: Path):
    run = make_run(tmp_path / "a")
    assert build_report([run]) == build_report([run])


@pytest.mark.parametrize(("library", "part"), [("jinja2", "jinja2"), ("matplotlib", "matplotlib")])
def test_one_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str, part: str):
    make_run(tmp_path / "a")
    monkeypatch.setitem(sys.modules, library, None)
    done = CliRunner().invoke(cli, ["report", str(tmp_path / "a"), "-o", str(tmp_path / "page.html")])
    assert (done.exit_code, done.output) == (2, f"cli: error: this needs {part}: pip install 'hdrl[report]'\n")
    assert not (tmp_path / "page.html").exists()


def test_all_tables_have_one_scale_and_columns_without_a_number_are_left_out(comparison: Path):
    data = json.loads((comparison / "summary.json").read_text())
    data["rows"].append(row("wild", metric="energy_j", unit="J", ratio=8.0, ratio_low=4.0, ratio_high=16.0))
    (comparison / "summary.json").write_text(json.dumps(data))
    (first,), (other,) = tables_of_comparison(read_compared(comparison))
    scales = [column.scale.scale for table in (first, other) for column in table.columns if column.scale is not None]
    assert len(scales) == 2
    assert scales[0] == scales[1]
    assert scales[0].high > 16
    assert first.columns[0].title == "ratio to fcfs+easy"
    assert first.columns[-1].title == "unrun jobs"
    assert other.columns[-1].title == "worst"
    assert "better | worse" in build_report([comparison])


def test_learned_candidates_are_marked(comparison: Path):
    data = json.loads((comparison / "provenance.json").read_text())
    data["identity"]["candidates"] = {"mine<b>": {"files": ["model.pt"]}, "unclear": {"files": []}}
    (comparison / "provenance.json").write_text(json.dumps(data))
    (table, *_), _ = tables_of_comparison(read_compared(comparison))
    assert {row.title: row.badge for row in table.rows} == {"fcfs+easy": "", "mine<b>": "learned", "unclear": ""}
