"""Statistics of paired comparisons. Pure functions of arrays, with the same bytes from the same seed everywhere.

Their arguments are tables, see `hdrl.metrics.tables`. A window in which a value is missing (NaN) does not count.
No function multiplies matrices or uses NumPy's ``exp`` and ``log``: both round differently on different processors.
"""

from hdrl.metrics.statistics.blocks import FEWEST_BLOCKS, block_counts, block_ratio, lag_one, suspicious_lag
from hdrl.metrics.statistics.bootstrap import CONFIDENCE, N_RESAMPLES, Bootstrap, Interval
from hdrl.metrics.statistics.ladder import LADDER_LEVEL, Rung, ladder
from hdrl.metrics.statistics.ranks import (
    cliques,
    improvement_probability,
    kendall_tau,
    mean_ranks,
    performance_profile,
    ratio_iqm,
)
from hdrl.metrics.statistics.ratios import (
    GroupInterval,
    across_groups,
    geometric_mean_ratio,
    log_ratios,
    log_sd,
    without_each_group,
)
from hdrl.metrics.statistics.sequential import (
    anytime_interval,
    anytime_p,
    fewest_pairs,
    look_levels,
    look_sizes,
    power_after,
)
from hdrl.metrics.statistics.signedranks import holm, rank_direction, wilcoxon_p

__all__ = [
    "CONFIDENCE",
    "FEWEST_BLOCKS",
    "LADDER_LEVEL",
    "N_RESAMPLES",
    "Bootstrap",
    "GroupInterval",
    "Interval",
    "Rung",
    "across_groups",
    "anytime_interval",
    "anytime_p",
    "block_counts",
    "block_ratio",
    "cliques",
    "fewest_pairs",
    "geometric_mean_ratio",
    "holm",
    "improvement_probability",
    "kendall_tau",
    "ladder",
    "lag_one",
    "log_ratios",
    "log_sd",
    "look_levels",
    "look_sizes",
    "mean_ranks",
    "performance_profile",
    "power_after",
    "rank_direction",
    "ratio_iqm",
    "suspicious_lag",
    "wilcoxon_p",
    "without_each_group",
]
