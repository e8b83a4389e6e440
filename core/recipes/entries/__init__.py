"""The recipes of the catalogue, each with all its properties in one place."""
