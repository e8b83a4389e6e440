"""The long tables of documents, sweeps and comparisons, their views for display, and the sentences shown with them.

A *view* is a table for display: readable titles as column names, and only the columns that have a title.
"""
