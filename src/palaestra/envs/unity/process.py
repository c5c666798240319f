"""Process of a game: its command line, start, exit, logs and end."""

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
from palaestra.core.files import regular
from palaestra.envs.unity.executable import is_script
from palaestra.envs.unity.options import UnityOptions

KILLED = (-9, 137)  # exit codes after SIGKILL
TERMINATE_GRACE = 2.0  # seconds between SIGTERM and SIGKILL
_TAIL_BYTES = 256 * 1024
_TAIL_LINES = 200
_LINE_LENGTH = 400
# in messages, not in stack frames
_ERROR_LINE = re.compile(r"(?!\s*at |\S+:\w+ ?\().*(Exception|Error|Crash|Segmentation)")
_BAD_PROCESSOR = 86  # macOS's EBADARCH, which errno does not name
_MACHINES = {3: "x86", 40: "ARM", 62: "x86-64", 183: "ARM64"}  # e_machine of ELF
_CRASHES = {
    0xC0000005: "access violation",
    0xC00000FD: "stack overflow",
    0xC0000135: "a DLL is missing",
    0xC000013A: "Ctrl-C",
}


def arguments(options: UnityOptions, copy: int, port: int, log: Path | None) -> list[str]:
    """Returns a build's arguments in ML-Agents' order. Without `log` the build uses its default log file."""
    blind = options.no_graphics or (options.no_graphics_monitor and copy != 0)
    display = ["-nographics", "-batchmode"] if blind else []
    logged = any(arg.lower() == "-logfile" for arg in options.args)
    return [
        *display,
        "--mlagents-port",
        str(port),
        *([] if logged or log is None else ["-logFile", str(log)]),
        *options.args,
    ]


def player_log(options: UnityOptions, log: Path) -> Path:
    """Returns the file of Unity's log: `log`, or the one that the build's arguments name."""
    args = list(options.args)
    named = [value for arg, value in pairwise(args) if arg.lower() == "-logfile" and value != "-"]
    return Path(named[-1]) if named else log


def needs_display(options: UnityOptions, environ: Mapping[str, str], platform: str = sys.platform) -> bool:
    """Whether the first copy needs a display and there is none."""
    if options.executable is None or is_script(options.executable):
        return False
    if options.no_graphics or "-nographics" in (arg.lower() for arg in options.args):
        return False
    return platform.startswith("linux") and not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))


class GameProcess:
    """A running game, with all its child processes.

    It has its own session, so that Ctrl-C reaches only this process. Its process group is killed by `stop` and `kill`,
    when `code` sees that the first process has exited, and when this process ends in any way (not on Windows, since a
    game there quits when its connection breaks).
    """

    def __init__(self, command: list[str], log: Path, output: Path, show_output: bool) -> None:
        """Starts `command` with its output in a new file `output`, or on our terminal.

        Raises EnvError if the file cannot be run, GameGone if the system cannot start it now.
        """
        self.command = command
        self.log = log
        self.output = output
        self._former_log = _stamp(log)
        self._show_output = show_output
        self._swept = False
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
                # appending, since the file may be truncated meanwhile
                output = None if self._show_output else stack.enter_context(open(self.output, "ab"))
            except OSError as error:
                raise EnvError(f"cannot write {error.filename}, a log of the game: {error.strerror}") from error
            try:
                return _launch(self.command, output)
            except OSError as error:
                raise _launch_error(self.command[0], error) from error

    def code(self) -> int | None:
        """Returns the exit code of the first process, negative for a signal; None if it is still running. Kills the
        process's children after it has exited."""
        code = self._process.poll()
        if code is not None:
            self._sweep()
        return code

    def describe_exit(self, when: str = "") -> str:
        """Returns how the process exited, as a predicate for 'the game' with `when`, and a likely cause."""
        code = self.code()
        cause = (
            ". The system kills programs so when memory runs out" if code in KILLED and sys.platform != "win32" else ""
        )
        return "is still running" if code is None else f"{describe(code)}{when}{cause}"

    def tail(self, lines: int = 15) -> str:
        """Returns the last lines of the Player log, or of the printed output if this start wrote no log.

        The lines start at an exception or a crash if there is one among them. The text is empty if nothing was written.
        """
        words = _last_lines(self.log, lines) if _stamp(self.log) != self._former_log else ""
        return words or ("" if self._show_output else _last_lines(self.output, lines))

    def stop(self, grace: float) -> None:
        """Waits up to `grace` seconds for the process to exit, then kills the process, if it is still running, and its
        children."""
        try:
            if not self._exits_within(grace) and sys.platform != "win32":
                self._signal(signal.SIGTERM)
                self._exits_within(TERMINATE_GRACE)
        finally:
            self.kill()
            self._exits_within(TERMINATE_GRACE)
            self.code()

    def kill(self) -> None:
        """Kills the process and all its children without waiting, so a signal handler may call it; `stop` collects the
        exit code."""
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
        """Kills the children of an exited game. Only once, since another process group may get its number later."""
        if self._swept:
            return
        if sys.platform != "win32":
            self._signal(signal.SIGKILL)
        self._swept = True
        if self._guard is not None:
            self._guard.kill()
            self._guard.communicate()

    def _signal(self, number: int) -> None:
        if sys.platform != "win32":  # the group is gone, or only zombies are left (macOS)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)


def describe(code: int, platform: str = sys.platform) -> str:
    """Describes an exit code; a shell reports a program killed by signal N as 128 + N."""
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
        return f"signal {signal.Signals(number).name}"
    except ValueError:
        return f"signal {number}"


def _launch(command: list[str], output: BinaryIO | None, retry_after: float = 0.5) -> subprocess.Popen[bytes]:
    """Starts a process in its own group. Retries once if the file is being written, such as a build still copied."""
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
        if error.errno != errno.ETXTBSY or not retry_after:
            raise
    time.sleep(retry_after)
    return _launch(command, output, retry_after=0.0)


def _guard(group: int) -> subprocess.Popen[bytes] | None:
    """Starts a shell that kills the process group when our end of its pipe closes, however this process ends.

    A connected game quits by itself, but a game that is still loading finds no trainer and would run forever.
    PR_SET_PDEATHSIG would need preexec_fn, which is unsafe with gRPC's threads, and is sent when a thread ends.
    """
    if sys.platform == "win32":
        return None
    command = ["/bin/sh", "-c", 'read -r _; kill -KILL "-$0"', str(group)]
    quiet = subprocess.DEVNULL
    try:
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True, cwd="/"
        )
    except OSError:
        return None  # no shell: games run without a guard


# Errors at the start


def _launch_error(file: str, error: OSError) -> EnvError:
    if isinstance(error, PermissionError):
        if not os.access(file, os.X_OK):
            return EnvError(f"{file} is not marked as a program; run: chmod +x '{file}'")
        return EnvError(
            f"the system does not let {file} run; is it, or the interpreter it names, on a file system mounted noexec?"
        )
    if isinstance(error, FileNotFoundError):
        if not os.path.exists(file):
            return EnvError(f"{file} does not exist")
        return EnvError(f"{file} cannot start: {_interpreter(_head(file))} is missing here")
    if error.errno in (errno.ENOEXEC, _BAD_PROCESSOR) or getattr(error, "winerror", None) == 193:
        return EnvError(f"{file} is not a program for this system: {_nature(_head(file))}")
    return GameGone(f"{file} did not start: {error.strerror or error}")


def _head(file: str) -> bytes:
    try:
        with open(file, "rb", opener=regular) as opened:
            return opened.read(256)
    except OSError:
        return b""


def _interpreter(head: bytes) -> str:
    if head.startswith(b"#!"):
        line = head[2:].split(b"\n")[0].decode(errors="replace")
        ending = (
            " (its line ends in a carriage return: save the script with Unix line ends)" if line.endswith("\r") else ""
        )
        return f"the interpreter {line.strip()}{ending}"
    return "the loader that it was linked for (a build needs a system with glibc)"


def _nature(head: bytes) -> str:
    """Describes a file by its first bytes, and what is needed instead."""
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
        return "it is a text file; a script must begin with a line such as #!/bin/sh"
    return "build the game for this system in Unity"


# Logs


def _stamp(file: Path) -> tuple[int, int, int] | None:
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
    trouble = [index for index, row in enumerate(rows) if _ERROR_LINE.match(row)]
    first = max(0, len(rows) - count)
    if trouble:
        first = min(first, trouble[-1])
    return "\n".join(row[:_LINE_LENGTH] for row in rows[first : first + count])
