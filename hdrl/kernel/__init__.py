"""hdrl.kernel."""
