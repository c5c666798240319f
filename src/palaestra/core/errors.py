"""Exceptions that Palaestra raises on purpose.

PalaestraError
├── ConfigError       a settings file, flag or argument that cannot be used; knows its file and line
│   └── CallError     a function of the Python API was called with such an argument
├── PluginError       a name without an entry point, an entry point that fails to load, or a plug-in that breaks its
│                     contract
├── EnvError          an environment broke its contract or stopped working
│   ├── NotFinite     it returned a NaN or an infinity
│   ├── ProtocolError a game sent a message that is damaged or makes no sense
│   └── GameGone      a game did not start, exited, disconnected or stopped answering
├── RunError          a run folder that cannot be started, resumed or read
│   ├── RunInUse      another process writes to it
│   ├── FolderLost    it was deleted or became unwritable during training
│   ├── Diverged      weights or losses became NaN or infinite
│   └── CheckpointError   a checkpoint that is missing, damaged or from another run
├── CallbackError     a callback of the program that trains raised an exception
├── DemoError         a demonstration file that cannot be read or written
│   └── EmptyDemo     a file without records
├── HubError          something on the Hugging Face Hub that cannot be read or written
├── ExportError       a network that cannot be written as ONNX, or whose ONNX file gives other results
└── PolicyError       a model file that `load_policy` cannot run
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import traceback
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from palaestra.core.display import escaped_lines, indented, shown_path
from palaestra.core.wording.error_topics import POINTER, topic_of

_OURS = f"{Path(__file__).parents[1]}{os.sep}"
_LIBRARIES = tuple({f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib", "purelib", "platlib")})
"""Folders of Python's own modules and of installed packages."""
_DEPTH = 12  # calls that an error knows


class PalaestraError(Exception):
    """Base class of all exceptions that Palaestra raises on purpose. The command line prints its message, without a
    traceback, and exits with 1.

    Control characters in the message, such as those in a behavior's name, are escaped. All lines but the first are
    indented.
    """

    def __init__(self, *message: object) -> None:
        super().__init__(*(escaped_lines(part) if isinstance(part, str) else part for part in message))
        self.places = _places(self, sys._getframe(1))

    @property
    def topic(self) -> str:
        """Kind of the error: `palaestra help errors TOPIC` prints its causes and cures; '' if it has none."""
        return topic_of(self, [kind.__name__ for kind in type(self).__mro__], getattr(self, "places", ""))

    def _render_traceback_(self) -> list[str]:
        """Returns the lines that IPython shows; the last is the caller's own line, not a line of ours."""
        frames: list[TracebackType] = []
        last = self.__traceback__
        while last is not None:
            frames.append(last)
            last = last.tb_next
        while len(frames) > 1 and frames[-1].tb_frame.f_code.co_filename.startswith(_OURS):
            frames.pop()
        shown = None
        for frame in reversed(frames):
            shown = TracebackType(shown, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
        shell: Any = sys.modules["IPython"].get_ipython()
        lines = shell.InteractiveTB.structured_traceback(type(self), self, shown)
        return [*lines, POINTER.replace("palaestra", "!palaestra") + topic] if (topic := self.topic) else lines


class ConfigError(PalaestraError):
    """A settings file or flag that cannot be used."""

    def __init__(self, message: str, file: Path | str | None = None, line: int | None = None) -> None:
        where = "" if file is None else f"{file}: " if line is None else f"{file}:{line}: "
        super().__init__(where + message)
        self.file = file
        self.line = line


class CallError(ConfigError, TypeError):
    """A function of the Python API was called with an unknown or unusable argument."""


class PluginError(PalaestraError):
    """A name without an entry point, an entry point that fails to load, or a plug-in that breaks its contract."""


class EnvError(PalaestraError):
    """An environment broke its contract or stopped working."""


class StateOfAnotherVersion(EnvError):
    """A saved state is of an earlier or later version of the environment, so its episodes cannot continue."""


class NotFinite(EnvError):
    """An environment returned a number that is NaN or infinite."""

    def __init__(self, behavior: str, agent: int | str, what: str, value: float) -> None:
        super().__init__(
            f"behavior '{behavior}', agent {agent}: {what} is {value}; the environment must send finite numbers "
            "(often a division by zero where it is computed)"
        )


class ProtocolError(EnvError):
    """A game sent a message that is damaged or makes no sense."""


class GameGone(EnvError):
    """A game did not start, exited, disconnected or stopped answering; the message says which, and what to do."""


class RunError(PalaestraError):
    """A run folder that cannot be started, resumed or read."""


class RunInUse(RunError):
    """Another process, or another run of this process, writes to the run's folder."""


class FolderLost(RunError):
    """A run's folder was deleted, moved, taken over by another run or became unwritable during training."""

    def __init__(self, message: str, saved: Path | None = None) -> None:
        """`saved`: the run folder in which the state was saved instead; training can resume from it."""
        super().__init__(message)
        self.saved = saved


class SeveralProcesses(ConfigError):
    """A run that must be trained in several processes was started in a single process."""

    def __init__(self, count: int) -> None:
        """`count`: the number of processes."""
        super().__init__(
            f"the settings ask for {count} processes, which a program cannot start itself; torchrun does: "
            f"torchrun --nproc-per-node={count} script.py"
        )
        self.count = count


class RankLost(PalaestraError):
    """Another process of the same run (a rank) ended or did not answer."""

    def __init__(self, message: str, *, reports: bool = True) -> None:
        """`reports`: whether this process is the one to report it."""
        super().__init__(message)
        self.reports = reports


class Diverged(RunError):
    """Weights or losses became NaN or infinite, so training cannot continue."""


class CheckpointError(RunError):
    """A checkpoint that is missing, damaged or from another run."""


class CallbackError(PalaestraError):
    """A user's callback raised an exception, which is the `__cause__` of this error."""


class DemoError(PalaestraError):
    """A demonstration file that cannot be read or written."""


class EmptyDemo(DemoError):
    """A demonstration file without records."""


class HubError(PalaestraError):
    """Something on the Hugging Face Hub that cannot be read or written."""


class ExportError(PalaestraError):
    """A network that cannot be written as ONNX, or whose ONNX file gives other results."""


class PolicyError(PalaestraError):
    """A model file that `load_policy` cannot run."""


def _places(error: PalaestraError, frame: FrameType | None) -> str:
    """Names our functions in the stack of an error, except functions that only build the error."""
    while frame is not None and frame.f_code.co_name == "__init__" and frame.f_locals.get("self") is error:
        frame = frame.f_back
    found: list[str] = []
    while frame is not None and len(found) < _DEPTH:
        module, _, name = str(frame.f_globals.get("__name__")).partition("palaestra.")
        if not module and name and not frame.f_code.co_name.startswith("<"):
            found.append(f"{name}:{frame.f_code.co_name}")
        frame = frame.f_back
    return " ".join(found)


STOPS = (KeyboardInterrupt, GeneratorExit)
"""Exceptions that ask the program to stop, even if they pass through a user's code."""


def exception_summary(error: BaseException) -> str:
    """Describes an exception from code outside Palaestra in one line: its type, message, file and line."""
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg} ({shown_path(error.filename)}, line {error.lineno})"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<frozen")]
    misfit = isinstance(error, TypeError) and frames and frames[-1].filename.startswith(_OURS)  # a call of ours
    place = user_code_location(error) or (_location(frames[-1]) if frames and not misfit else "")
    text = indented(str(error))
    return f"{type(error).__name__}{': ' if text else ''}{text}{place}"


def out_of_memory(error: BaseException) -> bool:
    """Whether the machine or its accelerator ran out of memory: torch raises RuntimeError for both."""
    return isinstance(error, MemoryError) or "can't allocate memory" in str(error) or "out of memory" in str(error)


def is_users(file: str) -> bool:
    """Whether a source file belongs to the user's program: neither to Palaestra nor to an installed package."""
    return not file.startswith(("<frozen", _OURS, *_LIBRARIES))


def user_code_location(error: BaseException) -> str:
    """Returns ' (file, line N)' of the innermost frame of the user's program, else of another package, or ''."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not frame.filename.startswith(("<frozen", _OURS))]
    theirs = [frame for frame in theirs if is_users(frame.filename)] or theirs
    return _location(theirs[-1]) if theirs else ""


def _location(frame: traceback.FrameSummary) -> str:
    """Returns ' (file, line N)' of a frame; or 'cell of the notebook', as its file name is meaningless."""
    is_cell = re.search(r"[/\\]ipykernel_\d+[/\\]\d+\.py$", frame.filename)
    return f" ({'cell of the notebook' if is_cell else shown_path(frame.filename)}, line {frame.lineno})"
