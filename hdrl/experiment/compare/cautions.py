"""Cautions for readers of a comparison's table, where it would mislead."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdrl.experiment.compare.candidates import Candidate
from hdrl.experiment.compare.cases import Case, overlapping, share_jobs
from hdrl.experiment.compare.summary import SHORTEST_S, Measured, SummaryRow, deciding_rows
from hdrl.experiment.compare.verdict import differs
from hdrl.metrics.catalogue import MetricInfo
from hdrl.metrics.planning import LEVEL, cautious_log_sd, fewest_windows, windows_needed
from hdrl.metrics.words import metric_words, number_words
from hdrl.setting import PolicyBook

FEW_TRAININGS = 10
"""Trainings below which the variation between them is hardly known."""

WIN = 0.95
"""Ratio from which on one speaks of a win."""

LONGEST_WAITS = ("max_wait_s", "max_queueing_s")
"""Metrics that say how long the job waited that waited longest."""

MANY = 10_000
"""Windows that are not simulated."""


@dataclass(frozen=True, slots=True)
class Caution:
    """One warning."""

    # ``unrun``, ``failed``, ``overlap``, ``trained-on``, ``clairvoyant``, ``exact-estimates``, ``overload``, ``idle``,
    # ``powerless``, ``few-windows``, ``few-trainings``, ``weak-baseline``, ``chosen-on-test``, ``best-of-many``,
    # ``fewer-jobs``, or one of the setting
    kind: str
    text: str


def cautions(
    measured: Measured,
    rows: Sequence[SummaryRow],
    *,
    metric: str,
    cases: Sequence[Case],
    loads: NDArray[np.float64],
    candidates: Sequence[Candidate],
    clairvoyant: Sequence[str] = (),
    hidden: str = PolicyBook.hidden,
    exact: Sequence[str] = (),
    of_windows: Sequence[tuple[str, str]] = (),
    training: Sequence[Case] = (),
    classic: Collection[str] = (),
    extra_opponents: Collection[str] = (),
    of_setting: Sequence[tuple[str, str]] = (),
) -> list[Caution]:
    """Return everything that a reader must be warned of.

    ``clairvoyant`` names the candidates that see what is ``hidden``, ``exact`` the workloads whose requested times are
    the run times, ``classic`` the classic policies (a learned one must beat the best of them), ``extra_opponents``
    those that are no candidates. ``training`` are the windows that chose the baseline. ``of_windows`` and
    ``of_setting`` are kinds and sentences that models, the setting and its environments add.
    """
    deciding = deciding_rows(rows, metric)
    judged = [row for row in deciding if row.candidate not in extra_opponents]
    return [
        *_unrun(measured),
        *_overlap(cases),
        *(Caution(kind, text) for kind, text in of_windows),
        *_clairvoyant(measured, clairvoyant, hidden),
        *_exact(exact),
        *_overload(cases, loads),
        *_idle(measured),
        *powerless(len(cases), len(deciding), deciding[0].level if deciding else LEVEL),
        *_few_windows(deciding, measured.metrics[metric]),
        *_few_trainings(candidates),
        *_weak_baseline(measured, judged, classic),
        *_chosen_on_test(cases, training),
        *_best_of_many(judged, [one.name for one in candidates if one.is_model], measured.metrics[metric]),
        *(Caution(kind, text) for kind, text in of_setting),
    ]


def _unrun(measured: Measured) -> Iterator[Caution]:
    for name in measured.candidates:
        n_failed = int(np.count_nonzero(measured.is_failed[name]))
        n_points = measured.is_failed[name].size
        if n_failed:
            yield Caution(
                "failed",
                f"{name} could not be simulated to the end in {n_failed} of {n_points} simulations (column problem of "
                "results.csv): it has no numbers in the table",
            )
        counts = {kind: float(np.nansum(measured.values[name][kind])) for kind in measured.unrun}
        if any(counts.values()):
            words = ", ".join(f"{int(n):,} {metric_words(kind)}" for kind, n in counts.items() if n)
            yield Caution("unrun", f"{name} left jobs unrun ({words}): its means are those of the jobs that it chose")


def _overlap(cases: Sequence[Case]) -> Iterator[Caution]:
    pairs = overlapping(cases)
    if pairs:
        before, after = pairs[0]
        more = f", and {len(pairs) - 1} more pairs do" if len(pairs) > 1 else ""
        yield Caution(
            "overlap",
            f"windows {before.window} and {after.window} of {before.workload} share jobs{more}: they are not "
            "independent, so intervals are too narrow and p-values too small",
        )


def _clairvoyant(measured: Measured, clairvoyant: Sequence[str], hidden: str) -> Iterator[Caution]:
    if clairvoyant and len(clairvoyant) < len(measured.candidates):
        verb = "sees" if len(clairvoyant) == 1 else "see"
        yield Caution(
            "clairvoyant",
            f"{_listed(clairvoyant)} {verb} {hidden}, which no real scheduler has, and the others do not",
        )


def _exact(exact: Sequence[str]) -> Iterator[Caution]:
    if exact:
        yield Caution(
            "exact-estimates",
            f"requested times are the true run times in {_listed(exact)}: policies that plan with them have "
            "information that no real scheduler has, and gain by it to different degrees",
        )


def _overload(cases: Sequence[Case], loads: NDArray[np.float64]) -> Iterator[Caution]:
    is_over = np.asarray(loads) >= 1
    if np.any(is_over):
        names = _listed(list(dict.fromkeys(case.workload for case, over in zip(cases, is_over, strict=True) if over)))
        yield Caution(
            "overload",
            f"the offered load is 1 or more in {np.count_nonzero(is_over)} of {len(is_over)} windows ({names}; up to "
            f"{number_words(float(np.nanmax(loads)))}): queues only grow there, and results depend on how long windows "
            "are",
        )


def _idle(measured: Measured) -> Iterator[Caution]:
    """Warn if no job waited anywhere: every schedule is the same then."""
    name = next((name for name in LONGEST_WAITS if name in measured.metrics), None)
    if name is None:
        return
    waits_s = np.concatenate([measured.values[one][name].ravel() for one in measured.candidates])
    known_s = waits_s[~np.isnan(waits_s)]
    if len(known_s) and known_s.max() < SHORTEST_S:
        yield Caution(
            "idle",
            "no job waited in any window under any candidate, so that nothing can differ: take a smaller machine or a "
            "higher load",
        )


def powerless(n_windows: int, n_tests: int, level: float = LEVEL) -> Iterator[Caution]:
    """Warn of a comparison that cannot show any difference, however large: there are too few windows."""
    needed = fewest_windows(n_tests, level) if n_tests else 0
    if n_windows < needed:
        subject = "a candidate" if n_tests == 1 else f"{n_tests} candidates"
        windows = "one window" if n_windows == 1 else f"{n_windows} windows"
        yield Caution(
            "powerless",
            f"{windows} cannot show any difference between {subject} and the baseline, however large it is: "
            f"Wilcoxon's p {'after Holm ' if n_tests > 1 else ''}stays above {level:g}; take {needed} windows or more",
        )


def _few_windows(deciding: Sequence[SummaryRow], info: MetricInfo) -> Iterator[Caution]:
    for row in deciding:
        if not differs(row):
            continue
        sd = cautious_log_sd(row.log_sd, row.n_windows, varies_little=info.varies_little)
        needed = windows_needed(row.ratio, sd, row.level)
        if row.n_windows < needed:
            about = f"about {math.ceil(needed):,}" if needed < MANY else f"more than {MANY:,}"
            yield Caution(
                "few-windows",
                f"{row.candidate}: {row.n_windows} windows are few for a change of {abs(1 - row.ratio):.1%}; {about} "
                "would show it reliably",
            )


def _few_trainings(candidates: Sequence[Candidate]) -> Iterator[Caution]:
    for candidate in candidates:
        n_trainings = len(candidate.files)
        if candidate.is_model and n_trainings < FEW_TRAININGS:
            words = "one training" if n_trainings == 1 else f"{n_trainings} trainings"
            yield Caution(
                "few-trainings",
                f"{candidate.name} is the result of {words}: another one may be better or worse; name {FEW_TRAININGS} "
                "or more models of different seeds (NAME='models/*.pt') to judge the method",
            )


def _weak_baseline(measured: Measured, deciding: Sequence[SummaryRow], classic: Collection[str]) -> Iterator[Caution]:
    if measured.baseline not in classic:
        return
    stronger = [row for row in deciding if row.candidate in classic and _is_stronger(row, measured)]
    others = [row for row in deciding if row.candidate not in classic]
    if stronger and others:
        best = max(stronger, key=lambda row: abs(math.log(row.ratio)))
        yield Caution(
            "weak-baseline",
            f"the baseline {measured.baseline} is not the strongest classic policy here: {best.candidate} has "
            f"{number_words(best.ratio)} times its {metric_words(best.metric)}; take the best of a training part "
            "(--baseline best)",
        )


def _is_stronger(row: SummaryRow, measured: Measured) -> bool:
    """Return whether a classic policy does so much better than the baseline that this must be said.

    Few windows or many candidates show nothing, so this asks for less than a verdict does: the size of a win, and an
    interval that does not hold 1 (one window has none).
    """
    if row.ratio <= 0 or math.isnan(row.ratio):
        return False
    info = measured.metrics[row.metric]
    if info.lower_is_better is None:
        return False
    return -info.sign * math.log(row.ratio) >= -math.log(WIN) and not row.ratio_low <= 1 <= row.ratio_high


def _chosen_on_test(cases: Sequence[Case], training: Sequence[Case]) -> Iterator[Caution]:
    n_shared = sum(any(share_jobs(case, other) for other in training) for case in cases)
    if n_shared:
        yield Caution(
            "chosen-on-test",
            f"the baseline was chosen by jobs of {n_shared} of the {len(cases)} windows that judge it: choose it by an "
            "earlier part of the workload (--baseline best:0:0.7 with --range 0.7:1)",
        )


def _best_of_many(deciding: Sequence[SummaryRow], learned: Collection[str], info: MetricInfo) -> Iterator[Caution]:
    # The verdict is about the best learned candidate, if there is any, and not about the classic ones beside it.
    n_judged = sum(row.candidate in learned for row in deciding) or len(deciding)
    if n_judged > 1 and info.lower_is_better is not None:
        yield Caution(
            "best-of-many",
            f"the best of {n_judged} candidates was picked on the windows that judge it, so its ratio is "
            "optimistic; to claim it, compare this candidate alone on other windows",
        )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
