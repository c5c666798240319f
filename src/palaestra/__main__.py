"""Runs the command `palaestra` as `python -m palaestra`."""

import os
import sys

if __name__ == "__main__":
    if sys.path[:1] == [os.getcwd()]:  # `python -m` puts it first, where a stranger's json.py would stand for Python's
        del sys.path[0]
    from palaestra.cli.main import main

    sys.exit(main())
