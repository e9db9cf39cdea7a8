"""The compiled world of a dissertation on batch scheduling by reinforcement learning (LANNDS18/DeepRLScheduler).

Jobs get whole nodes, one is chosen among up to 128 that are seen, and nothing else happens until it fits.
"""
