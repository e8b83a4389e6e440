"""Judging whether a model's initialization does what its depth recipe says."""
