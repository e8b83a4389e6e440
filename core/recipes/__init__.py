"""Depth recipes in words and numbers: contract cards, comparisons, warnings, theory beside measurement, and drift.

The recipes themselves are data of `core.decoder.recipes`; this package reads them and observes their arms.
"""
