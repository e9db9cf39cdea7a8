"""Models of JobPick played on the kernel in compiled code: what a pick means, what is seen, and the network that picks.

A test holds `rules` against plain Python made of `policies.backfilling.Easy`.
"""
