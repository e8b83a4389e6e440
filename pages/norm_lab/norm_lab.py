"""The page Norm lab: the arithmetic of norms of a row, their Jacobians, and rounding errors."""

from pages.common.lab import show
from pages.common.lab_controls import PAGES

show(
    PAGES["norm_lab"],
    "A norm sets the size of a row, and hides it. Type a row or take one from a real decoder's stream, and see what "
    "each norm does to it, what it does not see, what it passes back, and how its sums can go wrong.",
)
