"""hdrl.policies."""
