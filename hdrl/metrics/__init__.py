"""hdrl.metrics."""
