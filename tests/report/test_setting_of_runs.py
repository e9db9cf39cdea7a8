"""A setting that nobody has heard of is drawn and reported without one line in hdrl.report."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from hdrl.base.errors import OptionsError, ReadError, UnknownName
from hdrl.figures.figure import Figure, ItemNumber, OnPage, Run, ScheduleChart, Span
from hdrl.figures.over_time import over_time
from hdrl.figures.steps import StepFunction
from hdrl.metrics.catalogue import MetricInfo, with_roles
from hdrl.report import figures
from hdrl.report.drawing import draw, figures_of, plot
from hdrl.report.page import build_report
from hdrl.report.runs import setting_of
from hdrl.report.side_by_side import side_by_side
from hdrl.setting import SETTINGS, Measures
from hdrl.trace import TraceFile

from .made_runs import make_run

for library in ("jinja2", "matplotlib"):
    pytest.importorskip(library, reason="reports need it: pip install 'hdrl[report]'")

METRICS = {
    "mean_melt_s": MetricInfo("s", "melted - lit", "made up", lower_is_better=True),
    "n_lost": MetricInfo("1", "candles that went out", "made up", lower_is_better=True, counts_unrun=True),
    "glow": MetricInfo("1", "light per candle", "made up", lower_is_better=False),
}


@dataclasses.dataclass
class Candles:
    """What figures of the made-up setting draw."""

    name: str
    policy: str
    lit_s: list[float]
    span_s: tuple[float, float]


def read(folder: Path, name: str | None) -> Run:
    told = json.loads((folder / "candles.json").read_text())
    lit_s = told["lit_s"]
    data = Candles(name or folder.name, told["policy"], lit_s, (0.0, max(lit_s) + 5))
    items = np.arange(len(lit_s))

    def schedule() -> ScheduleChart:
        start_s = np.array(lit_s)
        return ScheduleChart(
            item_word="candle",
            unit_word="holder",
            n_units=4,
            ids=[f"c{index}" for index in items],
            start_s=start_s,
            end_s=start_s + 5,
            numbers=(ItemNumber("the wax", "of {} g", "", np.full(len(lit_s), 30.0)),),
            item=items,
            first_unit=items,
            n_held=np.ones_like(items),
            groups=(Span("shelf", 0, 4),),
        )

    provenance = {"seed": told["seed"], "setting": "candles"}
    return Run(
        name=data.name,
        folder=folder,
        policy=data.policy,
        workload="candles of May",
        platform="chandelier",
        metrics=told["metrics"],
        n_items=len(lit_s),
        options={"setting": "candles"},
        provenance=provenance,
        data=data,
        facts={"candles": len(lit_s)},
        conditions={"churches": told["church"]},
        cautions={"wind": "the window was open."},
        schedule=schedule,
    )


def flames(runs, ax=None, *, wind: str = "calm", positions=None):
    """Draw how many candles were lit, over time."""
    steps = [StepFunction(np.append(run.lit_s, run.span_s[1]), np.arange(1.0, len(run.lit_s) + 1)) for run in runs]
    return over_time(runs, steps, title=f"Flames ({wind})", quantity="flames", positions=positions, ax=ax)


FLAMES = Figure(
    "flames",
    "how many candles were lit over time",
    flames,
    max_runs=2,
    choices={"wind": ("calm", "storm")},
    on_page=(OnPage("Light", "Flames", lambda names, runs: f"{len(runs)} curves"),),
)


CANDLES = SimpleNamespace(
    name="candles",
    measures=Measures(with_roles(METRICS, compared=("mean_melt_s",), headline=("glow",))),
    view=SimpleNamespace(
        files=(TraceFile(("candles.json",), lambda trace, folder: None, "what was lit"),),
        figures={"flames": FLAMES},
        read=read,
    ),
)


@pytest.fixture
def candles() -> Iterator[None]:
    SETTINGS.add(CANDLES)
    yield
    SETTINGS.remove("candles")


def light(folder: Path, *, policy: str = "tall first", melt_s: float = 7.0, n_lost: int = 0, seed: int = 1) -> Path:
    folder.mkdir()
    metrics = {"mean_melt_s": melt_s, "n_lost": n_lost, "glow": 0.5}
    told = {"policy": policy, "lit_s": [0.0, 2.0, 3.0], "metrics": metrics, "seed": seed, "church": "small"}
    (folder / "candles.json").write_text(json.dumps(told))
    (folder / "options.resolved.json").write_text('{"setting": "candles"}')
    return folder


def test_its_figures_are_found_and_drawn(candles: None, tmp_path: Path):
    run = light(tmp_path / "a")
    assert setting_of(run) is CANDLES
    assert figures_of(CANDLES)["flames"] is FLAMES
    assert "rewards" in figures_of(CANDLES)
    assert "gantt" not in figures_of(CANDLES)
    assert figures.flames is flames
    (axes,) = draw("flames", [run, light(tmp_path / "b")], names=["x", "y"], wind="storm").axes
    assert axes.get_title(loc="left") == "Flames (storm)"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["x", "y"]
    assert axes.patches[0].get_data().values.tolist() == [1, 2, 3]
    assert plot("flames", [run], tmp_path / "flames.png").is_file()


def test_its_mistakes_are_told(candles: None, tmp_path: Path):
    run = light(tmp_path / "a")
    with pytest.raises(UnknownName, match=r"kind of picture of .*'gantt'"):
        draw("gantt", [run])
    with pytest.raises(UnknownName, match="did you mean 'storm'"):
        draw("flames", [run], wind="stormy")
    with pytest.raises(OptionsError, match="flames takes no --by"):
        draw("flames", [run], by="size")
    with pytest.raises(OptionsError, match="flames shows at most 2 runs, not 3"):
        draw("flames", [run] * 3)
    (run / "candles.json").unlink()
    with pytest.raises(ReadError, match=r"is not a run: it has no candles\.json"):
        draw("flames", [run])


def test_its_report_tells_its_own_words_and_none_of_others(candles: None, tmp_path: Path):
    runs = [light(tmp_path / "a"), light(tmp_path / "b", policy="short first", melt_s=14.0)]
    page = build_report(runs)
    assert "tall first has the lowest mean melt: 7.00 s, which is 0.500 times the 14.00 s of short first." in page
    assert "The window was open." in page
    assert "<dt>candles</dt><dd>3</dd>" in page
    assert 'id="panel-light"' in page
    assert "Which candle ran when on which holders" in page
    assert '["shelf",0,4]' in page
    assert '<img src="data:image/svg+xml;base64,' in page
    assert 'alt="2 curves"' in page
    assert "n_lost" not in page
    for word in ("bounded slowdown", "core", "energy", "gaia"):
        assert word not in page.partition("<header>")[2].partition("<script>")[0].partition('id="schedule-0"')[0]
    with pytest.raises(UnknownName, match="no metric 'mean_wait_s'; did you mean 'mean_melt_s'"):
        build_report(runs, metric="mean_wait_s")


def test_what_was_left_is_told(candles: None, tmp_path: Path):
    page = build_report([light(tmp_path / "a", n_lost=2), light(tmp_path / "b", policy="short first")])
    assert "Only short first ran all jobs" in page
    assert "tall first did not run 2 of 3 jobs (2 lost)" in page
    assert "lost" in page


def test_settings_are_not_mixed(candles: None, tmp_path: Path):
    with pytest.raises(ReadError, match="is of the setting batch, expected candles"):
        build_report([light(tmp_path / "a"), make_run(tmp_path / "b")])
    other = "is of the setting batch, expected candles as the others are"
    for name in ("flames", "bars"):
        with pytest.raises(ReadError, match=other):
            draw(name, [tmp_path / "a", tmp_path / "b"])
    with pytest.raises(ReadError, match=other):
        side_by_side([tmp_path / "a", tmp_path / "b"])
    with pytest.raises(ReadError, match="is of the setting candles, expected batch as the others are"):
        draw("gantt", [tmp_path / "b", tmp_path / "a"])
    with pytest.raises(ReadError, match="nowhere: no such folder"):
        draw("flames", [tmp_path / "nowhere"])
    (tmp_path / "a" / "options.resolved.json").write_text('{"setting": "candle"}')
    with pytest.raises(UnknownName, match="did you mean 'candles'"):
        build_report([tmp_path / "a"])


def test_nothing_general_knows_batch_jobs():
    folder = Path(figures.__file__).parents[1]
    words = ("settings.batch", "hdrl.settings.batch.simulation", "hdrl.settings.batch.workload", "METRICS")
    general = [path for room in ("report", "figures") for path in sorted((folder / room).rglob("*.py"))]
    assert [path.name for path in general if any(word in path.read_text() for word in words)] == []
