"""The environments of pipelines."""
