"""Write a JSON schema of settings files, with which editors complete, explain and check them.

In VS Code with the YAML extension: `"yaml.schemas": {"palaestra.schema.json": "configs/**/*.yaml"}`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from palaestra.cli.flags import option, switch
from palaestra.core.errors import RunError
from palaestra.core.files import explain, must_be_new, write_whole
from palaestra.runtime.settings import json_schema

EXAMPLES = """\
palaestra schema --out palaestra.schema.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `palaestra schema`."""
    option(parser, "--out", "FILE", "file to write; without it the schema is printed", type=Path)
    switch(parser, "--force", "overwrite an existing file")


def main(args: argparse.Namespace) -> None:
    """Writes the schema."""
    text = json.dumps(json_schema(), indent=2) + "\n"
    if args.out is None:
        sys.stdout.write(text)
        return
    try:
        write_whole(must_be_new(args.out, force=args.force), text.encode())
    except OSError as error:
        raise RunError(f"{args.out} cannot be written: {explain(error)}") from None
    print(f"Wrote {args.out}")
