"""`python -m palaestra` is the command `palaestra`."""

import sys

from palaestra.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
