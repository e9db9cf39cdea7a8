"""Comparisons: from a sweep to a folder with all points, their table and the verdict."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hdrl.base.errors import HdrlError, MissingExtra, OptionsError
from hdrl.base.files import write_json
from hdrl.distributed import check_executor, default_workers, run_tasks
from hdrl.experiment.compare.candidates import Candidate, read_candidates, with_bounds
from hdrl.experiment.compare.cases import Case, cautions_of_size, check_number, test_cases, train_cases
from hdrl.experiment.compare.cautions import Caution, cautions, powerless
from hdrl.experiment.compare.files import (
    FILES,
    SUMMARY_FILE,
    Comparison,
    LookTaken,
    PeerBaseline,
    load_parquet,
    read_comparison,
    write_comparison,
)
from hdrl.experiment.compare.knowledge import (
    JudgingWindows,
    cautions_of_models,
    cautions_of_windows,
    deciders_of_files,
    hidden_information_users,
    peer_groups,
)
from hdrl.experiment.compare.points import Point, PointResult, PointRunner, batches
from hdrl.experiment.compare.pointstore import PointStore, Scope, check_identity, finished_identity
from hdrl.experiment.compare.selection import Selection, choose_baseline, training_shares
from hdrl.experiment.compare.summary import (
    Measured,
    SummaryRow,
    baseline_row,
    correlated_windows,
    deciding_rows,
    summarise,
    tails_of,
)
from hdrl.experiment.compare.verdict import Criteria, Tail, differs, headline, ratio_words, verdict
from hdrl.experiment.decider import Decider, ModelDecider
from hdrl.experiment.plan import Plan, plan_of, setting_for
from hdrl.experiment.run.inputs import RESUME_FILE, SWEEP_FILE, write_sweep
from hdrl.experiment.run.manifest import write_manifest
from hdrl.experiment.run.progress import quiet
from hdrl.experiment.run.results import inputs_of, versions
from hdrl.metrics.statistics import look_levels, look_sizes
from hdrl.metrics.words import metric_words
from hdrl.options.sweep import Sweep
from hdrl.setting import Cautions, Load, Machine, PolicyBook, Setting, setting_ref

__all__ = ["SUMMARY_FILE", "CompareProgress", "Comparison", "read_comparison", "run_comparison"]


@dataclass(frozen=True, slots=True)
class CompareProgress:
    """Progress callbacks of a comparison."""

    message: Callable[[str], None] = quiet  # gets a line of text at each new stage
    points: Callable[[int, int], None] = quiet  # gets the finished points and all points of the stage
    # entered while processes start, see `hdrl.distributed.run_tasks`
    starting: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext


def run_comparison(
    sweep: Sweep,
    *,
    out: str | Path,
    n_workers: int | None = None,
    on: str = "local",
    progress: CompareProgress | None = None,
    peer_baselines: Mapping[str, str] | None = None,
) -> Comparison:
    """Compare candidates, and write the results into a folder.

    The folder holds ``results.csv`` (a row per candidate, window and seed, all metrics; also as Parquet if polars is
    installed), ``summary.csv`` and ``summary.json`` (the table, the verdict, the warnings), ``sweep.json`` (what was
    compared, every default filled in: a sweep file again), ``provenance.json``, ``timing.json``, and ``selection.csv``
    if the baseline was chosen. All but ``timing.json`` have the same bytes wherever and by however many workers
    they are made. Until it is finished it holds ``points.jsonl`` instead; the same call takes it up again.

    The folder is new, empty, or of the same comparison. ``n_workers`` and ``on`` are those of
    `hdrl.distributed.run_tasks`. ``peer_baselines`` are policies that another comparison has chosen, by the group in
    which they are the best with the same predictions.
    """
    out = Path(out)
    check_executor(on)
    _check_statistics()
    reporter = progress or CompareProgress()
    # Candidates are read before logs, which may take long: a mistyped name is reported at once.
    candidates = read_candidates(sweep, setting_for(sweep).policies)
    plan = _judging(plan_of(sweep, out), candidates, peer_baselines)
    found = finished_identity(out)
    if found is not None:
        check_identity(out, found, plan.identity)
        return read_comparison(out)
    most = plan.setting.simulator.max_simulations_per_host(plan.request)
    if most is not None and on != "local":
        raise OptionsError(f"--on is {on!r}, but these simulations are limited to {most} at a time: expected local")
    began_s = time.perf_counter()
    store = PointStore(out, plan.identity, plan.setting.measures.metrics, plan.scope)
    try:
        write_sweep(out, plan.request)
        n_before = len(store.results)
        if n_before:
            reporter.message(f"{out}: continues, {n_before:,} points are there")
        if not plan.request.is_continuous:
            for caution in powerless(plan.n_test, plan.n_tests, round(1 - sweep.confidence, 12)):
                reporter.message(f"warning: {caution.text}")
        _warm_up(plan, reporter)
        work = _Work(plan, store, most or n_workers or default_workers(), on, reporter)
        result = _finish(plan, work)
        n_simulated = len(store.results) - n_before
        write_json(out / "timing.json", {"simulated": n_simulated, "seconds": time.perf_counter() - began_s})
        store.discard()
        write_manifest(out, FILES)
    except HdrlError:
        if not store.results:
            # Nothing was lost: once the mistake is corrected, the folder can be used again.
            for name in (SWEEP_FILE, RESUME_FILE):
                (out / name).unlink(missing_ok=True)
            store.discard()
        raise
    finally:
        store.close()
    return dataclasses.replace(result, n_simulated=n_simulated)


class ComparisonLook(NamedTuple):
    """Some of the cases, after which the comparison may end."""

    cases: list[int]
    number: int
    level: float


@dataclass(frozen=True, slots=True)
class _Plan(Plan[Sweep]):
    """Everything that is known before the first simulation: further opponents, metrics, and how to judge."""

    runner: PointRunner
    candidates: tuple[Candidate, ...]
    opponents: tuple[Candidate, ...]
    peer_baselines: Mapping[str, tuple[Candidate, ...]]
    bounds: Mapping[str, Candidate]
    knowing: Mapping[str, Sequence[str]]
    baseline: str
    n_test: int
    identity: dict[str, Any]
    deciders: dict[str, list[Decider]]
    metrics: tuple[str, ...]

    @property
    def looks(self) -> list[ComparisonLook]:
        """Cases of each look, in order, and the level of each test."""
        level, windows = round(1 - self.request.confidence, 12), self.request.windows
        everything = list(range(self.n_test))
        if windows is None or windows.up_to is None or windows.count is None:
            return [ComparisonLook(everything, 1, level)]
        sizes = look_sizes(windows.count, windows.up_to)
        levels = look_levels(sizes, level)
        # The windows of a look lie evenly among those of the next one.
        strides = [2 ** (len(sizes) - number) for number in range(1, len(sizes) + 1)]
        return [
            ComparisonLook(
                [case for case in everything if self.runner.cases[case].window % stride == 0], number, round(each, 12)
            )
            for number, (stride, each) in enumerate(zip(strides, levels, strict=True), start=1)
        ]

    @property
    def tails(self) -> list[str]:
        """The metrics of the tail beside the deciding one."""
        metric = self.metrics[0]
        tails = self.request.tails
        if tails is None:
            return tails_of(metric, self.setting.measures.metrics)
        return [one for one in tails if one != metric]

    @property
    def criteria(self) -> Criteria:
        """Criteria for equal, and for no worse."""
        return Criteria(self.request.equal_within, self.request.tail_margin)

    @property
    def trainings(self) -> dict[str, str]:
        """By candidate that is the average of the trainings of another, that other one."""
        found = {}
        for one in self.candidates:
            parts = [part for decider in self.deciders.get(one.name, ()) for part in decider.knowledge().averages]
            for other in self.candidates:
                if parts and other.name != one.name and sorted(other.sha256) == sorted(parts):
                    found[one.name] = other.name
        return found

    @property
    def n_tests(self) -> int:
        """Number of candidates that are tested against the baseline, if known before it is chosen."""
        return sum(candidate.name != self.baseline for candidate in self.candidates)

    @property
    def training(self) -> tuple[Case, ...]:
        """The cases that the baseline is chosen by."""
        return self.runner.cases[self.n_test :]

    @property
    def scope(self) -> Scope:
        """Number of simulations that are known before the baseline is chosen."""
        choices = [self.opponents, *(those for those in self.peer_baselines.values() if len(those) > 1)]
        choosing = {one.name: one.n_seeds for those in choices for one in those}
        n_judging = self.n_test * sum(one.n_seeds for one in self.candidates)
        n_choosing = len(self.training) * sum(choosing.values())
        return Scope(self.n_test, n_judging + n_choosing, bool(self.opponents or self.peer_baselines))


def _judging(plan: Plan[Sweep], candidates: list[Candidate], chosen: Mapping[str, str] | None = None) -> _Plan:
    """Read the candidates, and list what is to be simulated; rivals may have been chosen."""
    sweep, setting, machine, workloads = plan.request, plan.setting, plan.machine, plan.loads
    policies, infos = setting.policies, setting.measures.metrics
    metrics = _verdict_metrics(sweep, setting, machine)
    shares = training_shares(sweep, infos)
    baseline, opponents = "", []
    if shares is None:
        candidates, baseline = _with_baseline(sweep, policies, candidates)
    else:
        opponents = read_candidates(sweep, policies, [sweep.opponents])
    whole = _with_all_windows(sweep)
    cases = test_cases(whole, workloads, setting=setting)
    training = train_cases(whole, workloads, shares, setting=setting) if shares is not None else []
    check_number(whole, len(cases) + len(training), [*candidates, *opponents])
    deciders = deciders_of_files([*candidates, *opponents], setting)
    for one in itertools.chain.from_iterable(deciders.values()):
        if isinstance(one, ModelDecider):
            one.model.check_can_play(machine)
    needs_peers = shares is not None or chosen is not None
    knowing = peer_groups(deciders, candidates, setting) if needs_peers else {}
    peer_baselines = {
        group: tuple(read_candidates(sweep, policies, [(chosen or {}).get(group, group)])) for group in knowing
    }
    bounds = with_bounds(sweep, policies, candidates) if sweep.bound else {}
    candidates = [*candidates, *bounds.values()]
    known = [*opponents, *candidates, *(one for those in peer_baselines.values() for one in those)]
    by_name = {candidate.name: candidate for candidate in known}
    runner = PointRunner(
        place=setting_ref(sweep.setting_name, sweep.folder),
        sweep=sweep,
        machine=machine,
        workloads=workloads,
        cases=(*cases, *training),
        candidates=tuple(by_name.values()),
    )
    identity = {
        "sweep": sweep.sha256(),
        "platform": {**machine.facts(), "sha256": machine.sha256()},
        "workloads": [inputs_of(machine, one)["workload"] for one in workloads],
        "candidates": {name: candidate.identity() for name, candidate in by_name.items()},
        "versions": versions(),
    }
    # As a file would give it back.
    identity = json.loads(json.dumps(identity))
    return _Plan(
        sweep,
        setting,
        machine,
        workloads,
        plan.out,
        runner=runner,
        candidates=tuple(candidates),
        opponents=tuple(opponents),
        peer_baselines=peer_baselines,
        bounds=bounds,
        knowing=knowing,
        baseline=baseline,
        n_test=len(cases),
        identity=identity,
        deciders=deciders,
        metrics=metrics,
    )


def _verdict_metrics(sweep: Sweep, setting: Setting, machine: Machine) -> tuple[str, ...]:
    """Return the metrics that need a verdict: all requested ones; of the default ones the first."""
    plain = sweep.model_copy(update={"metrics": None})
    usual = plain.completed(machine, baseline=setting.policies.default_baseline, metrics=setting.measures.compared)
    metrics = sweep.metrics or list(setting.measures.compared)
    return tuple(metrics[:1] if metrics == usual.metrics else metrics)


def _with_all_windows(sweep: Sweep) -> Sweep:
    """Return a sweep with as many windows as its last look has."""
    windows = sweep.windows
    if windows is None or windows.up_to is None:
        return sweep
    return sweep.model_copy(update={"windows": windows.model_copy(update={"count": windows.up_to, "up_to": None})})


def _with_baseline(sweep: Sweep, policies: PolicyBook, candidates: Sequence[Candidate]) -> tuple[list[Candidate], str]:
    """Return the candidates with the baseline among them, and its name."""
    baseline = sweep.baseline or ""  # `Sweep.completed` has given it a name
    if baseline in [candidate.name for candidate in candidates]:
        return list(candidates), baseline
    found = read_candidates(sweep, policies, [baseline])
    if len(found) != 1:
        raise OptionsError(f"{sweep.where}: baseline {baseline!r} stands for {len(found)} candidates, expected one")
    names = [candidate.name for candidate in candidates]
    return ([] if found[0].name in names else [found[0]]) + list(candidates), found[0].name


class _Work:
    """Simulates points that are not there yet."""

    def __init__(self, plan: _Plan, store: PointStore, n_workers: int, on: str, reporter: CompareProgress) -> None:
        self._plan, self._store, self._progress = plan, store, reporter
        self._n_workers, self._on = n_workers, on
        self._index = {candidate.name: number for number, candidate in enumerate(plan.runner.candidates)}

    def results(
        self, candidates: Sequence[Candidate], cases: Sequence[int], meanwhile: Callable[[], object] | None = None
    ) -> dict[Point, PointResult]:
        """Return the results of candidates on cases, with all their seeds; see `hdrl.distributed.run_tasks`."""
        runner = self._plan.runner
        points = [
            Point(case, self._index[candidate.name], seed)
            for case in cases
            for candidate in candidates
            for seed in range(candidate.n_seeds)
        ]
        missing = [point for point in points if self._key(point) not in self._store.results]
        done = len(points) - len(missing)
        pieces = batches(missing, runner.cases, self._n_workers)
        self._progress.points(done, len(points))

        def keep(index: int, results: Sequence[PointResult]) -> None:
            nonlocal done
            keys = [self._key(point) for point in pieces[index]]
            self._store.add(dict(zip(keys, results, strict=True)))
            done += len(results)
            self._progress.points(done, len(points))

        run_tasks(
            runner,
            pieces,
            on=self._on,
            # A cluster that runs already decides itself how much it can do at a time.
            n_workers=None if self._on.startswith("ray:") else self._n_workers,
            on_result=keep,
            describe=runner.describe,
            starting=self._progress.starting,
            meanwhile=meanwhile,
        )
        return {point: self._store.results[self._key(point)] for point in points}

    def _key(self, point: Point) -> str:
        return f"{point.case}/{self._plan.runner.candidates[point.candidate].name}/{point.seed}"


def _finish(plan: _Plan, work: _Work) -> Comparison:
    """Choose the opponents, simulate until enough is shown, and write the results."""
    metric, infos = plan.metrics[0], plan.setting.measures.metrics
    candidates, baseline, selection, peer_baselines = _with_opponents(plan, work)
    extra_opponents = {*peer_baselines.values()} - {one.name for one in plan.candidates}
    extra_opponents |= {one.name for one in plan.bounds.values()}
    requested = plan.request.metrics or plan.setting.measures.compared
    metrics = list(dict.fromkeys([*requested, *plan.tails]))
    for look in plan.looks:
        # Not while a baseline is chosen: workers cannot be copies of a process with Polars' threads.
        results = work.results(candidates, look.cases, meanwhile=load_parquet)
        measured = _measured(plan, candidates, baseline, results, look.cases)
        rows = _summarise(plan, measured, metrics, look)
        deciding = deciding_rows(rows, metric)
        judged = [row for row in deciding if row.candidate not in extra_opponents]
        if all(differs(row) for row in judged):
            break
    tails = [Tail(row, infos[name]) for name in plan.tails for row in deciding_rows(rows, name)]
    learned = {one.name for one in candidates if one.is_model}
    words = headline(
        judged,
        baseline,
        infos[metric],
        learned,
        n_tests=len(deciding),
        tails=tails,
        criteria=plan.criteria,
        base=baseline_row(rows, metric),
    )
    comparison = Comparison(
        folder=plan.out,
        baseline=baseline,
        metric=metric,
        verdict=words + _look_words(plan, look),
        verdicts=(*_verdicts(plan, rows, baseline, tails), *_clairvoyant_gains(plan, measured, look)),
        cautions=_cautions(plan, measured, rows, candidates, results, look, extra_opponents),
        rows=tuple(rows),
        n_points=len(results),
        n_simulated=0,
        metrics=infos,
        peer_baselines=tuple(
            _compare_with_peer(plan, measured, group, name, look) for group, name in peer_baselines.items()
        ),
        verdict_metrics=plan.metrics,
        tails=tuple(plan.tails),
        added=tuple(name for name in metrics if name not in requested),
        criteria=plan.criteria,
        look=None if len(plan.looks) == 1 else LookTaken(look.number, len(plan.looks), look.level),
    )
    write_comparison(plan.runner, comparison, results, selection, plan.identity)
    return comparison


def _with_opponents(plan: _Plan, work: _Work) -> tuple[list[Candidate], str, Selection | None, dict[str, str]]:
    """Return the candidates with all opponents, the baseline, how it was chosen, and the rivals by their groups."""
    candidates, baseline, selection = list(plan.candidates), plan.baseline, None
    peer_baselines: dict[str, str] = {}
    if plan.opponents:
        selection = _select(plan, work, plan.opponents)
        baseline = selection.chosen
        _add_opponent(candidates, plan.opponents, baseline)
    for group, those in plan.peer_baselines.items():
        peer_baselines[group] = those[0].name if len(those) == 1 else _select(plan, work, those).chosen
        _add_opponent(candidates, those, peer_baselines[group])
    return candidates, baseline, selection, peer_baselines


def _cautions(
    plan: _Plan,
    measured: Measured,
    rows: Sequence[SummaryRow],
    candidates: Sequence[Candidate],
    results: Mapping[Point, PointResult],
    look: ComparisonLook,
    extra_opponents: Collection[str],
) -> tuple[Caution, ...]:
    """Return cautions for readers."""
    metric, inputs = plan.metrics[0], plan.setting.inputs
    cases = [plan.runner.cases[number] for number in look.cases]
    loads = {point.case: result.offered_load for point, result in results.items()}
    deciders = {one.name: plan.deciders[one.name] for one in candidates if one.name in plan.deciders}
    untrained = {name for name, those in deciders.items() if not any(one.knowledge().is_trained for one in those)}
    bounds = {one.name for one in plan.bounds.values()}
    exact: list[str] = []
    of_inputs: list[tuple[str, str]] = []
    if isinstance(inputs, Cautions):
        exact = inputs.exact_estimates(plan.request, plan.loads)
        of_inputs = inputs.cautions(plan.request, plan.machine, plan.loads)

    def generate(case: Case) -> Load:
        return case.items(plan.setting, plan.machine, plan.loads, plan.request)

    judging = JudgingWindows(cases, plan.loads, plan.machine, generate)
    found = cautions(
        measured,
        rows,
        metric=metric,
        cases=cases,
        loads=np.array([loads[number] for number in look.cases]),
        candidates=[one for one in _with_trainings(candidates, measured.trainings) if one.name not in untrained],
        clairvoyant=hidden_information_users(
            deciders, [one for one in candidates if one.name not in bounds], plan.setting
        ),
        hidden=plan.setting.policies.hidden,
        exact=exact,
        of_windows=[*cautions_of_windows(deciders, judging), *correlated_windows(measured, metric)],
        training=plan.training,
        classic={name for names in plan.setting.policies.groups().values() for name in names},
        extra_opponents=extra_opponents,
        of_setting=[*of_inputs, *cautions_of_models(deciders), *cautions_of_size(plan.request, plan.loads)],
    )
    if any(row.n_weeks for row in deciding_rows(rows, metric)):
        return tuple(caution for caution in found if caution.kind not in ("powerless", "few-windows"))
    return tuple(found)


def _with_trainings(candidates: Sequence[Candidate], trainings: Mapping[str, str]) -> list[Candidate]:
    """Return candidates, averages with the files of the trainings that their intervals include."""
    files = {one.name: one.files for one in candidates}
    return [
        dataclasses.replace(one, files=files[trainings[one.name]]) if one.name in trainings else one
        for one in candidates
    ]


def _summarise(plan: _Plan, measured: Measured, metrics: Sequence[str], look: ComparisonLook) -> list[SummaryRow]:
    """Return the table at the level of a look."""
    sweep = plan.request
    return summarise(
        measured, metrics, seed=sweep.seed, n_resamples=sweep.resamples, confidence=round(1 - look.level, 12)
    )


def _verdicts(plan: _Plan, rows: Sequence[SummaryRow], baseline: str, tails: Sequence[Tail]) -> Iterator[str]:
    """Yield the verdict on each candidate for each requested metric."""
    for metric in plan.metrics:
        deciding = deciding_rows(rows, metric)
        beside = tails if metric == plan.metrics[0] else ()
        base = baseline_row(rows, metric)
        for row in deciding:
            info = plan.setting.measures.metrics[metric]
            yield verdict(row, baseline, info, n_tests=len(deciding), tails=beside, criteria=plan.criteria, base=base)


def _look_words(plan: _Plan, look: ComparisonLook) -> str:
    """Return the number of looks in words, if more than one is allowed."""
    n_looks, all_looks = len(plan.looks), round(1 - plan.request.confidence, 12)
    if n_looks == 1:
        return ""
    return (
        f" This is look {look.number} of at most {n_looks}: its level of {look.level:.2g} keeps the chance of a false "
        f"claim over all of them at {all_looks:.2g}."
    )


def _add_opponent(candidates: list[Candidate], among: Sequence[Candidate], name: str) -> None:
    """Put a chosen policy before the candidates, unless it is one of them."""
    if name not in (candidate.name for candidate in candidates):
        candidates.insert(0, next(one for one in among if one.name == name))


def _compare_with_peer(plan: _Plan, measured: Measured, group: str, name: str, look: ComparisonLook) -> PeerBaseline:
    """Return the ratios of the candidates that know as much to the best classic policy that does."""
    metric, infos = plan.metrics[0], plan.setting.measures.metrics
    against = dataclasses.replace(measured, baseline=name)
    all_rows = _summarise(plan, against, [metric, *plan.tails], look)
    tails = [Tail(row, infos[one]) for one in plan.tails for row in deciding_rows(all_rows, one)]
    deciding = deciding_rows(all_rows, metric)
    ours = [row for row in deciding if row.candidate in plan.knowing[group]]
    base = baseline_row(all_rows, metric)
    words = (
        verdict(row, name, infos[metric], n_tests=len(deciding), tails=tails, criteria=plan.criteria, base=base)
        for row in ours
    )
    return PeerBaseline(name, group, tuple(ours), tuple(words))


def _clairvoyant_gains(plan: _Plan, measured: Measured, look: ComparisonLook) -> Iterator[str]:
    """Say of each policy that stands beside itself with true run times how much they would win."""
    metric = plan.metrics[0]
    for name, twin in plan.bounds.items():
        against = dataclasses.replace(measured, baseline=name)
        rows = deciding_rows(_summarise(plan, against, [metric], look), metric)
        row = next(one for one in rows if one.candidate == twin.name)
        words = metric_words(metric)
        if math.isnan(row.ratio):
            yield f"{name} with true run times: ratios need numbers above 0 on both sides, see the means."
            continue
        yield f"With true run times, {name} has {ratio_words(row)} times its {words}."


def _select(plan: _Plan, work: _Work, among: Sequence[Candidate]) -> Selection:
    results = work.results(among, range(plan.n_test, len(plan.runner.cases)))
    metric = plan.metrics[0]
    values: dict[str, list[float]] = {candidate.name: [] for candidate in among}
    for point, result in sorted(results.items()):
        values[plan.runner.candidates[point.candidate].name].append(result.metrics[metric])
    return choose_baseline(
        values,
        metric,
        plan.setting.measures.metrics[metric],
        n_windows=len(plan.training),
        n_jobs=sum(case.n_jobs for case in plan.training),
    )


def _measured(
    plan: _Plan,
    candidates: Sequence[Candidate],
    baseline: str,
    results: Mapping[Point, PointResult],
    cases: Sequence[int],
) -> Measured:
    index = {candidate.name: number for number, candidate in enumerate(plan.runner.candidates)}
    values: dict[str, dict[str, Any]] = {}
    is_failed: dict[str, Any] = {}
    weeks: dict[str, list[dict[str, Any]]] = {}
    for candidate in candidates:
        of = [
            [results[Point(case, index[candidate.name], seed)] for seed in range(candidate.n_seeds)] for case in cases
        ]
        values[candidate.name] = {
            name: np.array([[one.metrics[name] for one in row] for row in of]) for name in plan.setting.measures.metrics
        }
        is_failed[candidate.name] = np.array([[bool(one.problem) for one in row] for row in of])
        weeks[candidate.name] = [_weeks(row) for row in of]
    judging = [plan.runner.cases[case] for case in cases]
    return Measured(
        candidates=tuple(candidate.name for candidate in candidates),
        baseline=baseline,
        workloads=tuple(case.workload for case in judging),
        values=values,
        is_failed=is_failed,
        metrics=plan.setting.measures.metrics,
        unrun=plan.setting.measures.unrun,
        logs=tuple(dict.fromkeys(case.workload for case in judging if case.source >= 0)),
        trainings=plan.trainings,
        weeks=weeks if any(one for those in weeks.values() for one in those) else {},
    )


def _weeks(of_seeds: Sequence[PointResult]) -> dict[str, Any]:
    """Return metrics by name in each week and seed of a run; nothing where a seed has no weeks."""
    if not all(one.weeks for one in of_seeds):
        return {}
    names = of_seeds[0].weeks[0]
    return {name: np.array([[week[name] for week in one.weeks] for one in of_seeds]).T for name in names}


def _check_statistics() -> None:
    """Find out before hours of simulation whether the table can be made."""
    if find_spec("scipy") is None:  # to load it takes longer than many a comparison, and most do without
        raise MissingExtra("scipy", "report")


def _warm_up(plan: _Plan, reporter: CompareProgress) -> None:
    """Compile the code of the candidates here, once, instead of in every worker."""
    plan.setting.simulator.warm_up([one.policy + one.suffix for one in plan.candidates], reporter.message)
    for one in itertools.chain.from_iterable(plan.deciders.values()):
        if isinstance(one, ModelDecider):
            one.model.warm_up(reporter.message)
