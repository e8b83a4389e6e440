"""Norm lab: the arithmetic of row norms, their Jacobians, and their numerical traps."""

from pages.common.lab import show
from pages.common.lab_controls import PAGES

show(
    PAGES["norm_lab"],
    "A norm sets the size of a row, and hides it. Type a row or take one from a real decoder's stream, and see what "
    "each norm does to it, what it does not see, what it passes back, and how its sums can go wrong.",
)
