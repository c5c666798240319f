"""Runs the command `palaestra` as `python -m palaestra`."""

import sys

from palaestra.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
