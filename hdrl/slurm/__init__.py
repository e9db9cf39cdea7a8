"""A real Slurm as a simulator: its own daemons on this host, under an accelerated clock."""
