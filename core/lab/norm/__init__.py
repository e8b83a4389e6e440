"""Row norms: their arithmetic, invariances, Jacobians, gradients and numerical traps."""
