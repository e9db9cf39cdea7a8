"""A machine of identical processors, compiled: what picking jobs from a window is learned on."""
