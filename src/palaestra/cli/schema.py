"""Write a JSON schema of settings files, with which editors complete, explain and check them.

In VS Code with the YAML extension: `"yaml.schemas": {"palaestra.schema.json": "configs/**/*.yaml"}`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from palaestra.core.errors import RunError
from palaestra.runtime.settings import json_schema


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `palaestra schema`."""
    parser.add_argument("--out", type=Path, metavar="FILE", help="file to write; without it the schema is printed")


def main(args: argparse.Namespace) -> None:
    """Writes the schema."""
    text = json.dumps(json_schema(), indent=2) + "\n"
    if args.out is None:
        sys.stdout.write(text)
        return
    try:
        args.out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RunError(f"{args.out} cannot be written: {error.strerror}") from None
    print(f"Wrote {args.out}")
