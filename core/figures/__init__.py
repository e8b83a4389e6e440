"""Figures made from tables, as frozen values that draw themselves in a light or a dark theme."""
