"""Pictures of runs: ``figure = gantt("results")``, then ``figure.savefig(...)`` or `hdrl.report.style.save`.

Every function takes runs (folders, Traces or `hdrl.report.runs.RunData`, one or a list of them) and, to be part of a
larger figure, the axes to draw on.
"""

from hdrl.report.style import require_matplotlib

require_matplotlib()

from hdrl.report.figures.action_preferences import action_preferences  # noqa: E402
from hdrl.report.figures.comparison import comparison  # noqa: E402
from hdrl.report.figures.gantt import gantt, gantt_no_label  # noqa: E402
from hdrl.report.figures.groups import groups  # noqa: E402
from hdrl.report.figures.learning import losses, makespans, rewards  # noqa: E402
from hdrl.report.figures.lifecycle import lifecycle  # noqa: E402
from hdrl.report.figures.mem_bw_overutilization import mem_bw_overutilization  # noqa: E402
from hdrl.report.figures.metrics_bars import metrics_bars  # noqa: E402
from hdrl.report.figures.over_time import power, queue_size, utilization  # noqa: E402
from hdrl.report.figures.shortages import core_bubbles, mem_bubbles  # noqa: E402
from hdrl.report.figures.slowdown_cdf import slowdown_cdf  # noqa: E402

__all__ = [
    "action_preferences",
    "comparison",
    "core_bubbles",
    "gantt",
    "gantt_no_label",
    "groups",
    "lifecycle",
    "losses",
    "makespans",
    "mem_bubbles",
    "mem_bw_overutilization",
    "metrics_bars",
    "power",
    "queue_size",
    "rewards",
    "slowdown_cdf",
    "utilization",
]
