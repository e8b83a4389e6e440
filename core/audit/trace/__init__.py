"""Finding the residual stream of a model in one recorded forward pass, measuring it and proving it."""
