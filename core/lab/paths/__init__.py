"""Residual paths: Jacobian products, exact expansions, update geometry, and the memory and traffic of the state."""
