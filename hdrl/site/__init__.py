"""Sites: accounting data and a description of a cluster become a machine, a workload, and a report on both."""

from hdrl.settings.batch.site_rules.conf import SiteConf, read_conf
from hdrl.site.found import SiteImport
from hdrl.site.importing import ImportChoices, import_site, read_site
from hdrl.site.page import page_of, read_report, text_of
from hdrl.site.report import report_of
from hdrl.site.waits import WaitChoices, predict_waits
from hdrl.site.whatif import WhatIf, what_if

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
