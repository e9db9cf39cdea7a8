"""The worlds and interfaces of other systems, with their errors: only to reproduce what these have published.

Nothing else imports this room, except the claimed experiments in `hdrl.experiments`; what offers one of its worlds by
name loads it on request.
"""
