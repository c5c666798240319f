"""Versions that files and games are told."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

MLAGENTS = "1.1.0"
"""The version of ML-Agents whose files these are; tools that read them compare it."""


@cache
def palaestra_version() -> str:
    """Returns the version of the installed package."""
    try:
        return version("palaestra")
    except PackageNotFoundError:
        return "unknown"
