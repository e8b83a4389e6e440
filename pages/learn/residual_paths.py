"""Residual paths: what travels along the identity, and what it costs."""

from pages.controls.lab import PAGES
from pages.views.lab import show

show(
    PAGES["residual_paths"],
    "A residual stream is a path from the first state to the last. Multiply the blocks' Jacobians in their order, take "
    "the last state apart into its updates, see size and direction of each, and count what the stream costs.",
)
