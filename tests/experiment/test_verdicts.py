"""What verdicts say beyond a mean: tails, equality, logs, weeks, several looks, averages, varied conditions."""

import csv
import dataclasses
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

pytest.importorskip("scipy", reason="needs scipy (the extra report)")

from hdrl.base.errors import OptionsError
from hdrl.experiment.compare.comparison import CompareProgress, read_comparison, run_comparison
from hdrl.experiment.compare.files import Comparison
from hdrl.experiment.compare.held_out import by_protocol, tail_cautions
from hdrl.experiment.compare.robust import run_robust
from hdrl.experiment.compare.summary import Measured, SummaryRow, correlated_windows, deciding_rows, summarise, tails_of
from hdrl.experiment.compare.verdict import Criteria, Tail, headline, is_better, is_equal, logs_words, verdict
from hdrl.experiment.run.inputs import make_sweep
from hdrl.launcher.main import cli
from hdrl.report.drawing import draw
from hdrl.setting import SETTINGS
from hdrl.settings.batch.metrics import METRICS
from hdrl.settings.batch.workload.swf import SWF_DTYPE, SwfLog, write_swf

METRIC = "mean_bounded_slowdown"
N = 12
BASE = np.geomspace(20, 60, N)
WAVE = np.exp(0.05 * np.resize([1.0, -1.0, 2.0, -2.0, 1.0, -0.5], N))


def measured(mine: np.ndarray, workloads: list[str] | None = None, **tails: np.ndarray) -> Measured:
    """Return numbers of a candidate and a baseline whose tails, and all other metrics, are 1 unless given."""
    values = {}
    for name, mean in (("base", BASE), ("mine", mine)):
        table = mean.reshape(N, -1)
        values[name] = {metric: np.ones(table.shape) for metric in METRICS} | {METRIC: table}
        for metric in SETTINGS["batch"].measures.unrun:
            values[name][metric] = np.zeros(table.shape)
        values[name]["n_jobs"] = np.full(table.shape, 100.0)
    for metric, tail in tails.items():
        values["mine"][metric] = tail.reshape(N, -1)
    is_failed = {name: np.zeros(tables[METRIC].shape, dtype=bool) for name, tables in values.items()}
    names = tuple(workloads or ["log"] * N)
    return Measured(
        ("base", "mine"),
        "base",
        names,
        values,
        is_failed,
        METRICS,
        SETTINGS["batch"].measures.unrun,
        logs=tuple(sorted({*names})),
    )


def row_of(numbers: Measured, metric: str = METRIC) -> SummaryRow:
    rows = summarise(numbers, [metric], seed=0, n_resamples=500, confidence=0.95)
    return deciding_rows(rows, metric)[0]


def said(mine: np.ndarray, criteria: Criteria | None = None, **tails: np.ndarray) -> str:
    numbers = measured(mine, **tails)
    beside = [Tail(row_of(numbers, name), METRICS[name]) for name in tails_of(METRIC, METRICS)]
    sentence = verdict(
        row_of(numbers), "base", METRICS[METRIC], tails=beside, **({"criteria": criteria} if criteria else {})
    )
    return sentence.partition("): ")[2] or sentence


def test_one_sentence_holds_the_mean_and_the_tail():
    better = BASE * 0.5 * WAVE
    assert said(better) == (
        "better, and no worse in the tail (p99 wait at most 1.00 times, longest wait at most 1.00 times)."
    )
    worse_tail = said(better, max_wait_s=1.5 * WAVE)
    assert worse_tail.startswith("better on the mean, worse in the tail (longest wait 1.5")
    open_tail = said(better, max_wait_s=np.resize([1.3, 0.8, 1.2, 0.9], N))
    assert open_tail.startswith("better on the mean; its tail may be worse (longest wait at most 1.")
    assert "p99" not in open_tail, "what is no worse is not said beside what may be"
    assert said(better, max_wait_s=np.resize([0.0, 1.0], N)).endswith("better; its tail has no ratio on all windows.")
    nothing = said(BASE * WAVE, max_wait_s=1.5 * WAVE)
    assert nothing.startswith("no difference shown")
    assert "and worse in the tail (longest wait" in nothing
    assert said(BASE * 2 * WAVE) == "worse."


def test_a_margin_says_what_no_worse_means():
    noisy = np.resize([1.12, 0.96, 1.08, 0.98], N)
    assert "its tail may be worse" in said(BASE * 0.5 * WAVE, Criteria(tail_margin=1.01), max_wait_s=noisy)
    assert "no worse in the tail" in said(BASE * 0.5 * WAVE, Criteria(tail_margin=1.2), max_wait_s=noisy)


def test_equal_in_practice_is_not_no_difference_shown():
    nearly = BASE * np.exp(0.01 * np.resize([1.0, -1.0], N))
    assert said(nearly).startswith("equal within 2 %, and no worse in the tail")
    assert said(nearly, Criteria(equal_within=0.001)).startswith("no difference shown")
    assert said(BASE * WAVE).startswith(f"no difference shown ({N} windows can detect changes of about")
    assert said(BASE * 0.99 * np.exp(1e-4 * WAVE)).startswith("better, by less than 2 %")
    assert is_equal(row_of(measured(nearly)))


def test_what_equals_its_opponent_in_all_metrics_decides_as_it_does():
    assert said(BASE.copy()) == "mine decides as base does: all metrics are equal in 12 windows."
    assert "decides" not in said(BASE.copy(), mean_wait_s=np.full(N, 1.1)), "another metric differs"
    two_seeds = np.stack([BASE, BASE], axis=1)
    numbers = measured(BASE * 1)
    values = {name: np.repeat(table, 2, axis=1) for name, table in numbers.values["mine"].items()}
    both = dataclasses.replace(
        numbers,
        values={**numbers.values, "mine": values | {METRIC: two_seeds}},
        is_failed={**numbers.is_failed, "mine": np.zeros((N, 2), dtype=bool)},
    )
    assert row_of(both).decides_as_baseline


def test_a_metric_without_a_direction_is_neither_better_nor_worse():
    info = dataclasses.replace(METRICS[METRIC], lower_is_better=None)
    row = row_of(measured(BASE * 0.5 * WAVE))
    assert is_better(row, info) is None
    assert verdict(row, "base", info).endswith(": lower.")


def test_the_level_is_that_of_the_interval():
    numbers = measured(BASE * 0.8 * WAVE**4)
    rows = {
        confidence: deciding_rows(summarise(numbers, [METRIC], seed=0, n_resamples=500, confidence=confidence), METRIC)[
            0
        ]
        for confidence in (0.95, 0.9999)
    }
    assert rows[0.9999].level == 0.0001
    assert is_better(rows[0.95], METRICS[METRIC]) is True
    assert is_better(rows[0.9999], METRICS[METRIC]) is None, "p is above 0.0001"


def test_several_logs_say_what_another_one_may_do():
    workloads = [name for name in ("a", "b", "c") for _ in range(4)]
    factor = np.repeat([0.3, 1.0, 0.9], 4)
    row = row_of(measured(BASE * factor * WAVE, workloads))
    assert is_better(row, METRICS[METRIC]) is True
    assert row.ratio_high < 1 < row.logs_high, "three logs do not show that a fourth one gains"
    assert (row.n_logs, row.without_log) == (3, "a")
    assert row.without_ratio == pytest.approx(math.sqrt(0.9), rel=0.05)
    assert logs_words(row).startswith("On another log: mine has 0.64")
    assert "without a it has 0.9" in logs_words(row)
    assert logs_words(row_of(measured(BASE * 0.5))) == "", "one log"
    generated = dataclasses.replace(measured(BASE * factor, workloads), logs=())
    assert row_of(generated).n_logs == 0, "loads that are generated are not drawn from anything"


def test_neighbouring_windows_that_are_alike_are_warned_of():
    drifting = BASE * np.exp(np.linspace(-1, 1, N))
    ((kind, text),) = correlated_windows(measured(drifting), METRIC)
    assert kind == "alike-neighbours"
    assert "neighbouring windows of log have like ratios of mine (correlation 0.7" in text
    assert list(correlated_windows(measured(BASE * WAVE), METRIC)) == []


def test_an_average_has_the_interval_of_its_trainings():
    draws = np.exp(np.random.default_rng(0).normal(0, 0.3, 10))
    numbers = measured(BASE * 0.8 * WAVE)
    trainings = {name: np.repeat(table, 10, axis=1) for name, table in numbers.values["base"].items()}
    trainings[METRIC] = BASE[:, np.newaxis] * 0.8 * draws
    whole = dataclasses.replace(
        numbers,
        candidates=("base", "mine", "trainings"),
        values={**numbers.values, "trainings": trainings},
        is_failed={**numbers.is_failed, "trainings": np.zeros((N, 10), dtype=bool)},
        trainings={"mine": "trainings"},
    )
    alone, with_them = row_of(numbers), row_of(whole)
    assert (with_them.n_averaged, alone.n_averaged) == (10, 0)
    assert with_them.ratio == alone.ratio
    assert with_them.ratio_high - with_them.ratio_low > 3 * (alone.ratio_high - alone.ratio_low)
    assert "over 12 windows and the 10 trainings that it averages" in verdict(with_them, "base", METRICS[METRIC])


def test_the_headline_holds_the_tail_of_its_candidate():
    numbers = measured(BASE * 0.5 * WAVE, max_wait_s=1.5 * WAVE)
    tails = [Tail(row_of(numbers, "max_wait_s"), METRICS["max_wait_s"])]
    text = headline([row_of(numbers)], "base", METRICS[METRIC], (), tails=tails)
    assert ": better on the mean, worse in the tail (longest wait 1.5" in text


def test_tails_stand_beside_means_alone():
    assert tails_of("mean_wait_s", METRICS) == ["p99_wait_s", "max_wait_s"]
    assert tails_of("utilization", METRICS) == []
    assert tails_of("mean_jct_s", SETTINGS["gpu"].measures.metrics) == ["p99_jct_s", "max_jct_s"]


# Whole comparisons


def sweep(**changes: object):
    given = {
        "platform": "homogeneous:32",
        "candidates": ["sjf+easy"],
        "loads": [0.8],
        "windows": {"length": 30, "count": 8},
        "energy": False,
        "resamples": 300,
    }
    return make_sweep(given | changes, where="sweep.json")


def test_each_metric_that_was_asked_for_has_a_verdict(tmp_path: Path):
    asked = sweep(metrics=[METRIC, "max_wait_s"], candidates=["sjf+easy", "fcfs"])
    result = run_comparison(asked, out=tmp_path / "out", n_workers=1)
    assert sum(row.mean_rank for row in result.rows if (row.workload, row.metric) == ("all", METRIC)) == 6.0
    assert result.verdict_metrics == (METRIC, "max_wait_s")
    assert (result.tails, result.added) == (("p99_wait_s", "max_wait_s"), ("p99_wait_s",))
    assert len(result.verdicts) == 4
    assert [("mean bounded slowdown" in text, "the max wait of" in text) for text in result.verdicts] == (
        [(True, False)] * 2 + [(False, True)] * 2
    )
    again = read_comparison(tmp_path / "out")
    assert (again.verdict_metrics, again.verdicts, again.criteria) == (
        result.verdict_metrics,
        result.verdicts,
        result.criteria,
    )
    shown = CliRunner().invoke(
        cli, ["compare", "--resume", "--quiet", "--out", str(tmp_path / "out")], prog_name="hdrl"
    )
    assert shown.output.count("the max wait of fcfs+easy") == 2
    usual = run_comparison(sweep(), out=tmp_path / "usual", n_workers=1)
    assert len(usual.verdicts) == 1, "of metrics that nobody named the first one is judged"


def test_looks_go_on_until_a_difference_is_shown(tmp_path: Path):
    few, many = {"length": 30, "count": 8, "up_to": 32}, {"length": 30, "count": 32}
    clear = run_comparison(sweep(candidates=["fcfs"], windows=few), out=tmp_path / "clear", n_workers=1)
    assert clear.look is not None
    assert (clear.look.number < 3, clear.look.most) == (True, 3)
    assert f"This is look {clear.look.number} of at most 3" in clear.verdict
    assert clear.rows[0].level == clear.look.level < 0.05
    equal = run_comparison(sweep(candidates=["again=fcfs+easy"], windows=few), out=tmp_path / "equal", n_workers=1)
    assert equal.look is not None
    assert (equal.look.number, equal.rows[0].n_windows) == (3, 32)
    assert read_comparison(tmp_path / "equal").look == equal.look
    whole = run_comparison(sweep(candidates=["fcfs"], windows=many), out=tmp_path / "whole", n_workers=1)
    values = {
        name: [line.split(",")[:6] for line in (tmp_path / name / "results.csv").read_text().splitlines()[1:]]
        for name in ("clear", "whole")
    }
    assert set(map(tuple, values["clear"])) < set(map(tuple, values["whole"])), "windows of the largest look"
    assert whole.look is None
    padded = by_protocol(sweep(windows=few, loads=[], workloads=["lublin_gaia_1000"]), "padded")
    assert padded.windows is not None
    assert (padded.windows.count, padded.windows.up_to) == (8, 32), "protocols keep how far one may go"
    with pytest.raises(OptionsError, match=r"windows.up_to is 8, expected more than windows.count"):
        sweep(windows={"length": 30, "count": 8, "up_to": 8})


def test_the_winner_under_other_conditions(tmp_path: Path):
    asked = sweep(candidates=["sjf+easy", "fcfs"])
    result = run_robust(
        asked, {"generated_estimates": ["exact", "tsafrir"], "seed": [1]}, out=tmp_path / "out", n_workers=1
    )
    assert [one.name for one in result.conditions] == ["as given", "generated_estimates=exact", "seed=1"]
    assert result.conditions[0].tau == 1.0
    assert all(-1 <= one.tau <= 1 for one in result.conditions)
    stored = json.loads((tmp_path / "out" / "robust.json").read_text())
    assert stored["verdict"] == result.verdict
    assert len((tmp_path / "out" / "robust.csv").read_text().splitlines()) == 4
    assert all((folder / "summary.json").is_file() for folder in result.folders)
    with pytest.raises(OptionsError, match="--vary sed=1: the file has no key 'sed'; did you mean 'seed'"):
        run_robust(asked, {"sed": [1]}, out=tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log of twelve weeks, ten jobs a day on most days."""
    draw = np.random.default_rng(5)
    rows = np.full(600, -1.0, dtype=SWF_DTYPE)
    rows["job_number"] = np.arange(1, len(rows) + 1)
    rows["submit_s"] = np.sort(draw.choice(60, len(rows))) * 86_400 * 1.4 + np.arange(len(rows))
    rows["run_s"] = draw.lognormal(8, 1.5, len(rows)).round()
    rows["requested_s"] = rows["run_s"] * 2
    rows["requested_processors"] = draw.integers(1, 9, len(rows))
    rows["status"] = 1
    path = tmp_path_factory.mktemp("log") / "weeks.swf"
    write_swf(SwfLog("weeks", rows), path)
    return path


def continuous(log: Path, **changes: object):
    windows = {"length": "all", "warm_up": "all"}
    given = {"workloads": [str(log)], "loads": [], "platform": "homogeneous:16", "windows": windows}
    return sweep(**given, metrics=["mean_turnaround_s", "max_wait_s"], candidates=["sjf", "fcfs"], **changes)


def test_weeks_give_one_run_an_interval(log: Path, tmp_path: Path):
    result = run_comparison(continuous(log), out=tmp_path / "out", n_workers=1)
    rows = {(row.metric, row.candidate): row for row in result.rows}
    mean, tail = rows["mean_turnaround_s", "sjf"], rows["max_wait_s", "sjf"]
    assert mean.n_weeks in (11, 12)
    assert mean.ratio_low < mean.ratio < mean.ratio_high
    assert 0 < mean.p <= mean.p_holm <= 1
    assert (tail.n_weeks, math.isnan(tail.ratio_low)) == (0, True), "a maximum is no mean of weeks"
    assert f"over one run of {mean.n_weeks} weeks (p" in result.verdict
    assert "of its tail there is one value" in result.verdict or "better" not in result.verdict
    assert not {"powerless", "few-windows"} & {caution.kind for caution in result.cautions}
    with (tmp_path / "out" / "weeks.csv").open() as file:
        weeks = [row for row in csv.DictReader(file) if row["candidate"] == "sjf"]
    assert len(weeks) == mean.n_weeks
    assert sum(int(row["n_jobs"]) for row in weeks) == 600
    total = sum(int(row["n_jobs"]) * float(row["mean_turnaround_s"]) for row in weeks)
    assert total / 600 == pytest.approx(mean.mean)


def test_weeks_survive_an_interruption(log: Path, tmp_path: Path):
    whole = run_comparison(continuous(log), out=tmp_path / "whole", n_workers=1)

    class Stop(Exception):
        pass

    def stop(done: int, total: int) -> None:
        if 0 < done < total:
            raise Stop

    with pytest.raises(Stop):
        run_comparison(continuous(log), out=tmp_path / "parts", n_workers=1, progress=CompareProgress(points=stop))
    assert "weeks" in (tmp_path / "parts" / "points.jsonl").read_text()
    again = run_comparison(continuous(log), out=tmp_path / "parts", n_workers=1)
    assert again.n_simulated < whole.n_simulated
    for name in ("summary.csv", "weeks.csv", "summary.json"):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_run_of_few_weeks_has_no_interval(log: Path, tmp_path: Path):
    result = run_comparison(continuous(log, nb_jobs=300), out=tmp_path / "short", n_workers=1)
    assert all(row.n_weeks == 0 and math.isnan(row.ratio_low) for row in result.rows)
    assert not (tmp_path / "short" / "weeks.csv").exists()


def test_a_comparison_has_the_same_bytes_on_any_processor(tmp_path: Path):
    words = [
        "compare",
        "sjf+easy",
        "-p",
        "homogeneous:32",
        "--loads",
        "0.8,0.9",
        "--windows",
        "30:4",
        "--quiet",
        "-j",
        "1",
    ]
    found = []
    for number, variables in enumerate(
        (
            {},
            {"OPENBLAS_CORETYPE": "Haswell", "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX"},
            {"OPENBLAS_CORETYPE": "Nehalem", "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 AVX512F AVX512_SKX"},
        )
    ):
        program = f"from hdrl.launcher.main import cli; cli({[*words, '--out', str(number)]!r}, prog_name='hdrl')"
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program],
            env=os.environ | variables,
            cwd=tmp_path,
            check=True,
            capture_output=True,
            timeout=200,
        )
        names = ("summary.csv", "summary.json", "results.csv")
        found.append([(tmp_path / str(number) / name).read_bytes() for name in names])
    assert found[0] == found[1] == found[2]


def test_pictures_of_ranks_and_profiles(tmp_path: Path):
    pytest.importorskip("matplotlib", reason="pictures need it: pip install 'hdrl[report]'")
    run_comparison(sweep(candidates=["sjf+easy", "fcfs", "saf+easy"]), out=tmp_path / "out", n_workers=1)
    ranks = draw("critical_difference", [tmp_path / "out"]).axes[0]
    assert [label.get_text() for label in ranks.get_yticklabels()][-1] == "fcfs"
    numbers = [float(text.get_text()) for text in ranks.texts if text.get_text().replace(".", "").isdigit()]
    assert sum(numbers) == pytest.approx(10, abs=0.05), "of four candidates"
    profile = draw("profile", [tmp_path / "out"]).axes[0]
    assert len(profile.get_lines()) == 4, "three curves and the line at 1"


def warned(numbers: Measured, *, is_chosen: bool = False) -> list[str]:
    """Return what the protocols in one go warn of, of the same numbers."""
    metrics = [METRIC, "p99_wait_s", "max_wait_s"]
    rows = summarise(numbers, metrics, seed=0, n_resamples=500, confidence=0.95)
    comparison = Comparison(Path(), "base", METRIC, "", (), (), tuple(rows), 0, 0, METRICS)
    return list(tail_cautions({"windows": comparison}, is_chosen=is_chosen))


def test_held_out_warns_of_tails_that_are_shown_to_be_worse():
    better, worse_tail = BASE * 0.5 * WAVE, 1.5 * WAVE
    (text,) = warned(measured(better, max_wait_s=worse_tail))
    assert text.startswith("windows: mine is better than base on the mean (0.50")
    assert "), and worse in the tail (longest wait 1.5" in text
    open_mean = BASE * np.exp(np.resize([-0.5, 0.3, 0.05], N))
    assert row_of(measured(open_mean)).ratio < 1
    assert warned(measured(open_mean, max_wait_s=worse_tail)) == [], "a mean that is not shown to be better"
    assert warned(measured(better, max_wait_s=np.full(N, 1.001))) == [], "a tail that is 0.1 % worse"
    assert warned(measured(better, max_wait_s=np.resize([3.0, 0.6], N))) == [], "a tail that may be worse by chance"


def test_held_out_warns_of_the_tail_of_a_baseline_that_was_chosen():
    numbers = measured(BASE * 2 * WAVE, max_wait_s=0.5 * WAVE)
    (text,) = warned(numbers, is_chosen=True)
    assert text.startswith("windows: base was chosen by its mean, and its tail is worse than that of mine, which has ")
    assert "longest wait 0.5" in text
    assert warned(numbers) == [], "a baseline that was named is not a choice"
