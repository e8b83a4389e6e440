"""Finished Plotly figures as PNG, SVG and PDF, drawn by Matplotlib from the same traces and layout.

The entry point is `drawing`. Nothing here reads a clock, a setting of the machine, or a font that Matplotlib does not
include.
"""
