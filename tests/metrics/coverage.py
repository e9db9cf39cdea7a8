"""How often intervals hold the true value, and how often equal policies are called different: larger than the tests.

``python tests/metrics/coverage.py [REPETITIONS]`` prints shares; 1,000 repetitions take a minute of processor time.
"""

import sys
from collections.abc import Callable
from functools import partial

import numpy as np

from hdrl.metrics.statistics import Bootstrap, across_groups, block_ratio, look_levels, look_sizes, wilcoxon_p

RESAMPLES = 999
FACTORS = ("windows", "trainings", "both")


def of_windows(rng, bootstrap: Bootstrap, n: int, k: int, windows: float, trainings: float, both: float) -> bool:
    base = rng.lognormal(0, 1, n)
    effect = rng.normal(0, windows, (n, 1)) + rng.normal(0, trainings, (1, k)) + rng.normal(0, both, (n, k))
    found = bootstrap.ratio(base[:, np.newaxis] * np.exp(effect), base)
    return found.low <= 1 <= found.high


def of_logs(rng, n: int) -> bool:
    groups, base = np.repeat(np.arange(n), 10), rng.lognormal(0, 1, 10 * n)
    ours = base * np.exp(rng.normal(0, 0.3, n)[groups] + rng.normal(0, 0.2, 10 * n))
    found = across_groups(ours, base, groups)
    return found.low <= 1 <= found.high


def of_weeks(rng, n: int, correlation: float) -> bool:
    logs, base = rng.normal(0, 0.2, n), rng.lognormal(0, 0.3, n)
    for week in range(1, n):
        logs[week] += correlation * logs[week - 1]
    ours = base * np.exp(logs - 0.02 / (1 - correlation**2))
    found, _ = block_ratio(ours, base, rng.integers(50, 200, n), n_resamples=RESAMPLES)
    return found.low <= 1 <= found.high


def claims(rng, sizes: list[int], levels: list[float]) -> bool:
    base = rng.lognormal(0, 1, sizes[-1])
    ours = base * np.exp(rng.normal(0, 0.3, sizes[-1]))
    return any(wilcoxon_p(ours[:size], base[:size]) < level for size, level in zip(sizes, levels, strict=True))


def show(repetitions: int, what: str, happens: Callable[[np.random.Generator], bool]) -> None:
    rng = np.random.default_rng(1)
    print(f"{what}: {sum(happens(rng) for _ in range(repetitions)) / repetitions:.1%}")  # noqa: T201 (a program)


def main(repetitions: int) -> None:
    for n, k, *spread in (
        (5, 1, 0.3, 0.0, 0.0),
        (8, 1, 0.3, 0.0, 0.0),
        (12, 1, 0.3, 0.0, 0.0),
        (30, 1, 0.3, 0.0, 0.0),
        (12, 2, 0.1, 0.3, 0.1),
        (12, 3, 0.1, 0.3, 0.1),
        (12, 5, 0.1, 0.3, 0.1),
        (8, 10, 0.3, 0.15, 0.1),
        (30, 10, 0.1, 0.1, 0.3),
    ):
        bootstrap = Bootstrap(np.zeros(n, dtype=int), n_resamples=RESAMPLES)
        case = partial(of_windows, bootstrap=bootstrap, n=n, k=k, **dict(zip(FACTORS, spread, strict=True)))
        show(repetitions, f"{n} windows, {k} trainings, deviations {spread}: in the interval", case)
    for n in (2, 3, 5, 10):
        show(repetitions, f"{n} logs: in the interval of another log", partial(of_logs, n=n))
    for n in (12, 26, 52):
        for correlation in (0.0, 0.3, 0.5):
            case = partial(of_weeks, n=n, correlation=correlation)
            show(repetitions, f"one run of {n} weeks, correlation {correlation}: in the interval", case)
    sizes = look_sizes(10, 80)
    for name, levels in (("levels of hdrl", look_levels(sizes, 0.05)), ("always 5 %", [0.05] * len(sizes))):
        case = partial(claims, sizes=sizes, levels=levels)
        show(repetitions, f"equal policies, looks {sizes}, {name}: called different", case)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
