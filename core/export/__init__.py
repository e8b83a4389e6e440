"""Files of tables, figures and pages (CSV, JSON, HTML, a zip with its manifest), and a comparison of documents."""
