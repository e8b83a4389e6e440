"""Depthscope's core: decoders at initialization, observed at every residual site."""

__version__ = "0.1.0"
