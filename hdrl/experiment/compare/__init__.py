"""Comparisons: who is compared, on what, the points, the table, the verdict and its cautions."""
