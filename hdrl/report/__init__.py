"""Pictures and the HTML report: one figure per file."""
