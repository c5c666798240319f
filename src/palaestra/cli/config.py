"""`palaestra config`: the settings that a file comes to, with every default, as YAML."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.syntax import Syntax

from palaestra.runtime.settings import load, to_yaml


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The file, and changes to it."""
    parser.add_argument("config", type=Path, metavar="FILE", help="YAML file of settings, such as configs/ppo/3DBall.yaml")
    parser.add_argument(
        "--set",
        dest="sets",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help="change a setting, such as behaviors.3DBall.max_steps=1e6; 'behaviors.*' means all of them; may be repeated",
    )


def main(args: argparse.Namespace) -> None:
    """Prints YAML on stdout, and what loading had to say on stderr."""
    loaded = load(args.config, sets=args.sets)
    for warning in loaded.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    text, console = to_yaml(loaded.settings), Console()
    if console.is_terminal:
        console.print(Syntax(text, "yaml", theme="ansi_dark", background_color="default").highlight(text), end="", soft_wrap=True)
    else:
        sys.stdout.write(text)
