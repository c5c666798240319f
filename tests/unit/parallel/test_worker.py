import os
import signal
import subprocess
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

import psutil
import pytest

from palaestra.core.errors import EnvError, NotFinite
from palaestra.parallel.worker import WorkerFailed, WorkerLost, WorkerProcess


def echo(connection: Connection, prefix: bytes) -> None:
    """Answers every message."""
    while True:
        connection.send_bytes(prefix + connection.recv_bytes())


def fail(connection: Connection, kind: str) -> None:
    """Raises an exception of the kind."""
    match kind:
        case "env":
            raise EnvError("the ball is gone")
        case "finite":
            raise NotFinite("Ball", 3, "reward", float("nan"))
        case _:
            raise ZeroDivisionError("one by nothing")


def exit_at_once(connection: Connection) -> None:
    """Ends the process without a word."""
    os._exit(7)


def pid_and_sleep(connection: Connection) -> None:
    """Tells its process id, then is busy."""
    connection.send_bytes(str(os.getpid()).encode())
    time.sleep(600)


def gone(pid: int, within: float = 10.0) -> bool:
    """Whether a process ends in time."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


def test_a_worker_answers_and_ends_when_it_is_closed():
    worker = WorkerProcess(echo, b"echo ", title="the echo")
    worker.send(b"one")
    assert worker.receive() == b"echo one"
    worker.close()
    assert not worker.alive
    worker.close()


@pytest.mark.parametrize(
    ("kind", "error", "text"),
    [
        ("env", EnvError, "the ball is gone"),
        ("finite", NotFinite, "reward"),
        ("other", WorkerFailed, "ZeroDivisionError: one by nothing"),
    ],
)
def test_an_exception_of_the_worker_is_raised_here(kind: str, error: type[Exception], text: str):
    worker = WorkerProcess(fail, kind, title="the failing worker")
    with pytest.raises(error, match=text):
        worker.receive()
    worker.close()


def test_an_exception_is_raised_here_also_where_this_side_sends():
    worker = WorkerProcess(fail, "env", title="the failing worker")

    def flood() -> None:
        for _ in range(1000):
            worker.send(bytes(1 << 16))

    with pytest.raises(EnvError, match="the ball is gone"):
        flood()
    worker.close()


def test_a_worker_that_exits_or_is_killed_is_reported_from_one_that_failed():
    worker = WorkerProcess(exit_at_once, title="the quitter")
    with pytest.raises(WorkerLost, match="the quitter ended with exit code 7"):
        worker.receive()
    worker.close()
    worker = WorkerProcess(pid_and_sleep, title="the sleeper")
    worker.receive()
    worker.kill()
    with pytest.raises(WorkerLost, match="the sleeper was killed by SIGKILL"):
        worker.receive()
    worker.close()


@pytest.mark.skipif(sys.platform == "win32", reason="no signals of terminals")
def test_signals_of_the_terminal_do_not_end_a_worker():
    worker = WorkerProcess(echo, b"", title="the echo")
    worker.send(b"here")
    worker.receive()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(worker.pid, number)
    worker.send(b"still here")
    assert worker.receive() == b"still here"
    worker.close()


def test_a_busy_worker_ends_with_a_parent_that_is_killed_and_the_main_module_is_not_run_again(tmp_path: Path):
    here = Path(__file__).parent
    script = tmp_path / "program.py"
    script.write_text(
        f"import sys, time; sys.path.insert(0, {str(here)!r}); print('main', flush=True)\nimport test_worker; from "
        "palaestra.parallel.worker import WorkerProcess\nworker = WorkerProcess(test_worker.pid_and_sleep, title='the "
        "sleeper')\nprint(worker.receive().decode(), flush=True); time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "main\n"
        pid = int(parent.stdout.readline())
        parent.kill()
        assert gone(pid)
        assert parent.stdout.read() == ""
