"""Depth recipes as data: laws of stored matrices, the catalogue of named recipes, and variants in public code."""
