"""The compiled simulator of GPU clusters; `entries` is what Python calls."""
