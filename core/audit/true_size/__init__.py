"""Audits a model that is too large for memory: its blocks are drawn one at a time, used and dropped."""
