"""Batsim: its model in Python, and the way to talk to schedulers that speak its protocol."""
