"""Where foreign code runs: a child process within limits, and what puts a model back as it was found."""
