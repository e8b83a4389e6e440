"""The audit of a foreign model: discovery of its residual stream, proof, health."""
