"""Apply recipes to base draws: weights for a forward, finished decoders, their records and their files."""
