"""Faster compiled code, and faster compilation, by parts of Numba that may change in any version.

Nothing but the modules above it imports this, and only the fast way does (`hdrl.compiled.backends`): each of them has
a twin in what Numba documents, or in plain Python.
"""
