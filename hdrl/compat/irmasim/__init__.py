"""IRMaSim's files, and its managers with their errors.

Batch jobs recognize its files in `hdrl.settings.batch.irmasim`, which loads this room when one comes.
"""
