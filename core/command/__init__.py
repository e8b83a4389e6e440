"""The commands (verbs) of the command line, one module each; every module's `command` is a click command."""
