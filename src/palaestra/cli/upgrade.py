"""Convert settings files of old ML-Agents versions (trainer YAML, curricula and samplers) to one file in the current
format.

Prints every change, and a warning for each setting that has no counterpart or must be filled in by hand.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from palaestra.cli.flags import option, switch
from palaestra.core.errors import RunError
from palaestra.core.files import explain, must_be_new, write_whole

EXAMPLES = """\
palaestra upgrade trainer_config.yaml new.yaml
palaestra upgrade trainer_config.yaml new.yaml --curriculum curricula/wall-jump --sampler generalize.yaml
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `palaestra upgrade`."""
    parser.add_argument("old", type=Path, metavar="IN", help="trainer file of any age (YAML)")
    parser.add_argument("new", type=Path, metavar="OUT", help="file to write; -: print it")
    curriculum = "curriculum: a file (JSON or YAML), or a folder with one for each behavior"
    option(parser, "--curriculum", "PATH", curriculum, type=Path)
    option(parser, "--sampler", "FILE", "samplers of environment parameters (YAML)", type=Path)
    switch(parser, "--force", "overwrite OUT if it exists")


def main(options: argparse.Namespace) -> None:
    """Writes OUT. Raises ConfigError if an old file cannot be read, and RunError if OUT cannot be written."""
    from palaestra.runtime.upgrade import upgrade

    printed = str(options.new) == "-"
    if not printed:
        must_be_new(options.new, force=options.force)
    upgraded = upgrade(options.old, options.curriculum, options.sampler)
    report = upgraded.report.text() if upgraded.changed else f"{options.old} is current: nothing was changed"
    print(report, file=sys.stderr if printed else sys.stdout)
    if printed:
        sys.stdout.write(upgraded.text)
        return
    try:
        write_whole(options.new, upgraded.text.encode())
    except OSError as error:
        raise RunError(f"{options.new} cannot be written: {explain(error)}") from None
    print(f"Wrote {options.new}" if upgraded.changed else f"Wrote {options.new} (the same file)")
