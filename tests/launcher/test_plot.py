"""hdrl plot as people type it."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hdrl.experiment import run_experiment
from hdrl.experiment.run.inputs import read_options
from hdrl.launcher.main import cli
from hdrl.report.drawing import figures_of
from hdrl.setting import SETTINGS
from hdrl.settings.batch.report.groups import GROUPINGS

pytest.importorskip("matplotlib", reason="pictures need matplotlib: pip install 'hdrl[report]'")


def plot(*words: object) -> Result:
    return CliRunner().invoke(cli, ["plot", *map(str, words)], prog_name="hdrl")


@pytest.fixture
def run(small_world: Path, stand_in, monkeypatch) -> Path:
    folder = small_world.parent / "results"
    run_experiment(read_options(small_world), out=folder)
    monkeypatch.chdir(small_world.parent)
    return folder


def test_a_picture_by_default_and_by_name(run):
    first = plot("gantt", "results")
    assert (first.exit_code, first.output) == (0, "gantt.png\n")
    assert Path("gantt.png").read_bytes().startswith(b"\x89PNG")
    again = plot("gantt", "results")
    assert again.exit_code == 2
    assert again.output.startswith("hdrl: error: gantt.png: exists already")
    named = plot("slowdown_cdf", "results", "results", "-n", "a", "-n", "b", "-s", "both.svg", "--of", "wait_s")
    assert named.exit_code == 0, named.output
    text = Path("both.svg").read_text()
    assert ">a</text>" in text
    assert ">b</text>" in text


def test_users_are_found_in_the_workload(run):
    assert plot("groups", "results", "--by", "user", "-s", "users.png").exit_code == 0
    Path("jobs.swf").write_text(Path("jobs.swf").read_text() + "; changed\n")
    changed = plot("groups", "results", "--by", "user", "-s", "users2.png")
    assert changed.exit_code == 2
    assert "is not there, or has changed; name it (--workload FILE)" in changed.output
    assert plot("groups", "results", "--by", "user", "--workload", "jobs.swf", "-s", "users2.png").exit_code == 0


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["gantt"], "Missing argument 'RUN...'"),
        (["gannt", "results"], "no kind of picture 'gannt'; did you mean 'gantt'?"),
        (["gantt", "nowhere"], "nowhere: no such folder"),
        (["results", "gantt"], "no kind of picture 'results'; known: "),
        (["losses", "results"], "results: has no losses.log"),
        (["comparison", "results"], "results: is not a comparison: it has no summary.json"),
        (["power", "results"], "out_consumed_energy.csv"),
        (["gantt", "results", "-s", "x.gif"], "expected a name that ends in .png, .svg, .pdf"),
        (["gantt", "results", "--by", "usr"], "usr"),
        (["gantt", "results", "-n", "a", "-n", "b"], "number of names: 2, of runs: 1"),
    ],
)
def test_mistakes_are_one_line(run, words, problem):
    result = plot(*words)
    assert result.exit_code == 2
    assert len(result.output.splitlines()) == 1
    assert problem in result.output
    assert not list(Path().glob("*.png"))


def test_the_help_names_every_kind_and_grouping():
    shown = plot("--help").output
    for name in (*figures_of(SETTINGS["batch"]), *GROUPINGS):
        assert name in shown
