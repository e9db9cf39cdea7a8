"""hdrl.platform."""
