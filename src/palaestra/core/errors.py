"""Everything that Palaestra raises on purpose.

PalaestraError
├── ConfigError       a settings file or flag that cannot be used; knows its file and line
├── PluginError       a name that no entry point answers to, one that fails to load, or a plug-in that breaks its contract
├── EnvError          an environment broke its contract, or is gone
│   └── NotFinite     it sent a NaN or an infinity
├── RunError          a run folder that cannot be started, resumed or read
│   └── CheckpointError   a checkpoint that is missing, damaged or from another run
├── ExportError       a network that cannot be written as ONNX, or whose file disagrees with it
└── PolicyError       a model file that `load_policy` cannot run
"""

from __future__ import annotations

from pathlib import Path


class PalaestraError(Exception):
    """Root of the tree. The command line prints its message, without a traceback, and exits with 1."""


class ConfigError(PalaestraError):
    """A settings file or flag that cannot be used."""

    def __init__(self, message: str, file: Path | str | None = None, line: int | None = None) -> None:
        where = "" if file is None else f"{file}: " if line is None else f"{file}:{line}: "
        super().__init__(where + message)
        self.file, self.line = file, line


class PluginError(PalaestraError):
    """A name that no entry point answers to, an entry point that fails to load, or a plug-in that breaks its contract."""


class EnvError(PalaestraError):
    """An environment broke its contract, or is gone."""


class NotFinite(EnvError):
    """An environment sent a number that is NaN or infinite."""

    def __init__(self, behavior: str, agent: int, what: str, value: float) -> None:
        super().__init__(
            f"behavior '{behavior}', agent {agent}: {what} is {value}; "
            f"the environment must send finite numbers (often a division by zero where it is computed)"
        )


class RunError(PalaestraError):
    """A run folder that cannot be started, resumed or read."""


class CheckpointError(RunError):
    """A checkpoint that is missing, damaged or from another run."""


class ExportError(PalaestraError):
    """A network that cannot be written as ONNX, or whose file disagrees with it."""


class PolicyError(PalaestraError):
    """A model file that `load_policy` cannot run."""
