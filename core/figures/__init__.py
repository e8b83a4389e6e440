"""Figures as frozen values made from tables: style, axes, charts, and one short function per figure."""
