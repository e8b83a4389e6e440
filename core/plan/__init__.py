"""What is known of a run before a weight is drawn: parameters, bytes, known models and readers of a `config.json`."""
