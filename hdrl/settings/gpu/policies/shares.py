"""Shares of time on types of GPUs: Gavel's policies (Narayanan et al., OSDI 2020) and AlloX (Le et al., EuroSys 2020).

Each is a function of what is there; linear programs are solved by HiGHS, over jobs that are alike at once. Where more
than one allocation is best, that in the middle is taken, as by the solvers that Gavel uses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hdrl.settings.gpu.kernel import rounds as kernel
from hdrl.settings.gpu.policies.assignments import AlloX
from hdrl.settings.gpu.policies.linear import solve
from hdrl.settings.gpu.policies.packing import Gandiva, PackedShares, las_packed, makespan_packed
from hdrl.settings.gpu.policies.situation import Floats, Ints, ShareSituation

Shares: TypeAlias = Callable[[ShareSituation], "Floats | PackedShares"]
"""Returns the share of its time that each job shall spend on each type, shape ``(n, n_types)``, pairs apart."""

BLIND_SPEED = 1.0
"""The speed of all jobs on all types in the eyes of policies that do not know throughputs."""


def _alike(*columns: NDArray[Any]) -> tuple[Ints, Ints, Ints]:
    """Return a job of each kind, the kind of each job, and how many there are of each."""
    _, first, kind, counts = np.unique(
        np.column_stack(columns), axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    return first, kind.reshape(-1), counts


def _max_min(situation: ShareSituation, value: Floats) -> Floats:
    """Return the shares with the largest smallest value: ``value`` is that of all time on each type."""
    first, kind, counts = _alike(value, situation.sizes)
    n, n_types = len(first), len(situation.gpus)
    weights = value[first]
    columns = np.arange(n * n_types).reshape(n, n_types)
    rows = [(columns[i], np.ones(n_types)) for i in range(n)]
    rows += [(columns[:, t], (counts * situation.sizes[first]).astype(float)) for t in range(n_types)]
    rows += [(np.append(columns[i], n * n_types), np.append(-weights[i], 1.0)) for i in range(n)]
    upper = np.concatenate([np.ones(n), situation.gpus, np.zeros(n)])
    cost = np.zeros(n * n_types + 1)
    cost[-1] = 1.0
    bounds = np.append(np.where(weights > 0, 1.0, 0.0).reshape(-1), np.inf)
    found = solve(cost, rows, upper, bounds)
    return np.asarray(np.clip(found[:-1].reshape(n, n_types), 0.0, 1.0)[kind])


def _equal_parts(situation: ShareSituation) -> Floats:
    """Return the shares of an equal part of every type (Gavel's proportional allocation)."""
    n = len(situation.jobs)
    parts = np.tile(situation.gpus / n, (n, 1))
    return np.asarray(parts / np.maximum(1.0, parts.sum(axis=1, keepdims=True)))


def las(situation: ShareSituation) -> Floats:
    """Return max-min fair shares of time: least attained service as a linear program."""
    ones = np.where(situation.rates > 0, BLIND_SPEED, 0.0)
    return _max_min(situation, ones * (situation.sizes / situation.priorities)[:, None])


def _las_het(situation: ShareSituation) -> Floats:
    """Return max-min fair shares of throughput, relative to that of an equal part of every type."""
    usual = (_equal_parts(situation) * situation.rates).sum(axis=1)
    return _max_min(situation, situation.rates * (situation.sizes / situation.priorities / usual)[:, None])


def _needs(situation: ShareSituation, rates: Floats, needs: Floats) -> Floats:
    """Return the shares with the largest smallest ratio of throughput to need."""
    return _max_min(situation, rates / needs[:, None])


def _makespan(situation: ShareSituation, rates: Floats) -> Floats:
    return _needs(situation, rates, situation.steps_left)


def makespan(situation: ShareSituation) -> Floats:
    """Return the shares under which the last job ends as early as it can if all types are equally fast."""
    return _makespan(situation, np.where(situation.rates > 0, BLIND_SPEED, 0.0))


def _makespan_het(situation: ShareSituation) -> Floats:
    """Return the shares under which the last job ends as early as it can."""
    return _makespan(situation, situation.rates)


N_HALVINGS = 24
"""Number of bisections of the interval of finish-time fairness."""


def _ftf(situation: ShareSituation, rates: Floats) -> Floats:
    """Return the shares with the smallest largest ratio of finish times: with them, and with equal parts."""
    alone = (_equal_parts(situation) * rates).sum(axis=1)
    equal_s = situation.waited_s + situation.steps_left / alone
    best_s = situation.waited_s + situation.steps_left / rates.max(axis=1)
    low, high = float((best_s / equal_s).max()), float(max(1.0, len(situation.jobs)))
    found = None
    for _ in range(N_HALVINGS):
        rho = low if found is None and low >= high else (low + high) / 2.0
        need = situation.steps_left / np.maximum(rho * equal_s - situation.waited_s, 1e-9)
        shares = _needs(situation, rates, need)
        is_enough = bool(np.all((shares * rates).sum(axis=1) >= need * (1 - 1e-6)))
        found = shares if is_enough or found is None else found
        low, high = (low, rho) if is_enough else (rho, high)
        if high - low <= 1e-4 * high:
            break
    return found if found is not None else _equal_parts(situation)


def ftf(situation: ShareSituation) -> Floats:
    """Return finish-time fair shares if all types are equally fast (Themis, as Gavel has it)."""
    return _ftf(situation, np.where(situation.rates > 0, BLIND_SPEED, 0.0))


def _ftf_het(situation: ShareSituation) -> Floats:
    """Return finish-time fair shares."""
    return _ftf(situation, situation.rates)


def cost_het(situation: ShareSituation) -> Floats:
    """Return the shares with the largest throughput per dollar, relative to each job's own on all types.

    A ratio of linear functions; with time scaled by what is spent it is a linear program (Charnes and Cooper).
    """
    n, n_types = situation.rates.shape
    value = situation.rates / situation.rates.sum(axis=1, keepdims=True)
    price = situation.sizes[:, None] * situation.prices
    columns, last = np.arange(n * n_types).reshape(n, n_types), n * n_types
    rows = [(np.append(columns[i], last), np.append(np.ones(n_types), -1.0)) for i in range(n)]
    rows += [
        (np.append(columns[:, t], last), np.append(situation.sizes.astype(float), -float(situation.gpus[t])))
        for t in range(n_types)
    ]
    rows += [(columns.reshape(-1), price.reshape(-1))]
    upper = np.append(np.zeros(n + n_types), 1.0)
    found = solve(np.append(value.reshape(-1), 0.0), rows, upper, np.full(last + 1, np.inf))
    scale = max(found[-1], 1e-12)
    return np.asarray(np.clip(found[:-1].reshape(n, n_types) / scale, 0.0, 1.0))


@dataclass(frozen=True, slots=True)
class SharePolicy:
    """A policy of shares."""

    make: Callable[[int], Shares] | None  # makes it for a simulation with a seed; None: the kernel computes its shares
    help: str  # description and source
    uses_rates: bool = False  # True if it uses throughputs, so that types are not shuffled
    uses_work: bool = False  # True if it uses the number of steps of jobs
    code: int = kernel.BY_PYTHON  # method that computes its shares, see `hdrl.settings.gpu.kernel.rounds.SHARES`
    uses_prices: bool = False  # True if it uses the prices of GPUs, so that all types must have one
    packs: bool = False  # True if two jobs may share their GPUs


def _always(shares: Shares) -> Callable[[int], Shares]:
    return lambda _: shares


_ALLOX: Any = lambda _: AlloX()  # noqa: E731

SHARES: Mapping[str, SharePolicy] = MappingProxyType(
    {
        "gavel-fifo": SharePolicy(
            None, "first come, first served, on the last type by name that is left", code=kernel.FIRST_COME
        ),
        "gavel-fifo-het": SharePolicy(
            None, "first come, first served, on the fastest", uses_rates=True, code=kernel.FASTEST
        ),
        "gavel-las": SharePolicy(_always(las), "max-min fairness of time (LAS as a linear program)"),
        "gavel-las-het": SharePolicy(_always(_las_het), "max-min fairness of throughput", uses_rates=True),
        "gavel-ftf": SharePolicy(_always(ftf), "finish-time fairness, blind to types", uses_work=True),
        "gavel-ftf-het": SharePolicy(_always(_ftf_het), "finish-time fairness", uses_rates=True, uses_work=True),
        "gavel-makespan": SharePolicy(_always(makespan), "makespan, blind to types", uses_work=True),
        "gavel-makespan-het": SharePolicy(_always(_makespan_het), "makespan", uses_rates=True, uses_work=True),
        "gavel-cost-het": SharePolicy(_always(cost_het), "throughput per dollar", uses_rates=True, uses_prices=True),
        "allox": SharePolicy(_ALLOX, "least sum of completion times by matching", uses_rates=True, uses_work=True),
        "gavel-isolated": SharePolicy(None, "an equal part of the cluster for each job", code=kernel.EQUAL_PARTS),
        "gavel-las-packed": SharePolicy(
            _always(las_packed), "max-min fairness of throughput, jobs in pairs, too", uses_rates=True, packs=True
        ),
        "gavel-makespan-packed": SharePolicy(
            _always(makespan_packed), "makespan, jobs in pairs, too", uses_rates=True, uses_work=True, packs=True
        ),
        "gandiva": SharePolicy(
            Gandiva, "equal parts; where jobs are too many, pairs of them are drawn", uses_rates=True, packs=True
        ),
    }
)
"""Policies of shares by name; those with ``-het`` use throughputs. They run in Gavel's rounds."""
