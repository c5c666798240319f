"""Choices of the command line: the runs and the environment to show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Site:
    """Choices of the command line."""

    results: Path
    """Folder of all runs. No file outside it is read for a browser."""
    run: str | None = None
    """Run that the page opens with."""
    env: str | None = None
    """Environment that the page opens with."""
    brains: Sequence[str] = ()
    """Brains for it, as typed after --brain."""
    trust: bool = False
    """Whether code that folders of other users name may be run."""
