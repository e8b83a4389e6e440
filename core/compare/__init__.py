"""Compare recipes: a summary card of each, how they differ, and runs of all of them from the same random base weights.

Also what each part of a combination changes, warnings about combinations, and predicted beside measured values.
"""
