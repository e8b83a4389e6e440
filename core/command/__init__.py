"""The commands (verbs) of the command line, one module each; the variable `command` of a module is a click command."""
