"""The tables of documents, sweeps and comparisons, one row per observation, and the sentences shown with them.

A view is a table for display: it has readable titles as column names, and only the columns that have a title.
"""
