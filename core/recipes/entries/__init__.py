"""The entries of the catalogue, with all properties of a recipe in one place."""
