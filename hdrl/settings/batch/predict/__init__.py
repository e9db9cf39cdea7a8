"""Predictors of the run times of jobs, and their quality."""
