"""Reports: one HTML file with the question, the verdict, tables, figures and how to repeat it all."""

from hdrl.report.page.report import build_report, write_report

__all__ = ["build_report", "write_report"]
