"""The folder of a site: names of its files, and its description."""

from __future__ import annotations

from pathlib import Path

from hdrl.base.errors import ReadError
from hdrl.base.files import read_json
from hdrl.settings.batch.site_rules.conf import SiteConf, read_conf

PLATFORM, LOG, SITE, NAMES, OPTIONS = "platform.json", "jobs.swf", "site.json", "names.json", "options.json"
REPORT, TEXT, PAGE = "import.json", "import.txt", "import.html"

COLUMNS = "jobs.site.csv"
"""Columns beside the log of a site with rules."""

WAITS = "waits.npz"
"""Cache of `hdrl wait`: the last jobs, and the intervals that their waits set."""


def conf_of(folder: Path) -> SiteConf:
    """Read the description of an imported site.

    Raises
    ------
    ReadError
        If the folder has none, or it makes no sense.
    """
    path = folder / SITE
    if not path.is_file():
        raise ReadError(path, "no such file, expected the folder of a site that 'hdrl site import' made")
    return read_conf(path)


def zone_of(folder: Path) -> str | None:
    """Return the time zone of the import of a site, ``None`` if it is unknown.

    Raises
    ------
    ReadError
        If the report of the import cannot be read.
    """
    report = read_json(folder / REPORT) if (folder / REPORT).is_file() else None
    zone = report.get("zone") if isinstance(report, dict) else None
    return zone if isinstance(zone, str) else None
