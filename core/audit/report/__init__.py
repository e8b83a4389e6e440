"""The outcome of an audit as a document, the reports, and the exit status of a gate."""
