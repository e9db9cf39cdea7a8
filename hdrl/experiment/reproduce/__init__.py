"""Claimed experiments, run again and held against their numbers."""
