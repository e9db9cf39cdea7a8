"""Pictures: every kind draws, what it draws is what the data say, and mistakes are one line."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hdrl.base.errors import MissingExtra, OptionsError, OutputError, ReadError, UnknownName
from hdrl.report.drawing import draw, figures_of, plot
from hdrl.setting import SETTINGS
from hdrl.settings.batch.report.runs import read_run

from .four_jobs import ROWS, write_run

pytest.importorskip("matplotlib", reason="pictures need matplotlib: pip install 'hdrl[report]'")

FIGURES = figures_of(SETTINGS["batch"])


def row(metric: str, candidate: str, mean: float, ratio: float, **values: object) -> dict[str, object]:
    """Return a row of summary.json, that of a baseline unless more is told."""
    return {
        "workload": "all",
        "metric": metric,
        "unit": "s" if metric.endswith("_s") else "1",
        "candidate": candidate,
        "is_baseline": "p_holm" not in values,
        "n_windows": 30,
        "n_seeds": 1,
        "mean": mean,
        "mean_low": 0.9 * mean,
        "mean_high": 1.1 * mean,
        "ratio": ratio,
        "ratio_low": 0.8 * ratio if "p_holm" in values else None,
        "ratio_high": 1.2 * ratio if "p_holm" in values else None,
        "p": None,
        "p_holm": None,
        "p99": mean,
        "worst": mean,
        "log_sd": None,
        "n_jobs": 100,
        "n_unfinished": 0,
        "n_failed": 0,
    } | values


SUMMARY = {
    "verdict": "",
    "verdicts": [],
    "warnings": [],
    "baseline": "easy",
    "metric": "mean_wait_s",
    "n_points": 90,
    "rows": [
        row("mean_wait_s", "easy", 80, 1.0),
        row("mean_wait_s", "worse", 160, 2.0, p_holm=0.001, n_unfinished=7),
        row("mean_wait_s", "better", 40, 0.5, p_holm=0.001),
        row("utilization", "easy", 0.5, 1.0),
        row("mean_wait_s", "easy", 1, 1.0) | {"workload": "gaia"},
    ],
}

RESULTS = """candidate,workload,window,mean_wait_s,utilization
worse,gaia,0,10,0.5
worse,gaia,1,20,0.6
better,gaia,0,2,0.5
better,gaia,1,4,0.6
easy,gaia,0,5,0.4
easy,gaia,1,22,0.7
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return a folder from which every kind can be drawn."""
    folder = write_run(tmp_path / "small")
    (folder / "losses.log").write_text("3\n2\n1\n")
    (folder / "rewards.log").write_text("-3\n-2\n-1\n")
    (folder / "makespans.log").write_text("30\n20\n10\n")
    (folder / "probs.json").write_text('{"probs": [[0.5, 0.2], [0.5, 0.8]]}')
    (folder / "summary.json").write_text(json.dumps(SUMMARY))
    (folder / "results.csv").write_text(RESULTS)
    return folder


def texts(figure) -> str:
    import matplotlib.text

    return "\n".join(text.get_text() for text in figure.findobj(matplotlib.text.Text))


@pytest.mark.parametrize("kind", FIGURES)
def test_every_kind(run, tmp_path, kind):
    path = plot(kind, [run], tmp_path / "picture.png")
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("suffix", "begin"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_the_same_picture_has_the_same_bytes_in_every_format(run, tmp_path, suffix, begin):
    first, second = (plot("queue_size", [run], tmp_path / f"{name}.{suffix}").read_bytes() for name in "ab")
    assert first == second
    assert first.startswith(begin)
    assert len(first) > 2_000


@pytest.mark.parametrize("kind", [kind for kind, known in FIGURES.items() if known.max_runs > 1])
def test_kinds_that_show_two_runs(run, tmp_path, kind):
    other = tmp_path / "other"
    write_run(other, policy="sjf")
    for name in ("losses.log", "rewards.log", "makespans.log"):
        (other / name).write_text("1\n2\n")
    shown = texts(draw(kind, [run, other]))
    assert "small" in shown
    assert "other" in shown


def test_axes_have_units_and_titles_tell_what_was_simulated(run):
    shown = texts(draw("power", [run]))
    assert "time since the start of the simulation (s)" in shown
    assert "power (W)" in shown
    assert "Power of all hosts: small" in shown
    assert "fcfs, 4 jobs of four, small (4 cores)" in shown


def test_jobs_that_are_not_shown_are_told(tmp_path):
    folder = write_run(tmp_path / "starved", n_hidden=12)
    assert "not shown: 12 jobs that never ended" in texts(draw("queue_size", [folder]))


def test_curves_have_the_values_of_the_run(run):
    (axes,) = draw("queue_size", [run]).axes
    (steps,) = axes.patches
    assert steps.get_data().values.tolist() == [0, 1, 2, 1, 0]
    assert steps.get_data().edges.tolist() == [0, 5, 6, 10, 20, 40]
    assert axes.get_xlim() == (0, 40)
    (axes,) = draw("utilization", [run]).axes
    assert axes.patches[0].get_data().values.tolist() == [50, 100, 25]
    assert axes.get_ylim()[0] == 0
    assert 100 < axes.get_ylim()[1] < 106


def test_a_small_gantt_chart_has_the_rectangles_of_the_jobs(run):
    (axes,) = draw("gantt", [run]).axes
    (shapes,) = axes.collections
    boxes = [path.get_extents().extents.tolist() for path in shapes.get_paths()]
    assert boxes == [[0, 0, 10, 2], [10, 0, 20, 4], [20, 2, 40, 3]]
    assert len({tuple(colour) for colour in shapes.get_facecolors()}) == 3
    assert [text.get_text() for text in axes.texts if text.get_text() in "1234"] == ["2", "1", "3"], "largest first"
    assert not [t for t in draw("gantt_no_label", [run]).axes[0].texts if t.get_text() in "1234"]


def many(n_jobs: int) -> list[tuple]:
    """Return jobs of one core each, one per second on core 0, 1, 2, 3, 0, ..."""
    return [(str(i), i, 1, ROWS[0][3], i, 4, str(i % 4), 1) for i in range(n_jobs)]


def test_a_large_gantt_chart_is_one_image(tmp_path):
    folder = write_run(tmp_path / "large", many(4_000))
    (axes,) = draw("gantt", [folder]).axes
    (image,) = axes.images
    assert image.get_extent() == pytest.approx([0, 4003 / 60, 0, 4])
    opacity = image.get_array()[..., 3]
    assert np.count_nonzero(opacity[:, 10:-10] < 252) == 0, "all cores are busy"
    assert not axes.collections


def test_an_axis_that_runs_downwards_is_painted_too(tmp_path):
    folder = write_run(tmp_path / "large", [(str(i), i, 1, ROWS[0][3], i + 90, 30, "0", 1) for i in range(2_000)])
    (axes,) = draw("lifecycle", [folder]).axes
    picture = axes.images[0].get_array()
    row = picture[picture.shape[0] // 2]  # the job in the middle: waits from 1000 to 1090, runs until 1120
    positions = np.flatnonzero(row[:, 3] > 0) / row.shape[0] * axes.get_xlim()[1]
    low, high = positions.min() * 60, positions.max() * 60
    assert 980 < low < 1010
    assert 1105 < high < 1135


def test_the_gantt_chart_of_ten_thousand_jobs_on_as_many_cores_is_quick_enough_to_wait_for(tmp_path):
    """No patch per rectangle: the number of things to draw does not grow with the number of jobs."""
    rng = np.random.default_rng(1)
    rows = []
    for i in range(2_000):
        cores = np.sort(rng.choice(10_000 // 50, size=int(rng.integers(1, 60)), replace=False)) * 50
        rows.append((str(i), i, len(cores), ROWS[0][3], i, 50, " ".join(map(str, cores.tolist())), 1))
    figure = draw("gantt", [write_run(tmp_path / "wide", rows, n_cores=10_000)])
    assert len(read_run(tmp_path / "wide").blocks.job) > 50_000
    assert len(figure.axes[0].get_children()) < 40


def test_colours_and_boxes_by_size(run):
    assert "9-16" in texts(draw("gantt", [run], by="size"))
    shown = texts(draw("groups", [run]))
    assert "3-4\n1 jobs" in shown
    assert "9-16" not in shown, "the rejected job has no slowdown"
    assert "waiting time (s)" in texts(draw("groups", [run], of="wait_s"))


def test_the_distribution_ends_at_all_jobs(run):
    (axes,) = draw("slowdown_cdf", [run]).axes
    x, y = axes.lines[0].get_data()
    assert x.tolist() == [1, 1, 1.5, 1.7]
    assert y.tolist() == [0, pytest.approx(100 / 3), pytest.approx(200 / 3), 100]


def test_shortages_are_counted(run):
    (axes,) = draw("core_bubbles", [run]).axes
    heights = axes.collections[0].get_offsets()[:, 1]
    assert heights.sum() == 2
    assert "never" in texts(draw("mem_bubbles", [run]))


def test_a_comparison_is_in_order_and_says_what_was_left(run):
    figure = draw("comparison", [run])
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert names == ["better", "easy", "worse †"]
    assert "ratio to easy" in texts(figure)
    assert "Mean wait" in texts(figure)
    assert "less is better" in texts(figure)
    assert "more is better" in texts(draw("comparison", [run], of="utilization"))
    colours = [line.get_color() for line in figure.axes[1].lines if line.get_marker() == "o"]
    assert len(set(colours)) == 3


def test_actions_have_the_names_of_the_options(run):
    assert "action 0" in texts(draw("action_preferences", [run]))
    (run / "options.json").write_text(
        '{"pybatsim": {"env": {"actions": {"selection": [{"first": ["random"]}], "void": true}}}}'
    )
    shown = texts(draw("action_preferences", [run]))
    assert "first-random" in shown
    assert "void" in shown


def test_negative_rewards_are_seen(run):
    (axes,) = draw("rewards", [run]).axes
    assert axes.lines[0].get_ydata().tolist() == [-3, -2, -1]
    assert axes.get_ylim()[0] < -3


def test_long_logs_are_smoothed_without_a_shift():
    from hdrl.figures.learning import running_mean

    assert running_mean(np.array([0.0, 3.0, 6.0, 0.0]), 3).tolist() == [1.5, 3, 3, 3]
    assert running_mean(np.arange(5.0), 1).tolist() == [0, 1, 2, 3, 4]
    assert running_mean(np.full(9, 2.0), 4).tolist() == [2] * 9


def test_names_are_shown_as_they_are(tmp_path):
    folder = write_run(tmp_path / "a_$x$ [b] & <c>")
    figure = draw("queue_size", [folder, write_run(tmp_path / ("long" * 20))], names=())
    figure.canvas.draw()
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert labels[0] == r"a_\$x\$ [b] & <c>"
    assert re.fullmatch(r"(long)+l?o?n?….*long", labels[1])
    assert len(labels[1]) == 40


def test_pictures_fit_into_figures_of_others(run):
    from matplotlib.figure import Figure

    from hdrl.report import figures

    mine = Figure()
    left, right = mine.subplots(1, 2)
    assert figures.queue_size(str(run), left) is mine
    assert figures.gantt([read_run(run)], right) is mine
    assert left.get_title(loc="left").startswith("Waiting jobs")
    with pytest.raises(OptionsError, match="one ax was given, but this picture of 2 parts"):
        figures.gantt([run, run], right)


def test_a_trace_is_drawn_as_it_is():
    import hdrl
    from hdrl.report import figures

    platform = hdrl.read_platform("learning")
    workload = hdrl.read_workload("learning", platform, custom=True)
    trace = hdrl.simulate(platform, workload, "shortest-high_gflops")
    for name, figure in FIGURES.items():
        if figure.reads == "runs":
            assert getattr(figures, name)(trace).axes
    assert "user" in texts(figures.groups(trace, by="user"))


@pytest.mark.parametrize(
    ("kind", "more", "error", "problem"),
    [
        ("gant", {}, UnknownName, "no kind of picture 'gant'; did you mean 'gantt'"),
        ("power", {"by": "size"}, OptionsError, "power takes no --by; these do: gantt, gantt_no_label, groups"),
        ("slowdown_cdf", {"of": "waits_s"}, UnknownName, "did you mean 'wait_s'"),
        ("groups", {"by": "usr"}, UnknownName, "did you mean 'user'"),
        ("groups", {"by": "user"}, ReadError, "name it"),
        ("comparison", {"of": "energy"}, UnknownName, "of metric 'energy'"),
        ("losses", {"names": ["x"]}, OptionsError, "takes no names"),
    ],
)
def test_wrong_choices(run, kind, more, error, problem):
    with pytest.raises(error, match=problem):
        draw(kind, [run], **more)


def test_too_many_and_none(run):
    with pytest.raises(OptionsError, match="gantt shows at most 6 runs, not 7"):
        draw("gantt", [run] * 7)
    with pytest.raises(OptionsError, match="action_preferences shows at most 1 run, not 2"):
        draw("action_preferences", [run] * 2)
    with pytest.raises(OptionsError, match="needs a folder"):
        draw("gantt", [])


@pytest.mark.parametrize("kind", ["losses", "rewards", "action_preferences", "comparison", "power", "mem_bubbles"])
def test_a_run_without_the_file(tmp_path, kind):
    folder = write_run(tmp_path / "classic")
    for name in ("out_consumed_energy.csv", "overutilizations.json"):
        (folder / name).unlink()
    with pytest.raises(ReadError, match=r"has no (losses|rewards|probs|summary|out_consumed|overutil)"):
        plot(kind, [folder], tmp_path / "x.png")
    assert not (tmp_path / "x.png").exists()


def test_a_damaged_comparison(run):
    (run / "summary.json").write_text(json.dumps(SUMMARY | {"rows": [SUMMARY["rows"][0] | {"mean": "many"}]}))
    with pytest.raises(ReadError, match=r"rows\[0\]\.mean is 'many', expected a number"):
        draw("comparison", [run])
    (run / "summary.json").write_text('{"rows": [{}]}')
    with pytest.raises(ReadError, match="is not a summary of a comparison"):
        draw("comparison", [run])


def test_a_learned_candidate_and_the_better_side_are_marked(run):
    (run / "provenance.json").write_text(
        json.dumps({"identity": {"candidates": {"better": {"files": ["models/1.pt"]}, "worse": {"files": ["own.py"]}}}})
    )
    figure = draw("comparison", [run])
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert names == ["\N{BLACK DIAMOND} better", "easy", "worse †"]
    assert [line.get_marker() for line in figure.axes[1].lines if len(line.get_xdata()) == 1] == ["D", "o", "o"]
    sides = {text.get_text(): text for text in figure.axes[1].texts}
    assert sides["better"].get_ha() == "right"
    assert sides["worse"].get_ha() == "left"
    sides = {text.get_text(): text for text in draw("comparison", [run], of="utilization").axes[1].texts}
    assert sides["better"].get_ha() == "left"


def test_files_are_replaced_only_by_name(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert plot("power", [run]) == Path("power.png")
    before = Path("power.png").read_bytes()
    with pytest.raises(OutputError, match="exists already, and only a file that is named"):
        plot("power", [run])
    Path("power.png").write_text("mine")
    assert plot("power", [run], "power.png").read_bytes() == before
    for wrong in ("power.jpg", "power"):
        with pytest.raises(OptionsError, match=r"expected a name that ends in \.png, \.svg, \.pdf"):
            plot("power", [run], wrong)
    with pytest.raises(OutputError, match="cannot be written"):
        plot("power", [run], tmp_path / "nowhere" / "power.png")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["power.png", "small"]


def test_without_matplotlib(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"needs matplotlib: pip install 'hdrl\[report\]'"):
        draw("power", [run])


def test_only_drawing_loads_what_draws_and_pyplot_is_left_alone(run):
    code = (
        "import sys\n"
        "import hdrl.settings.batch.report.data, hdrl.settings.batch.report.side_by_side\n"
        "import hdrl.settings.batch.report.export\n"
        "from hdrl.report.drawing import draw\n"
        "print([m for m in ('matplotlib', 'pandas', 'polars', 'scipy.stats', 'torch', 'jinja2') if m in sys.modules])\n"
        f"draw('gantt', [{str(run)!r}]); print('matplotlib.figure' in sys.modules, 'matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == ["[]", "True False", ""]
