"""Versions that are written into files and sent to games."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

MLAGENTS = "1.1.0"
"""Version of ML-Agents whose file formats we write; tools that read them compare it."""


@cache
def palaestra_version() -> str:
    """Returns the version of the installed package."""
    try:
        return version("palaestra")
    except PackageNotFoundError:
        return "unknown"
