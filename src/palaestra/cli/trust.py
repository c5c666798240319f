"""Flag `--trust`, which several commands share."""

from __future__ import annotations

import argparse


def add_trust(parser: argparse._ActionsContainer, what: str = "environment") -> None:
    """Adds the flag; `what` names the parts of a run that may be code."""
    parser.add_argument(
        "--trust",
        action="store_true",
        help=f"run the code or program that is the run's {what}, even if its folder was not written by you on this "
        "machine",
    )
