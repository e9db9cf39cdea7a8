"""A machine with the rules of a site: partitions, dependencies, limits, reservations, fair share, Slurm's scheduler."""
