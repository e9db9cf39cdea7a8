"""hdrl.workload."""
