"""Sweeps, candidates, windows, the table, verdicts and warnings, each by itself."""

import dataclasses
import functools
import itertools
import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hdrl.base.errors import HdrlError, OptionsError, ReadError, UnknownName
from hdrl.batch import read_platform
from hdrl.experiment.compare import candidates, cases
from hdrl.experiment.compare.candidates import Candidate
from hdrl.experiment.compare.cases import Case, cautions_of_size, overlapping
from hdrl.experiment.compare.cautions import cautions, powerless
from hdrl.experiment.compare.comparison import read_comparison, run_comparison
from hdrl.experiment.compare.points import Point, batches
from hdrl.experiment.compare.selection import choose_baseline, training_shares
from hdrl.experiment.compare.summary import Measured, baseline_row, deciding_rows, summarise
from hdrl.experiment.compare.verdict import headline, is_better, verdict
from hdrl.experiment.plan import read_loads
from hdrl.experiment.run.inputs import make_sweep, read_sweep, write_sweep
from hdrl.metrics.words import confidence_words, metric_words, number_words
from hdrl.options.reading import schema_of
from hdrl.options.sweep import from_here
from hdrl.setting import SETTINGS
from hdrl.settings.batch.metrics import METRICS
from hdrl.settings.batch.named_policies import BatchPolicies
from hdrl.settings.batch.policies.pairs import heuristic_names
from hdrl.settings.batch.policies.simulation import is_conservative, simulate
from hdrl.settings.batch.sweep import BatchSweep
from hdrl.settings.batch.workload import lublin_log, write_swf
from hdrl.settings.batch.workload.model import Workload
from hdrl.settings.batch.workload.read import read_workload

BATCH = SETTINGS["batch"]
read_candidates = functools.partial(candidates.read_candidates, policies=BATCH.policies)
judging = functools.partial(cases.test_cases, setting=BATCH)
train_cases = functools.partial(cases.train_cases, setting=BATCH)


MINIMAL = {"platform": "gaia", "candidates": ["sjf+easy"], "workloads": ["lublin_gaia_1000"]}


def sweep(folder: Path | None = None, **changes):
    return make_sweep({**MINIMAL, **changes}, where="sweep.json", folder=folder or Path())


# Sweeps


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"candidate": ["fcfs"]}, "the file has no key 'candidate'; did you mean 'candidates'?"),
        ({"windows": {"length": 5, "counts": 3}}, "windows has no key 'counts'; did you mean 'count'?"),
        ({"workload": {"memry": "none"}}, "workload has no key 'memry'; did you mean 'memory'?"),
        ({"windows": {"length": 0}}, "windows.length is 0, expected at least 1"),
        ({"windows": {}}, "windows.length is missing"),
        ({"candidates": []}, "candidates is empty, expected at least one entry"),
        ({"seeds": "three"}, "seeds is 'three', expected a whole number"),
        ({"metrics": ["mean_slowdwn"]}, "no metric 'mean_slowdwn'; did you mean 'mean_slowdown'?"),
        ({"metrics": ["energy_j", "energy_j"]}, "metrics names one twice"),
        ({"tails": ["n_jobs"]}, "tails holds n_jobs, which has no worse side; expected others, for instance "),
        ({"range": [0.7, 0.7]}, "range is [0.7, 0.7], expected the smaller share first"),
        ({"range": [0.7, 1.2]}, "range[1] is 1.2, expected at most 1"),
        ({"workloads": []}, "there is nothing to simulate: give workloads (-w FILE), or loads (--loads 0.7,0.85)"),
        ({"loads": [0.7]}, "loads need windows with a length"),
        ({"windows": {"length": 5, "count": 2, "starts": [1]}}, "windows.starts must hold at least one index"),
        ({"workload": {"start": 5}}, "workload.start is no option of a comparison"),
    ],
)
def test_mistakes_in_a_sweep_are_one_line(changes, message: str):
    with pytest.raises(OptionsError) as caught:
        sweep(**changes)
    text = str(caught.value)
    assert text.startswith(f"sweep.json: {message}")
    assert "\n" not in text


def completed(given: BatchSweep, *, has_power: bool) -> BatchSweep:
    """Return a sweep with the defaults filled in for a platform whose power is known, or not."""
    machine = SimpleNamespace(has_power=has_power)
    return given.completed(machine, baseline="fcfs+easy", metrics=BATCH.measures.compared)


@pytest.mark.parametrize(
    ("asked", "has_power", "expected"),
    [(None, True, True), (None, False, False), (False, True, False), (True, True, True)],
)
def test_energy_is_summarised_where_it_is_accounted_for(asked, has_power, expected):
    found = completed(sweep(energy=asked), has_power=has_power)
    assert found.energy is expected
    assert found.metrics is not None
    assert found.metrics[0] == "mean_bounded_slowdown"
    assert ("energy_j" in found.metrics) is expected
    assert completed(found, has_power=has_power) == found, "what is written in the folder can be run again"


@pytest.mark.parametrize(
    ("asked", "has_power", "why"),
    [(None, False, "homogeneous:16 has no power figures"), (False, True, "energy is false")],
)
def test_energy_that_nobody_knows_cannot_be_summarised(asked, has_power, why: str):
    wanted = sweep(energy=asked, platform="homogeneous:16", metrics=["mean_wait_s", "energy_delay_product_js"])
    with pytest.raises(OptionsError) as caught:
        completed(wanted, has_power=has_power)
    assert str(caught.value) == f"sweep.json: metrics names energy_delay_product_js, but there is no energy: {why}"


def test_a_sweep_file_and_changes_to_it(tmp_path: Path, monkeypatch):
    folder = tmp_path / "sweeps"
    folder.mkdir()
    (folder / "one.json").write_text(
        '{"platform": "gaia", "candidates": ["mine=m/*.pt", "my.py"], "workloads": ["log.swf"], "seeds": 2}'
    )
    monkeypatch.chdir(tmp_path)
    read = read_sweep("sweeps/one.json", changes={"workloads": ["other.swf", "learning"], "seed": 3})
    assert (read.seeds, read.seed, read.where) == (2, 3, "sweeps/one.json")
    assert read.path_of("my.py") == Path("sweeps/my.py"), "paths of the file start from its folder"
    assert read.workloads == [str(tmp_path / "other.swf"), "learning"], "those of changes from the current one"
    for text, problem in (("[]", "expected an object"), ("{", "is not JSON"), ("", "is empty")):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(HdrlError, match=problem):
            read_sweep("bad.json")


def test_f1_to_f4_count_dates_from_the_beginning_of_what_is_simulated():
    """So comparing.md says: of a window by itself, or of the log."""
    machine = read_platform("homogeneous:2280")
    log = read_workload("lublin_gaia_1000", machine, n_jobs=400)
    log = dataclasses.replace(log, jobs=log.jobs.copy())
    log.jobs["submit_s"] /= 20  # so that many wait
    dates = log.jobs["submit_s"][300:]
    known = heuristic_names()
    assert len(known) == 51
    relative = [name for name in known if "_relative" in name]
    assert len(known) - len(relative) == 39

    def window(warm_up: int | str) -> Workload:
        asked = sweep(Path(), range=[0.75, 1.0], windows={"length": 100, "warm_up": warm_up})
        (case,) = judging(asked, [log])
        jobs = case.items(SETTINGS["batch"], machine, [log], asked)
        assert jobs.jobs["submit_s"][case.warm_up :] == pytest.approx(dates - (0 if warm_up == "all" else dates[0]))
        return jobs

    def starts(policy: str, jobs: Workload) -> Any:
        return simulate(machine, jobs, policy, energy=False).records["start_s"].copy()

    alone, whole = window(0), window("all")
    for name in relative:
        for jobs in (alone, whole):
            assert np.array_equal(starts(name, jobs), starts(name.replace("_relative", ""), jobs))
    later = dataclasses.replace(alone, jobs=alone.jobs.copy())
    later.jobs["submit_s"] += dates[0]
    assert np.abs(starts("f4+easy", later) - dates[0] - starts("f4+easy", alone)).max() > 1.0, "another order"


def test_a_sweep_is_the_same_wherever_its_files_are(tmp_path: Path):
    asked = {
        "candidates": ["mine=m/*.pt", "my.py+easy", "sjf+easy", "a=sjf+easy@m/n.json~gate", "saf+easy@n.json/all"],
        "workloads": ["log.swf", "lublin_gaia_1000"],
    }
    one = sweep(tmp_path / "in", **asked)
    assert one.portable()["candidates"] == [
        "mine=*.pt",
        "my.py+easy",
        "sjf+easy",
        "a=sjf+easy@n.json~gate",
        "saf+easy@n.json/all",
    ]
    assert from_here("candidates", one.candidates)[3:] == [
        f"a=sjf+easy@{Path.cwd()}/m/n.json~gate",
        f"saf+easy@{Path.cwd()}/n.json/all",
    ]
    for name in ("out", "far/away"):
        (tmp_path / name).mkdir(parents=True)
        write_sweep(tmp_path / name, one)
        again = read_sweep(tmp_path / name / "sweep.json", trust=True)
        assert again.path_of(again.workloads[0]) == tmp_path / "in" / "log.swf"
        assert again.sha256() == one.sha256()
    assert (tmp_path / "out/sweep.json").read_bytes() == (tmp_path / "far/away/sweep.json").read_bytes()
    assert sweep(Path("in"), seeds=2).sha256() != sweep(Path("in")).sha256()
    (tmp_path / "out" / "resume.json").write_text("[]")
    with pytest.raises(ReadError, match="must hold folder and sweep"):
        read_sweep(tmp_path / "out" / "sweep.json", trust=True)


def test_the_schema_describes_every_key():
    schema = schema_of(BatchSweep)
    assert all(field.get("description") for field in schema["properties"].values())


# Candidates


def test_groups_and_patterns():
    known = BatchPolicies().groups()
    assert len(known["pairs36"]) == 36
    assert len(known["heuristics"]) >= 14 * 3
    assert {"fcfs+easy", "f4+easy_sjbf", "wfp3+easy_priority"} <= set(known["heuristics"])
    assert "sjf" in known["priorities"]
    assert not [name for name in known["priorities"] if "+" in name]
    names = [
        one.name for one in read_candidates(sweep(candidates=["first-*", "heuristics", "first-random", "sjf+easy"]))
    ]
    assert names[:2] == ["first-random", "first-high_gflops"]
    assert len(names) == 6 + len(known["heuristics"]), "each once"
    assert [one.name for one in read_candidates(sweep(candidates=["first-low_energy"]))] == ["first-low_power"]


def test_unknown_candidates():
    with pytest.raises(UnknownName, match="did you mean"):
        read_candidates(sweep(candidates=["fcsf+easy"]))
    with pytest.raises(UnknownName, match="did you mean 'heuristics'"):
        read_candidates(sweep(candidates=["heuristic"]))
    with pytest.raises(OptionsError, match=r"sweep.json: no policy fits 'zz\*'"):
        read_candidates(sweep(candidates=["zz*"]))
    with pytest.raises(ReadError, match=r"nobody\.py: no such file"):
        read_candidates(sweep(candidates=["nobody.py"]))
    with pytest.raises(ReadError, match=r"no such file"):
        read_candidates(sweep(candidates=["m=models/*.pt"]))


def test_files_become_candidates(tmp_path: Path):
    for name in ("a/my.py", "b/my.py", "m/s0.pt", "m/s1.pt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    read = lambda *texts, **more: read_candidates(sweep(tmp_path, candidates=list(texts), **more))  # noqa: E731
    (plain,) = read("a/my.py")
    assert (plain.name, plain.is_file, plain.is_model, plain.n_seeds) == ("my.py", True, False, 1)
    own = read("a/my.py+easy", "a/my.py-low_power", "a/my.py+easy_sjbf-low_power")
    assert [one.suffix for one in own] == ["+easy", "-low_power", "+easy_sjbf-low_power"]
    assert [one.name for one in own] == ["my.py+easy", "my.py-low_power", "my.py+easy_sjbf-low_power"]
    assert {one.files for one in own} == {(str(tmp_path / "a/my.py"),)}
    assert [one.name for one in read("one=a/my.py", "two=b/my.py")] == ["one", "two"]
    with pytest.raises(OptionsError, match=r"two candidates are called 'my.py'; name them: NAME=b/my.py"):
        read("a/my.py", "b/my.py")
    (method,) = read("ppo=m/*.pt", seeds=5)
    assert [Path(file).name for file in method.files] == ["s0.pt", "s1.pt"]
    assert (method.name, method.is_model, method.n_seeds) == ("ppo", True, 2), "one seed per training"
    assert [one.name for one in read("m/*.pt")] == ["s0.pt", "s1.pt"], "without a name, each for itself"
    assert read("m/s0.pt", seeds=3)[0].n_seeds == 3
    with pytest.raises(OptionsError, match="decides about backfilling itself"):
        read("m/s0.pt+easy")
    with pytest.raises(OptionsError, match="names 2 Python files"):
        read("x=*/my.py")


@pytest.mark.parametrize(
    ("policy", "draws"),
    [
        ("random-random", True),
        ("first-random", True),
        ("random+easy", True),
        ("fcfs-node_random", True),
        ("random-node_first", True),
        ("sjf+easy@nets/net.json-random", True),
        ("sjf+easy@random.json", False),
        ("sjf+easy@random/random_net.json/all~gate", False),
        ("fcfs+easy~off600", False),
        ("first-high_gflops", False),
    ],
)
def test_a_policy_draws_if_a_part_of_its_name_says_so(policy: str, *, draws: bool):
    assert BatchPolicies().draws(policy) is draws
    assert is_conservative("fcfs+conservative-low_power")
    assert not is_conservative("sjf+easy@my+conservative.json")


# Windows


class Jobs:
    """Stands in for a workload."""

    def __init__(self, n_jobs: int, name: str = "log") -> None:
        self.n_items, self.name = n_jobs, name


def starts(n_jobs: int = 1000, **changes) -> list[int]:
    return [case.first_job for case in judging(sweep(**changes), [Jobs(n_jobs)])]


def test_windows_lie_side_by_side():
    assert starts(windows={"length": 300}) == [0, 300, 600]
    assert starts(windows={"length": 100}, range=[0.7, 1.0]) == [700, 800, 900]
    assert starts(windows={"length": 100, "count": 2}, range=[0.7, 1.0]) == [700, 900], "spread evenly"
    assert starts(windows={"length": 100, "count": 1}) == [0]
    assert starts(windows={"length": 100, "warm_up": 50}, range=[0.0, 0.3]) == [50, 150]
    assert starts(windows={"length": 100, "warm_up": 50}, range=[0.7, 1.0]) == [700, 800, 900]
    assert starts(windows={"length": 100, "starts": [5, 50]}) == [5, 50]
    whole = judging(sweep(range=[0.7, 1.0]), [Jobs(1000)])
    assert whole == [Case("log", 0, 0, 700, 300)]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 9])
@pytest.mark.parametrize("n_jobs", [1000, 997, 1013])
def test_windows_never_share_jobs(count: int, n_jobs: int):
    found = judging(sweep(windows={"length": 100, "count": count}), [Jobs(n_jobs)])
    assert len(found) == count
    assert overlapping(found) == []
    assert all(0 <= case.first_job <= n_jobs - 100 for case in found)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"windows": {"length": 1001}}, "room for 0 windows of 1,001 jobs between job 0 and job 1,000"),
        ({"windows": {"length": 100, "count": 4}, "range": [0.7, 1.0]}, "room for 3 windows of 100 jobs"),
        ({"windows": {"length": 100, "starts": [901]}}, "has 1,000 jobs, but windows.starts has 901"),
        ({"windows": {"length": 100, "starts": [10], "warm_up": 11}}, "needs 11 jobs before it"),
        ({"range": [0.0001, 0.0002]}, r"range is \[0.0001, 0.0002\], which holds none of the 1,000 jobs of"),
    ],
)
def test_windows_that_do_not_exist(changes, message: str):
    with pytest.raises(OptionsError, match=message):
        starts(**changes)


def test_generated_cases_differ_by_load_number_and_part():
    asked = sweep(workloads=[], loads=[0.7, 0.9], windows={"length": 50, "count": 3})
    test, train = judging(asked, []), train_cases(asked, [], (0.0, 0.0))
    assert len({case.seed for case in test + train}) == 12
    assert [case.workload for case in test] == ["lublin@0.7"] * 3 + ["lublin@0.9"] * 3
    assert test == judging(asked, [])


def test_training_windows_are_all_that_fit_before():
    asked = sweep(windows={"length": 100, "count": 2}, range=[0.6, 1.0])
    assert [case.first_job for case in train_cases(asked, [Jobs(1000)], (0.0, 0.6))] == [0, 100, 200, 300, 400, 500]
    asked = sweep(windows={"length": 100, "starts": [700, 650]})
    assert [case.first_job for case in train_cases(asked, [Jobs(1000)], (0.0, 0.3))] == [0, 100, 200]
    both = sweep(windows={"length": 100, "count": 2}, range=[0.6, 1.0], loads=[0.7])
    assert [case.source for case in train_cases(both, [Jobs(1000)], (0.0, 0.6))] == [0] * 6 + [-1] * 2


def test_overlapping_windows_are_found():
    cases = judging(sweep(windows={"length": 100, "starts": [0, 50, 300, 399]}), [Jobs(1000)])
    assert [(a.window, b.window) for a, b in overlapping(cases)] == [(0, 1), (2, 3)]
    others = [dataclasses.replace(case, source=number) for number, case in enumerate(cases)]
    assert overlapping(others) == []


def test_batches_keep_points_of_a_case_together_and_lose_none():
    cases = [Case("log", 0, number, 0, 1000) for number in range(4)]
    points = [Point(case, candidate, 0) for candidate in range(30) for case in range(4)]
    pieces = batches(points, cases, 2)
    assert sorted(itertools.chain(*pieces)) == sorted(points)
    assert len(pieces) >= 8
    assert max(map(len, pieces)) <= 20
    assert all(piece == sorted(piece) for piece in pieces)
    assert batches([], cases, 2) == []


# The baseline


def test_the_training_part():
    assert training_shares(sweep(), METRICS) is None
    assert training_shares(sweep(baseline="best", range=[0.7, 1.0]), METRICS) == (0.0, 0.7)
    assert training_shares(sweep(baseline="best:0.1:0.6"), METRICS) == (0.1, 0.6)
    with pytest.raises(OptionsError, match=r"take --range 0\.7:1, or name the part: best:0:0\.7"):
        training_shares(sweep(baseline="best"), METRICS)
    for text in ("best:0.6:0.1", "best:x:1", "best:0.5", "best:0:2", "best:0:0.5:1"):
        with pytest.raises(OptionsError, match=r"expected best or best:FROM:TO"):
            training_shares(sweep(baseline=text), METRICS)


def test_the_best_is_the_least_geometric_mean():
    values = {"a": [1.0, 100.0], "b": [11.0, 11.0], "c": [math.nan, 1.0]}

    def choose(values, metric: str):
        return choose_baseline(values, metric, METRICS[metric], n_windows=2, n_jobs=10)

    chosen = choose(values, "mean_bounded_slowdown")
    assert chosen.chosen == "a", "geometric means 10 and 11; one that failed cannot be chosen"
    assert list(chosen.rows()[0]) == ["candidate", "geometric_mean_of_mean_bounded_slowdown", "is_chosen"]
    assert choose(values, "utilization").chosen == "b", "more is better"
    zeros = choose({"a": [0.0, 3.0], "b": [1.0, 1.0]}, "mean_wait_s")
    assert zeros.chosen == "b", "arithmetic with zeros"
    assert zeros.rows()[0] == {"candidate": "a", "arithmetic_mean_of_mean_wait_s": 1.5, "is_chosen": False}
    assert zeros.words() == "best of 2 by the arithmetic mean of mean_wait_s over 2 training windows (10 jobs)"
    seeds = choose({"a": [1.0, 2.0, 3.0, 4.0]}, "mean_wait_s")
    assert seeds.n_windows == 2, "four numbers of two windows with two seeds"
    with pytest.raises(OptionsError, match="none of 1 candidates has a mean_wait_s"):
        choose({"a": [math.nan]}, "mean_wait_s")


def test_no_baseline_is_the_best_by_a_metric_of_which_neither_side_is_better():
    metrics = METRICS | {"utilization": dataclasses.replace(METRICS["utilization"], lower_is_better=None)}
    asked = sweep(baseline="best:0:0.5", metrics=["utilization"])
    assert training_shares(asked, METRICS) == (0.0, 0.5)
    with pytest.raises(OptionsError, match="needs a metric with a better side, and utilization has none"):
        training_shares(asked, metrics)


# The table, verdicts and warnings

CASES = [Case("log", 0, number, 1000 * number, 100) for number in range(8)]
BASE = np.array([20.0, 30.0, 25.0, 40.0, 22.0, 31.0, 27.0, 45.0])
WAVE = np.exp(0.05 * np.array([1, -1, 2, -2, 1, -1, 0.5, -0.5]))


def measured(workloads=None, unrun=None, failed=None, **values) -> Measured:
    """Return numbers of candidates by their mean bounded slowdowns; every other metric is 1, no job is left."""
    tables, is_failed = {}, {}
    for name, row in values.items():
        column = np.array(row, dtype=float).reshape(len(row), -1)
        tables[name] = {metric: np.ones(column.shape) for metric in METRICS}
        for metric in ("n_rejected", "n_unfinished", "n_not_started"):
            tables[name][metric] = np.zeros(column.shape)
        tables[name]["n_jobs"] = np.full(column.shape, 100.0)
        tables[name]["mean_bounded_slowdown"] = column
        is_failed[name] = np.zeros(column.shape, dtype=bool)
    for name, count in (unrun or {}).items():
        tables[name]["n_not_started"][0] = count
    for name in failed or ():
        is_failed[name][0] = True
        tables[name]["mean_bounded_slowdown"][0] = math.nan
    n = len(next(iter(values.values())))
    return Measured(
        tuple(values),
        "base",
        tuple(workloads or ["log"] * n),
        tables,
        is_failed,
        METRICS,
        SETTINGS["batch"].measures.unrun,
    )


def rows_of(numbers: Measured, *metrics: str):
    return summarise(numbers, metrics or ["mean_bounded_slowdown"], seed=0, n_resamples=500, confidence=0.95)


def warned(numbers: Measured, cases=None, loads=None, candidates=(), **more) -> dict[str, str]:
    rows = rows_of(numbers)
    cases = CASES[: len(numbers.workloads)] if cases is None else cases
    loads = np.full(len(cases), 0.8) if loads is None else np.asarray(loads)
    found = cautions(
        numbers,
        rows,
        metric="mean_bounded_slowdown",
        cases=cases,
        loads=loads,
        candidates=candidates,
        classic={name for names in BATCH.policies.groups().values() for name in names},
        **more,
    )
    return {caution.kind: caution.text for caution in found}


def sentence(numbers: Measured, among: int = 1) -> str:
    (row,) = deciding_rows(rows_of(numbers), "mean_bounded_slowdown")
    return verdict(row, "base", METRICS[row.metric], among=among)


def test_a_verdict():
    text = sentence(measured(base=BASE, mine=BASE * 0.5 * WAVE))
    assert text.startswith("mine has 0.500 [0.4")
    assert text.endswith("] times the mean bounded slowdown of base over 8 windows (p = 0.0078): better.")
    assert sentence(measured(base=BASE, mine=BASE * 2 * WAVE)).endswith(": worse.")
    equal = sentence(measured(base=BASE, mine=BASE * WAVE))
    assert equal.endswith(": no difference shown (8 windows can detect changes of about 29% or more).")
    assert sentence(measured(base=BASE, mine=BASE)) == "mine decides as base does: all metrics are equal in 8 windows."
    assert sentence(measured(base=BASE, mine=BASE * 0.5 * WAVE), among=3).startswith(
        "the best of 3 candidates, mine, has"
    )
    low = sentence(measured(base=BASE, mine=BASE / 40))
    assert low.startswith("mine has a mean bounded slowdown 40.0 [40.0, 40.0] times lower than base over 8 windows (p ")
    one = sentence(measured(base=BASE[:1], mine=BASE[:1] / 2))
    assert (
        one == "mine has 0.500 times the mean bounded slowdown of base over 1 window: "
        "one window shows nothing beyond itself."
    )
    seeds = sentence(measured(base=BASE, mine=np.outer(BASE * WAVE, [0.5, 0.6, 0.7])))
    assert "over 8 windows and 3 seeds" in seeds
    left = sentence(measured(base=BASE, mine=BASE * 0.5 * WAVE, unrun={"mine": 7}))
    assert left.endswith(": better; but it left 7 of 800 jobs unrun.")
    failed = sentence(measured(base=BASE, mine=BASE * 0.5, failed=["mine"]))
    assert failed == (
        "mine cannot be compared with base by its mean bounded slowdown over 8 windows; it left 100 of 800 jobs unrun."
    )
    assert sentence(measured(base=BASE * 0, mine=BASE)).endswith(
        "over 8 windows: ratios need numbers above 0 on both sides, see the means."
    )


def beside_the_baseline(numbers: Measured) -> str:
    rows = rows_of(numbers)
    (row,) = deciding_rows(rows, "mean_bounded_slowdown")
    return verdict(row, "base", METRICS[row.metric], base=baseline_row(rows, row.metric))


def test_a_verdict_without_a_ratio_is_about_the_means():
    some = BASE * np.resize([0.0, 0.5, 0.4], len(BASE))
    better = beside_the_baseline(measured(base=BASE, mine=some))
    assert re.fullmatch(
        r"mine has the mean bounded slowdown [\d.]+ \[[\d., ]+\], base has [\d.]+ \[[\d., ]+\] over 8 windows "
        r"\(p = 0\.0078\): better; there is no ratio, because some windows have 0\.",
        better,
    )
    worse = beside_the_baseline(measured(base=some, mine=BASE))
    assert ": worse; there is no ratio" in worse
    few = np.array([0.0, *BASE[1:3] * 0.1, *BASE[3:] * 1.001])
    assert ": no difference shown; there is no ratio" in beside_the_baseline(measured(base=BASE, mine=few))
    failed = beside_the_baseline(measured(base=BASE, mine=BASE * 0.5, failed=["mine"]))
    assert "mine cannot be compared with base" in failed


def test_jobs_that_both_left_unrun_stand_side_by_side():
    both = beside_the_baseline(measured(base=BASE, mine=BASE * 0.5 * WAVE, unrun={"mine": 7, "base": 90}))
    assert both.endswith(": better; it left 7 of 800 jobs unrun, base 90.")


def test_a_mean_that_a_few_windows_make_against_most_is_no_verdict():
    ratios = np.concatenate([np.linspace(1.01, 1.011, 85), np.full(15, 0.5)])
    numbers = measured(base=np.full(100, 20.0), mine=20 * ratios)
    (row,) = deciding_rows(rows_of(numbers), "mean_bounded_slowdown")
    assert (row.ratio_high < 1, row.p_holm < 0.05, row.is_contested) == (True, True, True)
    assert is_better(row, METRICS[row.metric]) is None
    assert sentence(numbers).endswith(
        "): no difference shown (a few windows make the mean, and p speaks for the other side)."
    )
    plain = rows_of(measured(base=BASE, mine=BASE * 0.5 * WAVE))
    assert [one.is_contested for one in plain] == [False, False]


def test_a_metric_without_a_direction_has_no_better_side():
    numbers = measured(base=BASE, low=BASE * 0.5 * WAVE, high=BASE * 2 * WAVE, same=BASE * WAVE[::-1])
    info = dataclasses.replace(METRICS["mean_bounded_slowdown"], lower_is_better=None)
    numbers = dataclasses.replace(numbers, metrics=METRICS | {"mean_bounded_slowdown": info})
    rows = rows_of(numbers)
    judged = deciding_rows(rows, "mean_bounded_slowdown")
    assert [is_better(row, info) for row in judged] == [None, None, None]
    said = [verdict(row, "base", info) for row in judged]
    assert said[0].endswith(": lower.")
    assert said[1].endswith(": higher.")
    assert "no difference shown" in said[2]
    for name in ("worst", "p99", "bound", "improvement", "mean_rank"):
        assert all(math.isnan(getattr(row, name)) for row in rows), name
    told = headline(judged, "base", info, ["high"])
    assert told.startswith("high has 2.00 ")
    assert told.endswith(": higher. 2 of 3 candidates have a lower mean ratio; the lowest is low.")
    assert headline(judged, "base", info, []).startswith("the lowest of 3 candidates, low, has 0.500 ")
    words = " ".join([*said, told, headline(judged, "base", info, ["low"])])
    assert not {"better", "worse", "best"} & set(words.replace(".", " ").replace(",", " ").split())
    kinds = {
        caution.kind
        for caution in cautions(
            dataclasses.replace(numbers, baseline="base"),
            rows,
            metric="mean_bounded_slowdown",
            cases=CASES[:8],
            loads=np.full(8, 0.8),
            candidates=(),
            classic={"base", "low"},
        )
    }
    assert not {"weak-baseline", "best-of-many"} & kinds


@pytest.mark.parametrize("setting", ["gpu", "pipelines", "adaptation"])
def test_every_setting_has_metrics_of_which_neither_side_is_better(setting: str):
    infos = SETTINGS[setting].measures.metrics.values()
    neutral = [info for info in infos if info.lower_is_better is None]
    assert neutral
    assert {info.side(ratio) for info in neutral for ratio in (0.5, 2.0)} == {"lower", "higher"}
    assert {info.preference for info in neutral} == {"neither side is better"}


def test_what_is_shown_depends_on_the_confidence_alone():
    numbers = measured(base=BASE[:7], mine=BASE[:7] * 0.5 * WAVE[:7])

    def row(confidence: float):
        rows = summarise(numbers, ["mean_bounded_slowdown"], seed=0, n_resamples=500, confidence=confidence)
        return deciding_rows(rows, "mean_bounded_slowdown")[0]

    info = METRICS["mean_bounded_slowdown"]
    assert row(0.95).p_holm == row(0.99).p_holm == 2**-6
    assert is_better(row(0.95), info) is True
    assert is_better(row(0.99), info) is None, "p is 0.016, which is not below 0.01"
    assert verdict(row(0.99), "base", info).endswith("windows are too few to detect any).")
    assert not list(powerless(7, 1))
    assert "stays above 0.01; take 8 windows or more" in next(powerless(7, 1, 0.01)).text
    assert confidence_words(0.95) == "[95 %]"
    assert confidence_words(0.999) == "[99.9 %]"


def test_what_windows_can_show_depends_on_how_many_candidates_there_are():
    numbers = measured(base=BASE[:6], a=BASE[:6] * WAVE[:6], b=BASE[:6] * WAVE[::-1][:6])
    rows = deciding_rows(rows_of(numbers), "mean_bounded_slowdown")
    info = METRICS["mean_bounded_slowdown"]
    assert verdict(rows[0], "base", info, n_tests=2).endswith("windows are too few to detect any).")
    assert "windows are too few to detect any" in headline(rows, "base", info, ())
    assert verdict(rows[0], "base", info).endswith("windows can detect changes of about 33% or more).")


def test_holm_is_applied_across_candidates():
    numbers = measured(base=BASE, a=BASE * 0.5 * WAVE, b=BASE * WAVE, c=BASE * 0.6 * WAVE)
    rows = {row.candidate: row for row in rows_of(numbers)}
    assert rows["a"].p == pytest.approx(2 / 2**8)
    assert rows["a"].p_holm == pytest.approx(3 * 2 / 2**8)
    assert rows["b"].p_holm == pytest.approx(rows["b"].p)
    assert math.isnan(rows["base"].p)
    assert rows["base"].ratio == 1.0


def test_each_workload_has_rows_and_all_together():
    numbers = measured(["x"] * 4 + ["y"] * 4, base=BASE, mine=np.concatenate([BASE[:4] * 0.5, BASE[4:] * 2]))
    rows = {row.workload: row for row in rows_of(numbers) if row.candidate == "mine"}
    assert [rows[name].ratio for name in ("x", "y", "all")] == pytest.approx([0.5, 2.0, 1.0])
    assert rows["x"].n_windows == 4
    assert rows["x"].p_holm == pytest.approx(2 * rows["x"].p)


def test_a_missing_number_in_one_window_is_missing_altogether():
    rows = {row.candidate: row for row in rows_of(measured(base=BASE, mine=BASE * 0.5, failed=["mine"]))}
    assert math.isnan(rows["mine"].mean)
    assert math.isnan(rows["mine"].ratio)
    assert rows["mine"].n_failed == 1
    assert rows["base"].mean == pytest.approx(BASE.mean())
    both = rows_of(measured(base=BASE, mine=BASE * 0.5, failed=["mine", "base"]))
    assert [row.n_windows for row in both] == [7, 7], "a window without any number does not count"
    assert both[1].ratio == pytest.approx(0.5)


def test_times_that_dates_cannot_tell_from_zero_are_zero():
    numbers = measured(base=BASE, mine=BASE)
    for name, dust in (("base", 3e-10), ("mine", 2e-7)):
        numbers.values[name]["mean_wait_s"][:] = dust
    rows = rows_of(numbers, "mean_wait_s")
    assert [(row.mean, row.ratio) for row in rows] == [(0.0, 1.0), (0.0, 1.0)]
    numbers.values["mine"]["mean_wait_s"][0] = 5.0
    row = rows_of(numbers, "mean_wait_s")[1]
    assert row.mean == pytest.approx(5 / 8)
    assert math.isnan(row.ratio), "five seconds are not ten thousand million times nothing"


def test_zeros_everywhere():
    rows = rows_of(measured(base=np.zeros(8), mine=np.zeros(8)))
    assert (rows[1].mean, rows[1].ratio, rows[1].p) == (0.0, 1.0, 1.0)


def test_nothing_to_warn_of():
    assert warned(measured(base=BASE, mine=BASE * 0.5 * WAVE)) == {}


def test_unrun_jobs_are_warned_of():
    text = warned(measured(base=BASE, mine=BASE * 0.5, unrun={"mine": 7}))["unrun"]
    assert text == "mine left jobs unrun (7 not started): its means are those of the jobs that it chose"


def test_failed_simulations_are_warned_of():
    assert (
        "mine could not be simulated to the end in 1 of 8"
        in warned(measured(base=BASE, mine=BASE, failed=["mine"]))["failed"]
    )


def test_windows_that_share_jobs_are_warned_of():
    cases = [dataclasses.replace(case, first_job=99 * case.window) for case in CASES]
    text = warned(measured(base=BASE, mine=BASE), cases=cases)["overlap"]
    assert text.startswith("windows 0 and 1 of log share jobs, and 6 more pairs do")


def test_models_that_knew_the_windows_are_warned_of():
    text = "mine was trained on 3 of 8 windows"
    assert warned(measured(base=BASE, mine=BASE), of_windows=[("trained-on", text)])["trained-on"] == text


def test_clairvoyants_among_others_are_warned_of():
    numbers = measured(base=BASE, mine=BASE, oracle=BASE)
    assert "oracle sees true run times" in warned(numbers, clairvoyant=["oracle"])["clairvoyant"]
    assert "oracle, mine see true" in warned(numbers, clairvoyant=["oracle", "mine"])["clairvoyant"]
    assert "clairvoyant" not in warned(numbers, clairvoyant=["oracle", "mine", "base"])


def test_exact_estimates_are_warned_of():
    text = warned(measured(base=BASE, mine=BASE), exact=["log"])["exact-estimates"]
    assert text.startswith("requested times are the true run times in log: ")


def test_too_much_load_is_warned_of():
    text = warned(measured(base=BASE, mine=BASE), loads=[0.5] * 6 + [1.0, 1.25])["overload"]
    assert text.startswith("the offered load is 1 or more in 2 of 8 windows (log; up to 1.25)")
    assert "overload" not in warned(measured(base=BASE, mine=BASE), loads=[0.99] * 8)
    assert "overload" not in warned(measured(base=BASE, mine=BASE), loads=[math.nan] * 8)


def test_too_few_windows_are_warned_of():
    small = np.exp(0.001 * np.arange(8))
    text = warned(measured(base=BASE, mine=BASE * 0.95 * small))["few-windows"]
    assert text.startswith("mine: 8 windows are few for a change of 4.7%; about 4")
    assert "few-windows" not in warned(measured(base=BASE, mine=BASE * WAVE)), "nothing is claimed"
    assert "few-windows" not in warned(measured(base=BASE, mine=BASE * 0.5 * WAVE)), "large enough"


def test_windows_of_accuracies_count_by_what_is_seen():
    small = np.exp(0.001 * np.arange(8))
    numbers = measured(base=BASE, mine=BASE * 0.95 * small)
    info = dataclasses.replace(METRICS["mean_bounded_slowdown"], varies_little=True)
    numbers = dataclasses.replace(numbers, metrics={**METRICS, "mean_bounded_slowdown": info})
    assert "few-windows" not in warned(numbers)
    (row,) = deciding_rows(rows_of(measured(base=BASE, mine=BASE * WAVE)), "mean_bounded_slowdown")
    (open_,) = re.findall(r"changes of about (\d+)%", verdict(row, "base", info))
    assert int(open_) < 15


def test_windows_that_cannot_show_anything_are_warned_of():
    five, six = (measured(base=BASE[:n], mine=BASE[:n] / 9) for n in (5, 6))
    assert "powerless" not in warned(six)
    assert warned(five)["powerless"] == (
        "5 windows cannot show any difference between a candidate and the baseline, however large it is: Wilcoxon's p "
        "stays above 0.05; take 6 windows or more"
    )
    assert sentence(six).endswith(": better.")
    assert "no difference shown" in sentence(five)
    assert "take 10 windows or more" in next(powerless(9, 20)).text
    assert not list(powerless(1, 0))


def test_few_trainings_are_warned_of():
    models = [Candidate("mine", files=tuple(f"{n}.pt" for n in range(count)), n_seeds=count) for count in (1, 3, 10)]
    numbers = measured(base=BASE, mine=BASE)
    assert "mine is the result of one training" in warned(numbers, candidates=[models[0]])["few-trainings"]
    assert "3 trainings" in warned(numbers, candidates=[models[1]])["few-trainings"]
    assert "few-trainings" not in warned(numbers, candidates=[models[2]])


def test_the_headline_is_about_what_was_learned():
    numbers = measured(base=BASE, sjf=BASE * 0.5, mine=BASE * 0.8, other=BASE * 2)
    rows = deciding_rows(rows_of(numbers), "mean_bounded_slowdown")

    def told(*learned: str) -> str:
        return headline(rows, "base", METRICS["mean_bounded_slowdown"], learned)

    assert told().startswith("the best of 3 candidates, sjf, has 0.500 ")
    assert told("mine").startswith("mine has 0.800 ")
    assert told("mine").endswith(": better. 1 of 3 candidates has a better mean ratio; the best is sjf.")
    assert told("mine", "other").startswith("the best of 2 learned candidates, mine, has 0.800 ")
    assert told("sjf").endswith(" The 2 other candidates have worse mean ratios.")
    rows = [dataclasses.replace(row, ratio=math.nan) if row.candidate == "other" else row for row in rows]
    assert told("sjf").endswith(": better. The other candidate has a worse mean ratio. 1 candidate has no mean ratio.")
    assert headline([], "base", METRICS["mean_bounded_slowdown"], ()) == ""


def test_a_weak_baseline_is_warned_of():
    names = {"fcfs+easy": BASE, "f4+easy_sjbf": BASE * 0.5 * WAVE, "mine.pt": BASE * 0.8 * WAVE}
    numbers = dataclasses.replace(measured(**names), baseline="fcfs+easy")
    text = warned(numbers)["weak-baseline"]
    assert "f4+easy_sjbf has 0.500 times its mean bounded slowdown" in text
    strong = dataclasses.replace(numbers, baseline="f4+easy_sjbf")
    assert "weak-baseline" not in warned(strong)
    few = {name: values[:3] for name, values in names.items()}
    few = dataclasses.replace(measured(**few), baseline="fcfs+easy")
    assert "weak-baseline" in warned(few), "three windows show nothing, and twice as bad is weak nevertheless"
    close = {"fcfs+easy": BASE, "f4+easy_sjbf": BASE * 0.97, "mine.pt": BASE}
    assert "weak-baseline" not in warned(dataclasses.replace(measured(**close), baseline="fcfs+easy"))
    classics = {"fcfs+easy": BASE, "f4+easy_sjbf": BASE * 0.5 * WAVE}
    assert "weak-baseline" not in warned(dataclasses.replace(measured(**classics), baseline="fcfs+easy"))


def test_a_baseline_chosen_by_the_test_is_warned_of():
    numbers = measured(base=BASE, mine=BASE)
    training = [Case("log", 0, 0, 0, 1050)]
    assert "jobs of 2 of the 8 windows" in warned(numbers, training=training)["chosen-on-test"]
    assert "chosen-on-test" not in warned(numbers, training=[Case("log", 0, 0, 100, 900)])
    assert "chosen-on-test" not in warned(numbers, training=[Case("other", 1, 0, 0, 9000)])


def test_the_best_of_many_is_warned_of():
    numbers = measured(base=BASE, a=BASE, b=BASE)
    assert "the best of 2 candidates" in warned(numbers)["best-of-many"]
    assert "best-of-many" not in warned(numbers, candidates=[Candidate("a", files=("a.pt",))])


def test_words():
    assert metric_words("mean_bounded_slowdown") == "mean bounded slowdown"
    assert metric_words("energy_delay_product_js") == "energy delay product"
    assert metric_words("p99_wait_s") == "p99 wait"
    assert metric_words("throughput_jobs_per_h") == "throughput"
    assert [number_words(x) for x in (0.0, 0.4712, 1.0, 28.75, 1234.5, 5e9, 1e-5, math.nan)] == [
        "0", "0.471", "1.00", "28.8", "1,234", "5e+09", "1e-05", "-",
    ]  # fmt: skip


def test_a_comparison_in_which_nobody_waits_is_warned_of():
    numbers = measured(base=BASE, mine=BASE)
    assert "idle" not in warned(numbers)
    for tables in numbers.values.values():
        tables["max_wait_s"][:] = 1e-9
    assert "no job waited in any window under any candidate" in warned(numbers)["idle"]


@pytest.mark.parametrize("n_dependent", [0, 3])
def test_jobs_that_name_a_preceding_one_are_warned_of(tmp_path: Path, n_dependent: int):
    log = lublin_log(20, 16, load=0.5)
    log.rows["preceding_job"][1 : 1 + n_dependent] = 1
    write_swf(log, tmp_path / "log.swf")
    asked = sweep(tmp_path, platform="homogeneous:16", workloads=["log.swf"])
    found = dict(SETTINGS["batch"].inputs.cautions(asked, read_platform("homogeneous:16"), []))
    told = found.get("dependencies", "")
    assert told.startswith("log.swf: 3 of 20 jobs name a preceding job") if n_dependent else not told
    assert ("are ignored" in told) == bool(n_dependent)


def test_fewer_jobs_than_asked_for_are_warned_of():
    workloads = [Jobs(100, "short"), Jobs(300, "long")]
    assert cautions_of_size(sweep(nb_jobs=200), workloads) == [
        ("fewer-jobs", "nb_jobs is 200, but short has 100 usable jobs")
    ]
    assert cautions_of_size(sweep(), workloads) == []


@pytest.mark.parametrize(("platform", "is_told"), [("homogeneous:16", False), ("homogeneous:640", True)])
def test_a_log_of_another_machine_is_warned_of(tmp_path: Path, platform: str, *, is_told: bool):
    write_swf(lublin_log(20, 16, load=0.5), tmp_path / "log.swf")
    asked = sweep(tmp_path, platform=platform, workloads=["log.swf"])
    machine = read_platform(platform)
    found = dict(SETTINGS["batch"].inputs.cautions(asked, machine, []))
    expected = f"log.swf is the log of a machine with 16 processors (MaxProcs), and {machine.name} has 640"
    assert expected in found["machine-size"] if is_told else found == {}


@pytest.mark.parametrize(("setting", "workload"), [("gpu", "poisson"), ("pipelines", "generated")])
def test_a_generator_is_not_mixed_with_its_own_offered_loads(
    monkeypatch: pytest.MonkeyPatch, setting: str, workload: str
):
    asked = SimpleNamespace(where="compare", workloads=[workload], loads=[0.85])
    chosen = SETTINGS[setting]
    monkeypatch.setattr(type(chosen.inputs), "loads", lambda *_: [])
    assert chosen.inputs.generator == workload
    with pytest.raises(OptionsError, match=f"workload '{workload}' is the generator of loads.*0.85 would share one"):
        read_loads(asked, chosen, None)
    asked.loads = []
    assert read_loads(asked, chosen, None) == []


def test_policies_stand_beside_themselves_with_true_run_times(tmp_path: Path) -> None:
    asked = {
        **{"platform": "homogeneous:64", "loads": [1.1], "windows": {"length": 40, "count": 8}},
        **{"candidates": ["fcfs+easy", "sjf+easy"], "metrics": ["mean_bounded_slowdown"]},
    }
    plain = run_comparison(make_sweep({**asked}, where="compare"), out=tmp_path / "plain", n_workers=1)
    twins = {**asked, "candidates": ["fcfs+easy", "sjf+easy", "sjf+easy@clairvoyant/all"]}
    named = run_comparison(make_sweep(twins, where="compare"), out=tmp_path / "named", n_workers=1)
    bounded = run_comparison(make_sweep({**asked, "bound": True}, where="compare"), out=tmp_path / "bound", n_workers=1)
    assert '"bound"' not in (tmp_path / "plain" / "sweep.json").read_text()
    ours, theirs, by_name = (
        [row for row in one.rows if (row.metric, row.workload) == (one.metric, "all")]
        for one in (bounded, plain, named)
    )
    assert [row.candidate for row in ours] == [
        *("fcfs+easy", "sjf+easy", "fcfs+easy, true run times", "sjf+easy, true run times")
    ]
    means = {row.candidate: row.mean for row in ours}
    assert {row.candidate: row.mean for row in theirs}.items() <= means.items()
    assert means["sjf+easy, true run times"] == by_name[2].mean
    # The winner is found among those that were asked about.
    assert bounded.verdict.startswith("sjf+easy ")
    assert "clairvoyant" not in {caution.kind for caution in bounded.cautions}, "hdrl added them to be that"
    *_, said = bounded.verdicts
    of_twin, of_policy = (
        next(row.ratio for row in ours if row.candidate == name) for name in ("sjf+easy, true run times", "sjf+easy")
    )
    assert said.startswith(f"With true run times, sjf+easy has {number_words(of_twin / of_policy)} [")
    assert read_comparison(tmp_path / "bound").verdicts == bounded.verdicts
    with pytest.raises(OptionsError, match="bound: no candidate"):
        run_comparison(
            make_sweep(
                {**twins, "candidates": ["sjf+easy@clairvoyant"], "baseline": "sjf+easy@clairvoyant", "bound": True},
                where="compare",
            ),
            out=tmp_path / "none",
        )
