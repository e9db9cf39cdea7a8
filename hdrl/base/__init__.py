"""Helpers for all other packages: errors, files, hashes, random numbers; it imports nothing of ours."""
