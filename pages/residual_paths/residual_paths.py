"""The page Residual paths: what the residual stream carries through the blocks, and what it costs."""

from pages.common.lab import show
from pages.common.lab_controls import PAGES

show(
    PAGES["residual_paths"],
    "A residual stream is a path from the first state to the last. Multiply the blocks' Jacobians in their order, take "
    "the last state apart into its updates, see size and direction of each, and count what the stream costs.",
)
