"""Pictures of batch jobs, what they draw, and the tables of runs side by side."""
