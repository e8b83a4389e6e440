"""The core of Depthscope: build decoders as they are initialized and measure every state of their residual stream."""

__version__ = "0.1.0"
