"""Finished Plotly figures as PNG, SVG and PDF, drawn by Matplotlib from the same traces and layout.

Call `drawing`. Nothing here depends on the time, the settings of the machine, or fonts outside Matplotlib.
"""
