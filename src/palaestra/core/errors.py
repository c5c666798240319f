"""Everything that Palaestra raises on purpose.

PalaestraError
├── ConfigError       a settings file or flag that cannot be used; knows its file and line
├── PluginError       a name that no entry point answers to, one that fails to load, or a plug-in that breaks its contract
├── EnvError          an environment broke its contract, or is gone
│   ├── NotFinite     it sent a NaN or an infinity
│   ├── ProtocolError a game sent a message that cannot be read or does not make sense
│   └── GameGone      a game did not start, exited, hung up or stopped answering
├── RunError          a run folder that cannot be started, resumed or read
│   ├── RunInUse          another process writes to it
│   ├── FolderLost        it was deleted, or cannot be written to any more, while a run trained
│   └── CheckpointError   a checkpoint that is missing, damaged or from another run
├── DemoError         a demonstration file that cannot be read or written
│   └── EmptyDemo     one without a single record
├── ExportError       a network that cannot be written as ONNX, or whose file disagrees with it
└── PolicyError       a model file that `load_policy` cannot run
"""

from __future__ import annotations

import os
import traceback
from pathlib import Path

from palaestra.core.display import escaped_lines, indented

_OURS = f"{Path(__file__).parents[1]}{os.sep}"


class PalaestraError(Exception):
    """Root of the tree. The command line prints its message, without a traceback, and exits with 1.

    Control characters in the message, such as those of a behavior's name, are escaped. Lines after its first are indented.
    """

    def __init__(self, *message: object) -> None:
        super().__init__(*(escaped_lines(part) if isinstance(part, str) else part for part in message))


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


class ProtocolError(EnvError):
    """A game sent a message that cannot be read or does not make sense."""


class GameGone(EnvError):
    """A game did not start, exited, hung up or stopped answering; the message says which, and what to do."""


class RunError(PalaestraError):
    """A run folder that cannot be started, resumed or read."""


class RunInUse(RunError):
    """Another process, or another run of this one, writes to the run's folder."""


class FolderLost(RunError):
    """A run's folder was deleted, moved or taken over while it trained, or cannot be written to any more."""

    def __init__(self, message: str, saved: Path | None = None) -> None:
        """`saved`: the folder of a run in which the state was saved instead, and which can be resumed."""
        super().__init__(message)
        self.saved = saved


class Diverged(RunError):
    """Weights or losses that are no numbers any more: nothing more can be learned from here on."""


class CheckpointError(RunError):
    """A checkpoint that is missing, damaged or from another run."""


class DemoError(PalaestraError):
    """A demonstration file that cannot be read or written."""


class EmptyDemo(DemoError):
    """A demonstration file without a single record."""


class ExportError(PalaestraError):
    """A network that cannot be written as ONNX, or whose file disagrees with it."""


class PolicyError(PalaestraError):
    """A model file that `load_policy` cannot run."""


def exception_summary(error: BaseException) -> str:
    """An exception of someone else's code in a line: what was raised, and in which file and line."""
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg} ({error.filename}, line {error.lineno})"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<frozen")]
    place = user_code_location(error) or (f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else "")
    return f"{type(error).__name__}: {indented(str(error))}{place}"


def user_code_location(error: BaseException) -> str:
    """' (file, line N)' of someone else's code that was the last to run, or nothing where only ours did."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not frame.filename.startswith(("<frozen", _OURS))]
    return f" ({theirs[-1].filename}, line {theirs[-1].lineno})" if theirs else ""
