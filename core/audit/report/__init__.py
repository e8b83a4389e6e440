"""The outcome of an audit as a document, and the reports and exit status that a gate gives."""
