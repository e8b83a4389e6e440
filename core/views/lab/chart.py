"""`core.figures.chart`, by its former name."""

from core.figures.chart import Chart, Line, Look

__all__ = ["Chart", "Line", "Look"]
