"""Batch jobs on heterogeneous clusters, as Batsim simulates them: the setting that hdrl began with."""
