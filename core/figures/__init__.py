"""Figures as frozen values over tables: style, axes, the chart grammar, and one short function per figure."""
