"""How variance and gradients move through layers, chains and residual additions."""
