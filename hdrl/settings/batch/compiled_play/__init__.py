"""Models of JobPick played on the kernel in compiled code: what a pick means, what is seen, and the network that picks.

`envs.job_pick_rules` says in plain Python what picks start; `rules` says the same here, and a test holds them against
each other.
"""
