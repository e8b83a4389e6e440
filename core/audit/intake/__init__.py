"""Checks what users provide (files, configurations, weights, families) before anything is built from it."""
