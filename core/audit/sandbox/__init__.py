"""Runs code that is not this project's: in a child process within limits, and with the model restored afterwards."""
