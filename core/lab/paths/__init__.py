"""Residual paths: Jacobian products, exact expansions, update geometry and the state's ledger."""
