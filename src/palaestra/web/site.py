"""Choices of the command line: the runs and the environment to show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from palaestra.core.plugins import registry


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
    """Brains for `env`, as typed after --brain."""
    flags: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """Settings of Unity games that were typed, by section."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Options of the environment that were typed."""
    trust: bool = False
    """Whether code that other users' folders name may be run."""

    def brains_for(self, env: str) -> tuple[str, ...]:
        """Returns the brains for an environment, as typed; empty except for the environment of the command line."""
        return tuple(self.brains) if env and env == self.env else ()

    def options_for(self, run: str, env: str) -> Mapping[str, Any]:
        """Returns the options of an environment or run, as typed; empty except for those of the command line."""
        return self.options if (env and env == self.env) or (run and run == self.run) else {}

    def allows_env(self, name: str) -> bool:
        """Whether an address may name this environment: only a registered one, or the one of the command line.

        Any other name could start a program or import a module, and a link on another site can lead to any address of
        the page.
        """
        return not name or name == self.env or name in registry("envs")
