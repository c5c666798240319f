"""Type of `--seed` in commands that play."""

from __future__ import annotations

import argparse

MOST = 2**63 - 1
"""Largest seed that fits all generators."""


def seed(text: str) -> int:
    """Returns a whole number of at least 0. Raises ArgumentTypeError."""
    if not text.strip().isdecimal() or int(text) > MOST:
        raise argparse.ArgumentTypeError(f"'{text}' is not a seed; expected a whole number from 0 to {MOST}")
    return int(text)
