"""Comparisons: candidates, cases, the points, the table, the verdict and its cautions."""
