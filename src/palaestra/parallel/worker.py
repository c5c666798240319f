"""A child process that runs one function.

It does not import the program's main module, as `multiprocessing` would: scripts need no `if __name__ == "__main__"`.
Signals of the terminal do not reach the child process, and it ends with its parent, in whatever way the parent ends.
"""

from __future__ import annotations

import json
import os
import pickle
import selectors
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

from palaestra.core.errors import PalaestraError
from palaestra.core.plugins import own_python, without_garbage_collection

GRACE = 5.0
"""Seconds that a worker has to end after its connection was closed."""
BROKEN = (EOFError, OSError)
"""Exceptions of a connection whose other side has ended."""


class WorkerLost(PalaestraError):
    """A worker process ended without being asked to."""


class WorkerFailed(PalaestraError):
    """A worker's function raised an exception that is no PalaestraError; the message has its traceback."""


class WorkerProcess:
    """A process that runs `function(connection, *arguments)`; both sides talk over the connection."""

    def __init__(self, function: Callable[..., object], *arguments: object, title: str) -> None:
        """`function`: a module-level function. `title` names the process in errors."""
        self.title = title
        self.connection, theirs = Pipe()
        self._process = self._start(theirs)
        theirs.close()
        task = {"function": [function.__module__, function.__qualname__], "path": sys.path}
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(task).encode() + b"\n")
            self._process.stdin.flush()
        self.pid = self._process.pid
        self.send(pickle.dumps(arguments))

    @staticmethod
    def _start(theirs: Connection) -> subprocess.Popen[bytes]:
        handle = theirs.fileno()
        command = own_python("palaestra.parallel.worker", str(handle))
        if sys.platform == "win32":
            os.set_handle_inheritable(handle, True)
            return subprocess.Popen(command, stdin=subprocess.PIPE, close_fds=False)
        return subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[handle])

    def send(self, message: bytes) -> None:
        """Sends a message. Raises WorkerLost if the process has ended, or the function's exception."""
        try:
            self.connection.send_bytes(message)
        except BROKEN as error:
            self._raise_failure(error)

    def receive(self) -> bytes:
        """Waits for a message. Raises WorkerLost if the process has ended, or the function's exception."""
        try:
            message = self.connection.recv_bytes()
        except BROKEN as error:
            raise WorkerLost(f"{self.title} {self.describe_exit()}") from error
        raise_failure(message, self.title)
        return message

    def _raise_failure(self, error: OSError | EOFError) -> None:
        """Raises the exception that ended the worker, if it left one, else WorkerLost."""
        while True:
            try:
                message = self.connection.recv_bytes()
            except BROKEN:
                raise WorkerLost(f"{self.title} {self.describe_exit()}") from error
            raise_failure(message, self.title)

    def ready(self, timeout: float = 0.0) -> bool:
        """Whether a message arrives, or the worker ends, within `timeout` seconds."""
        return self.connection.poll(timeout)

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def describe_exit(self) -> str:
        """Returns how the process ended, as a predicate."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE)
        code = self._process.poll()
        if code is None:
            return "closed its connection"
        if code >= 0:
            return f"ended with exit code {code}"
        name = signal.Signals(-code).name if -code in {*signal.Signals} else str(-code)
        return f"was killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")

    def kill(self) -> None:
        """Ends the process at once. Safe in a signal handler."""
        with suppress(OSError):
            self._process.kill()

    def close(self, grace: float = GRACE) -> None:
        """Closes the connection, so that the worker ends; kills it after `grace` seconds. May be called again."""
        self.connection.close()
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(grace)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Listener:
    """Waits for several connections at once, each of which has a number. Connections are registered only once, since
    registering takes longer than waiting."""

    def __init__(self) -> None:
        self._selector = None if sys.platform == "win32" else selectors.DefaultSelector()
        self._numbers: dict[Any, int] = {}
        self._awake, self._wake = Pipe(duplex=False)
        self.add(self._awake, -1)

    def add(self, connection: Any, number: int) -> None:
        """Adds a connection."""
        self._numbers[connection] = number
        if self._selector is not None:
            self._selector.register(connection, selectors.EVENT_READ)

    def remove(self, connection: Any) -> None:
        """Removes a connection that is still open."""
        del self._numbers[connection]
        if self._selector is not None:
            self._selector.unregister(connection)

    def wait(self, seconds: float) -> list[tuple[int, Any]]:
        """Waits until a connection has a message or its other side has ended, or `wake` is called; returns these
        connections with their numbers, or an empty list after `seconds`."""
        if self._selector is None:
            found = list(wait(list(self._numbers), seconds))
        else:
            found = [key.fileobj for key, _ in self._selector.select(seconds)]
        if self._awake in found:
            found.remove(self._awake)
            self._awake.recv_bytes()
        return [(self._numbers[connection], connection) for connection in found]

    def wake(self) -> None:
        """Ends a wait. Safe in a signal handler."""
        with suppress(OSError):
            self._wake.send_bytes(b"!")

    def close(self) -> None:
        """Frees the resources that the system holds for the listener."""
        if self._selector is not None:
            self._selector.close()
        self._awake.close()
        self._wake.close()


_FAILURE = b"palaestra-failure:"


def failure_message(error: BaseException) -> bytes:
    """Returns an exception as a message: class, text and plain attributes of a PalaestraError, and the traceback."""
    kind = type(error)
    text = str(error)
    facts = dict[str, object]()
    whole = "".join(traceback.format_exception(error))
    if isinstance(error, PalaestraError):
        facts = {name: value for name, value in vars(error).items() if isinstance(value, bool | int | float | str)}
    else:
        kind = WorkerFailed
        text = whole
    failure = {"module": kind.__module__, "name": kind.__qualname__, "text": text, "facts": facts, "traceback": whole}
    return _FAILURE + json.dumps(failure).encode()


def raise_failure(message: bytes, title: str) -> None:
    """Raises the exception in a message of `failure_message`; does nothing for any other message."""
    if not message.startswith(_FAILURE):
        return
    failure = json.loads(message[len(_FAILURE) :])
    kind = getattr(import_module(failure["module"]), failure["name"])
    # some classes build their text from other arguments
    error = kind.__new__(kind)
    PalaestraError.__init__(error, f"{title} failed:\n{failure['text']}" if kind is WorkerFailed else failure["text"])
    vars(error).update(failure["facts"])
    raise error from (None if kind is WorkerFailed else WorkerFailed(f"{title} failed:\n{failure['traceback']}"))


def main(handle: int) -> None:
    """Runs the function that the first line of standard input names, in the worker process."""
    for number in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, number):
            signal.signal(getattr(signal, number), signal.SIG_IGN)
    task = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_parent, daemon=True, name="palaestra liveness").start()
    sys.path[:] = task["path"]
    connection: Any = Connection(handle)
    if sys.platform == "win32":
        from multiprocessing.connection import PipeConnection

        connection = PipeConnection(handle)
    try:
        module, name = task["function"]
        with without_garbage_collection():
            function = getattr(import_module(module), name)
            arguments = pickle.loads(connection.recv_bytes())
        function(connection, *arguments)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the other side has closed the connection
    except BaseException as error:
        with suppress(OSError):
            connection.send_bytes(failure_message(error))
        sys.exit(1)


def _end_with_parent() -> None:
    """Ends this process once the other one has closed our standard input, or has ended."""
    while os.read(0, 1):  # not by sys.stdin, whose lock would be held when the interpreter shuts down
        pass
    os._exit(0)


if __name__ == "__main__":
    from palaestra.parallel import worker  # this module under its own name, which its exceptions carry

    worker.main(int(sys.argv[1]))
