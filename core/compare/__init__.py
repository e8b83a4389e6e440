"""Compare recipes: cards, differences, arms on shared draws, effects, warnings, and theory beside measurement."""
