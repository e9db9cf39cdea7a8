"""Number of windows that a comparison needs, and the change that a number of windows can show.

The logarithm of the ratio of two schedules of the same window varies from window to window with a standard deviation
that is much the same wherever schedulers were compared in pairs.
"""

from __future__ import annotations

import math
from statistics import NormalDist

CAUTIOUS_LOG_SD = 0.35
"""Standard deviation of the log ratio of two schedules of a window that is assumed where too few were seen: the
upper end of what paired comparisons of schedulers show (0.2 to 0.35)."""

LEAST_LOG_SD = 0.2
"""The lower end of it."""

LEVEL = 0.05
"""Significance level for p, unless a comparison sets another confidence."""


def cautious_log_sd(sd: float, n_windows: int, *, varies_little: bool = False) -> float:
    """Return the standard deviation to plan with: the seen one, but not less than experience teaches.

    ``sd`` may be NaN; fewer than 20 windows say little about it. Experience is with schedules: a metric that varies
    little has the seen one.
    """
    least = LEAST_LOG_SD if n_windows >= 20 else CAUTIOUS_LOG_SD
    return least if math.isnan(sd) else sd if varies_little else max(sd, least)


def windows_needed(ratio: float, sd: float, level: float = LEVEL) -> float:
    """Return the number of windows that show a ratio in four of five experiments; infinity for ratio 1.

    At the level of 5 % it is ``((1.96 + 0.84) sd / ln(ratio))^2``: for an sd of 0.35 some 370 windows for 5 %, 87 for
    10 %, 20 for 20 %.

    ``sd`` is the standard deviation of the log ratio per window.
    """
    effect = abs(math.log(ratio))
    return math.inf if effect == 0 else (_quantiles(level) * sd / effect) ** 2


def _quantiles(level: float) -> float:
    """Return the standard deviations by which an effect of the planned size lies beyond none."""
    return NormalDist().inv_cdf(1 - level / 2) + NormalDist().inv_cdf(0.8)


def smallest_visible_change(n_windows: int, sd: float, n_tests: int = 1, level: float = LEVEL) -> float:
    """Return the relative change that ``n_windows`` show in four of five experiments, for instance 0.1.

    Of several candidates, it is that of the one with the smallest p, which Holm's method multiplies by their number.

    ``sd`` is the standard deviation of the log ratio per window.
    """
    return 1 - math.exp(-_quantiles(level / n_tests) * sd / math.sqrt(n_windows))


def fewest_windows(n_tests: int, level: float = LEVEL) -> int:
    """Return the fewest windows in which Wilcoxon's signed-rank test can show anything, however large it is.

    Over ``n`` windows its two-sided p-value is at least ``2^(1 - n)``: all differences have the same sign. Holm's
    method multiplies the smallest one by the number of tests.
    """
    return math.floor(1 + math.log2(n_tests / level)) + 1
