"""Residual paths: what travels along the identity, and what it costs."""

from pages.controls.residual_paths import PAGE
from pages.views.lab import show

show(
    PAGE,
    "A residual stream is a path from the first state to the last. Multiply the blocks' Jacobians in their order, take "
    "the last state apart into its updates, see size and direction of each, and count what the stream costs.",
)
