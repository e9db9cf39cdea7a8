"""The jobs, and where they come from: published traces and generators."""
