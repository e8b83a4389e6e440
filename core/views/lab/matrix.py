"""`core.figures.matrix`, by its former name."""

from core.figures.matrix import Matrix, grid

__all__ = ["Matrix", "grid"]
