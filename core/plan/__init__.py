"""What is known of a decoder before a weight is drawn: parameters, bytes, known models, readers of `config.json`."""
