"""Trainings: an agent, the environments it learns in, the loop, the logs, and the resulting model."""
