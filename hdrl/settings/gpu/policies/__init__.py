"""Who starts when and where: orders, placements, shares of time, advice to jobs that adapt."""
