"""The compiled parts of the simulator `site`: flat arrays, events, allocation, main scheduler, backfill, priorities."""
