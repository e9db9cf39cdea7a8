"""Live A/B: two policies take turns on a running cluster, and its accounting data says which is better."""

from hdrl.site.ab.analysis import AbChoices, analyze_ab
from hdrl.site.ab.page import write_analysis
from hdrl.site.ab.plan import AbPlan, PlanChoices, plan_ab, read_plan
from hdrl.site.ab.power import Outlook, history_of, outlook

__all__ = [
    "AbChoices",
    "AbPlan",
    "Outlook",
    "PlanChoices",
    "analyze_ab",
    "history_of",
    "outlook",
    "plan_ab",
    "read_plan",
    "write_analysis",
]
