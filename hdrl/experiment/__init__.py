"""hdrl.experiment."""
