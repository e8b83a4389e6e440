"""`core.lab.view`, by its former name."""

from core.figures.chart import Picture
from core.lab.view import LabView, TableView, closeness, counted, number

__all__ = ["LabView", "Picture", "TableView", "closeness", "counted", "number"]
