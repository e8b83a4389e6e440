"""All names that an experiment's file needs, in one import: options, results, charts, tables, numbers and words."""

from ..decoder.progress import Told, counted, silent
from ..decoder.splitmix64 import FloatArray
from ..errors import LabError, UndefinedNorm
from ..figures.chart import Chart, Line, Look
from ..figures.matrix import Matrix, grid
from .experiment import Experiment, Pictures, Result, Summary
from .moments import covariance, ordered_product, rms, slope, spectral_norm
from .options import Options, choice, consecutive, flag, number, numbers, rows, seed, whole, wholes
from .published import Printed, cell, near, scalar
from .view import TableView, closeness, plural, rounded

__all__ = [
    "Chart", "Experiment", "FloatArray", "LabError", "Line", "Look", "Matrix", "Options", "Pictures", "Printed",
    "Result", "Summary", "TableView", "Told", "UndefinedNorm", "cell", "choice", "closeness", "consecutive", "counted",
    "covariance", "flag", "grid", "near", "number", "numbers", "ordered_product", "plural", "rms", "rounded", "rows",
    "scalar", "seed", "silent", "slope", "spectral_norm", "whole", "wholes",
]  # fmt: skip
