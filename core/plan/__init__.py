"""What a run needs before a weight is drawn: parameters, bytes, known models and readers of a `config.json`."""
