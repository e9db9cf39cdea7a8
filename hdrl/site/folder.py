"""Names of the files in the folder of a site."""

PLATFORM, LOG, SITE, NAMES, OPTIONS = "platform.json", "jobs.swf", "site.json", "names.json", "options.json"
REPORT, TEXT, PAGE = "import.json", "import.txt", "import.html"

COLUMNS = "jobs.site.csv"
"""Columns beside the log of a site with rules."""

WAITS = "waits.npz"
"""Cache of `hdrl wait`: the last jobs, and the intervals that their waits set."""
