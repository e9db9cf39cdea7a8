"""hdrl.simulation."""
