"""The machine: nodes, and how fast kinds of jobs are on their GPUs."""
