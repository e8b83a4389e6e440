"""Find the residual stream of one recorded forward, prove it, and read its states."""
