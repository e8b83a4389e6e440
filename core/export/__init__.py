"""Files of tables, figures and pages: CSV, JSON, HTML, a zip with its manifest, and the differences of two documents.
"""
