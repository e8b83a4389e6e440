"""Applies recipes (depth rules) to base draws: weights for a forward pass, finished decoders, their records and files."""
