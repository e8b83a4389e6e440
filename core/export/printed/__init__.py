"""Finished figures on paper: PNG, SVG and PDF from the traces and layout that a browser draws, made by Matplotlib.

`drawing` is the entrance. Nothing here reads a clock, a setting of the machine or a font that Matplotlib does not
bring.
"""
