"""Experiments on the residual stream: products of Jacobians, sums of updates, their directions, memory and traffic."""
