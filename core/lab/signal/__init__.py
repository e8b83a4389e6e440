"""Experiments on the variance of signals and gradients in layers, chains of layers and residual additions."""
