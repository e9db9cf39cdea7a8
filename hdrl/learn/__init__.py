"""The torch kit of the agents: networks, buffers, advantages, loops, checkpoints; it knows spaces, not our environments."""
