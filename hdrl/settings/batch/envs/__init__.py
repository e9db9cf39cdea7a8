"""Environments of batch jobs: ``hdrl/JobPick-v0`` and ``hdrl/PolicyPair-v0``."""
