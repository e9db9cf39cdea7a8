"""DNN jobs that adapt under a time budget: where to deepen a network while it trains, and whether to do so at all.

Tables, policies and the environment need no torch; training live jobs (`hdrl.settings.adaptation.live`) does.
"""
