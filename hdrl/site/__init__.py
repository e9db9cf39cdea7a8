"""Sites: accounting data and a description of a cluster become a machine, a workload, and a report on both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hdrl.base.lazy import load_name

if TYPE_CHECKING:
    from hdrl.settings.batch.site_rules.conf import SiteConf, read_conf
    from hdrl.site.found import SiteImport
    from hdrl.site.importing import ImportChoices, import_site, read_site
    from hdrl.site.page import page_of, read_report, text_of
    from hdrl.site.report import report_of
    from hdrl.site.waits import WaitChoices, predict_waits
    from hdrl.site.whatif import WhatIf, what_if

_MODULES = {
    "hdrl.settings.batch.site_rules.conf": ("SiteConf", "read_conf"),
    "hdrl.site.found": ("SiteImport",),
    "hdrl.site.importing": ("ImportChoices", "import_site", "read_site"),
    "hdrl.site.page": ("page_of", "read_report", "text_of"),
    "hdrl.site.report": ("report_of",),
    "hdrl.site.waits": ("WaitChoices", "predict_waits"),
    "hdrl.site.whatif": ("WhatIf", "what_if"),
}

__all__ = [
    "ImportChoices",
    "SiteConf",
    "SiteImport",
    "WaitChoices",
    "WhatIf",
    "import_site",
    "page_of",
    "predict_waits",
    "read_conf",
    "read_report",
    "read_site",
    "report_of",
    "text_of",
    "what_if",
]


def __getattr__(name: str) -> Any:
    """Load a public name from where it lives."""
    return load_name(__name__, _MODULES, name)
