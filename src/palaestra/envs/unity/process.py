"""One game as a process of the operating system: its command line, start, exit, last words and end."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from palaestra.core.errors import EnvError, GameGone
from palaestra.envs.unity.executable import is_script
from palaestra.envs.unity.options import UnityOptions

TERMINATE_GRACE = 2.0  # seconds between asking a game to end and ending it
_TAIL_BYTES, _TAIL_LINES, _LINE_LENGTH = 256 * 1024, 200, 400
_TROUBLE = re.compile(r"(?!\s*at |\S+:\w+ ?\().*(Exception|Error|Crash|Segmentation)")  # in a message, not in a frame of its stack
_BAD_PROCESSOR = 86  # macOS's EBADARCH, which errno does not name
_MACHINES = {3: "x86", 40: "ARM", 62: "x86-64", 183: "ARM64"}  # e_machine of ELF
_CRASHES = {0xC0000005: "access violation", 0xC00000FD: "stack overflow", 0xC0000135: "a DLL is missing", 0xC000013A: "Ctrl-C"}


def arguments(options: UnityOptions, copy: int, port: int, log: Path | None) -> list[str]:
    """What a build is started with, in the order that the original toolkit uses. Without `log` it logs where it always does."""
    blind = options.no_graphics or (options.no_graphics_monitor and copy != 0)
    display = ["-nographics", "-batchmode"] if blind else []
    logged = any(arg.lower() == "-logfile" for arg in options.args)
    return [*display, "--mlagents-port", str(port), *([] if logged or log is None else ["-logFile", str(log)]), *options.args]


def player_log(options: UnityOptions, log: Path) -> Path:
    """Where Unity writes: `log`, or the file that the build's own arguments name."""
    args = list(options.args)
    named = [value for arg, value in pairwise(args) if arg.lower() == "-logfile" and value != "-"]
    return Path(named[-1]) if named else log


def needs_display(options: UnityOptions, environ: Mapping[str, str], platform: str = sys.platform) -> bool:
    """Whether the first copy opens a window where there is no display to open it on."""
    if options.executable is None or is_script(options.executable):
        return False
    if options.no_graphics or "-nographics" in (arg.lower() for arg in options.args):
        return False
    return platform.startswith("linux") and not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))


class GameProcess:
    """A started game, with all that it starts itself.

    It lives in a session of its own, so that Ctrl-C reaches only us, and its group dies as one: with
    `stop` and `kill`, as soon as `code` sees that the first process has exited, and with this process,
    however that ends (not on Windows, where a game ends by itself when its connection breaks).
    """

    def __init__(self, command: list[str], log: Path, output: Path, show_output: bool) -> None:
        """Starts `command`; what it prints goes to `output`, anew, or to our terminal.

        Raises EnvError where the file cannot be run at all, GameGone where the system would not start it now.
        """
        self.command, self.log, self.output = command, log, output
        self._former_log = _stamp(log)
        self._show_output, self._swept = show_output, False
        self._process = self._start()
        self.pid = self._process.pid
        self._guard = _guard(self.pid)

    def _start(self) -> subprocess.Popen[bytes]:
        with contextlib.ExitStack() as stack:
            try:
                self.log.parent.mkdir(parents=True, exist_ok=True)
                self.output.parent.mkdir(parents=True, exist_ok=True)
                if not self._show_output:
                    self.output.write_bytes(b"")
                output = None if self._show_output else stack.enter_context(open(self.output, "ab"))  # one that is cut goes on at its start
            except OSError as error:
                raise EnvError(f"cannot write {error.filename}, a log of the game: {error.strerror}") from error
            try:
                return _launch(self.command, output)
            except OSError as error:
                raise _launch_error(self.command[0], error) from error

    def code(self) -> int | None:
        """How the first process exited, negative for a signal; None: it runs. Once it has, its children are ended."""
        code = self._process.poll()
        if code is not None:
            self._sweep()
        return code

    def describe_exit(self) -> str:
        """How it exited, to follow a word like 'the game'."""
        code = self.code()
        return "is still running" if code is None else describe(code)

    def tail(self, lines: int = 15) -> str:
        """Its last words: the end of the Player log, or where this start has written none, of what it printed.

        An exception or a crash among the last lines is preferred, with what follows it. Empty where nothing was written.
        """
        words = _last_lines(self.log, lines) if _stamp(self.log) != self._former_log else ""
        return words or ("" if self._show_output else _last_lines(self.output, lines))

    def stop(self, grace: float) -> None:
        """Waits up to `grace` seconds for it to exit, then ends it. Nothing of it is left afterwards."""
        try:
            if not self._exits_within(grace) and sys.platform != "win32":
                self._signal(signal.SIGTERM)
                self._exits_within(TERMINATE_GRACE)
        finally:
            self.kill()
            self._exits_within(TERMINATE_GRACE)
            self.code()

    def kill(self) -> None:
        """Ends it with all its children, at once. Waits for nothing, so a signal handler may call it; `stop` reaps."""
        if self._swept:
            return
        if sys.platform == "win32":
            with contextlib.suppress(OSError):
                subprocess.run(["taskkill", "/F", "/T", "/PID", str(self.pid)], check=False, capture_output=True)
            with contextlib.suppress(OSError):
                self._process.kill()
        else:
            self._signal(signal.SIGKILL)

    def _exits_within(self, seconds: float) -> bool:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=seconds)
            return True
        return False

    def _sweep(self) -> None:
        """Ends what an exited game has left. Only once: its number may be given to a stranger's group from now on."""
        if self._swept:
            return
        if sys.platform != "win32":
            self._signal(signal.SIGKILL)
        self._swept = True
        if self._guard is not None:
            self._guard.kill()
            self._guard.communicate()

    def _signal(self, number: int) -> None:
        if sys.platform != "win32":  # no such group: all are gone; not permitted: macOS, where only the unreaped are left
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)


def describe(code: int, platform: str = sys.platform) -> str:
    """An exit code in words; 128 + N is how a shell reports that a program it ran was killed by signal N."""
    if platform == "win32":
        number = code & 0xFFFFFFFF
        known = f" ({_CRASHES[number]})" if number in _CRASHES else ""
        return f"exited with code 0x{number:08X}{known}" if number > 0xFFFF else f"exited with code {code}"
    if code < 0:
        return f"was killed by {_signal_name(-code)}"
    inner = f" (a program it ran was killed by {_signal_name(code - 128)})" if 128 < code < 160 else ""
    return f"exited with code {code}{inner}"


def _signal_name(number: int) -> str:
    try:
        name = f"signal {signal.Signals(number).name}"
    except ValueError:
        return f"signal {number}"
    return f"{name}, as the system does when memory runs out" if name == "signal SIGKILL" else name


def _launch(command: list[str], output: BinaryIO | None, patience: float = 0.5) -> subprocess.Popen[bytes]:
    """Starts it in a group of its own. A file that is being written, such as a build that is still copied, is tried once more."""
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=None if output is None else subprocess.STDOUT,
            start_new_session=sys.platform != "win32",
            creationflags=subprocess.CREATE_NEW_PROCESS_GROUP if sys.platform == "win32" else 0,
        )
    except OSError as error:
        if error.errno != errno.ETXTBSY or not patience:
            raise
    time.sleep(patience)
    return _launch(command, output, patience=0.0)


def _guard(group: int) -> subprocess.Popen[bytes] | None:
    """A shell that ends the group when our end of its pipe closes, which no kind of death of ours can prevent.

    A game that is connected notices and quits by itself, but one that is still loading finds no trainer and plays on
    for ever. PR_SET_PDEATHSIG would need preexec_fn, which is unsafe with gRPC's threads, and fires when a thread ends.
    """
    if sys.platform == "win32":
        return None
    command = ["/bin/sh", "-c", 'read -r _; kill -KILL "-$0"', str(group)]
    quiet = subprocess.DEVNULL
    try:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True, cwd="/")
    except OSError:
        return None  # a system without a shell: its games go unguarded


# What went wrong at a start


def _launch_error(file: str, error: OSError) -> EnvError:
    """What to do about a file that does not start."""
    if isinstance(error, PermissionError):
        if not os.access(file, os.X_OK):
            return EnvError(f"{file} is not marked as a program; run: chmod +x '{file}'")
        return EnvError(f"the system does not let {file} run; is it, or the interpreter it names, on a file system mounted noexec?")
    if isinstance(error, FileNotFoundError):
        if not os.path.exists(file):
            return EnvError(f"{file} is not there (any more)")
        return EnvError(f"{file} cannot start: {_interpreter(_head(file))} is missing here")
    if error.errno in (errno.ENOEXEC, _BAD_PROCESSOR) or getattr(error, "winerror", None) == 193:
        return EnvError(f"{file} is no program for this system: {_nature(_head(file))}")
    return GameGone(f"{file} did not start: {error.strerror or error}")


def _head(file: str) -> bytes:
    try:
        with open(file, "rb") as opened:
            return opened.read(256)
    except OSError:
        return b""


def _interpreter(head: bytes) -> str:
    if head.startswith(b"#!"):
        line = head[2:].split(b"\n")[0].decode(errors="replace")
        ending = " (its line ends in a carriage return: save the script with Unix line ends)" if line.endswith("\r") else ""
        return f"the interpreter {line.strip()}{ending}"
    return "the loader that it was linked for (a build needs a system with glibc)"


def _nature(head: bytes) -> str:
    """What kind of file begins so, and what would be needed."""
    if not head:
        return "the file is empty"
    if head.startswith(b"MZ"):
        return "it is a Windows build; build the game for this system in Unity"
    if head.startswith((b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")):
        return "it is a macOS build; build the game for this system and its processor in Unity"
    if head.startswith(b"\x7fELF"):
        number = int.from_bytes(head[18:20], "little")
        return f"it is built for processors of kind {_MACHINES.get(number, number)}; build the game for this machine's"
    if b"\0" not in head:
        return "it is a text; a script must begin with a line such as #!/bin/sh"
    return "build the game for this system in Unity"


# Its last words


def _stamp(file: Path) -> tuple[int, int, int] | None:
    """Changes whenever the file does; None: it is not there, or empty."""
    try:
        stat = file.stat()
    except OSError:
        return None
    return (stat.st_ino, stat.st_size, stat.st_mtime_ns) if stat.st_size else None


def _last_lines(file: Path, count: int) -> str:
    try:
        with open(file, "rb") as opened:
            opened.seek(max(0, os.fstat(opened.fileno()).st_size - _TAIL_BYTES))
            text = opened.read(_TAIL_BYTES).decode(errors="replace").replace("\0", "")
    except OSError:
        return ""
    rows = [row.rstrip() for row in text.rstrip().splitlines()[-_TAIL_LINES:]]
    trouble = [index for index, row in enumerate(rows) if _TROUBLE.match(row)]
    first = max(0, len(rows) - count)
    if trouble:
        first = min(first, trouble[-1])
    return "\n".join(row[:_LINE_LENGTH] for row in rows[first : first + count])
