"""The world of the DRL scheduler for GPU clusters (HenryAJX/DRL_Scheduler), and its environment."""
