"""Experiments on norms of a row: their arithmetic, invariances, Jacobians, gradients and rounding errors."""
