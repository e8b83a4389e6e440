"""Applies recipes (depth rules) to base draws: weights for a forward pass, finished decoders, records and files."""
