"""Depth recipes as data: factors on weights, the catalogue of named recipes, and variants in public code."""
