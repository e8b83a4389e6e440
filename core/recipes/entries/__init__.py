"""The entries of the catalogue: every fact of a recipe in one place."""
