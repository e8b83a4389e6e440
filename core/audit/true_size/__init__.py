"""The audit of a model that memory does not hold: its blocks are drawn one at a time, read, used and forgotten."""
