"""Reports: one HTML file with the question, the verdict, tables, interactive figures and how to repeat it all."""

from hdrl.report.html.report import DEFAULT_METRIC, build_report, write_report

__all__ = ["DEFAULT_METRIC", "build_report", "write_report"]
