"""Run the command line: `python -m core VERB`."""

from .cli import main

if __name__ == "__main__":
    main()
