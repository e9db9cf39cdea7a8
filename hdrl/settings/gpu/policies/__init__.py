"""Policies: orders, placements, shares of time, advice to jobs that adapt."""
