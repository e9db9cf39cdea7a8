"""Pipelines, when they are released, and where they come from."""
