"""The command as a process: streams that are closed or full, a home that cannot be written, and signals while it
starts.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_runs import settings, write

from palaestra.cli.main import main
from palaestra.runtime.storage.writer_lock import LOCK, WRITER

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell and POSIX signals")


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs `palaestra COMMAND` in a shell."""
    line = f"{sys.executable} -m palaestra {command}"
    return subprocess.run(
        line, shell=True, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1", **environment}
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("config good.yaml >&-", 0),
        ("config good.yaml >&- 2>&- <&-", 0),
        ("learn missing.yaml >&-", 1),
        ("learn missing.yaml 2>&-", 1),
        ("lern 2>&-", 2),
    ],
)
def test_closed_streams_change_nothing_but_what_is_seen(command, status, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("good.yaml", settings("Basic"))
    done = shell(command)
    assert done.returncode == status
    assert "Traceback" not in done.stderr
    assert ("missing.yaml" in done.stderr) is (command == "learn missing.yaml >&-")


@pytest.mark.slow
@pytest.mark.parametrize("streams", [">&- 2>&- <&-", ">/dev/full 2>/dev/full", ">&-", "2>&-"])
def test_a_run_without_streams_trains_and_its_files_hold_nothing_that_was_printed(streams, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("good.yaml", settings("Basic"))
    assert shell(f"learn good.yaml --env=Basic --num-areas=2 --run-id=first {streams}").returncode == 0
    assert Path("results/first/Basic.onnx").is_file()
    files = [file for file in Path("results").rglob("*") if file.is_file()]
    assert [file.name for file in files if b"[INFO]" in file.read_bytes()] == ["console.log"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("command", ["--help", "learn --help", "schema"])
def test_a_full_disk_behind_a_command_is_one_error(command: str):
    done = shell(f"{command} >/dev/full")
    assert done.returncode == 1
    assert done.stderr == "palaestra: error: standard output cannot be written: the disk is full\n"


def test_a_reader_that_has_gone_away_is_no_error():
    assert shell("schema | head -1", PYTHONUNBUFFERED="1").stderr == ""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs a folder that not even root may write to")
@pytest.mark.parametrize("home", ["/proc/home", "/proc", "/dev/null"])
def test_where_home_cannot_be_written_kernels_are_kept_elsewhere(home: str, tmp_path: Path):
    code = "import palaestra; palaestra.make('Basic', areas=1).reset(0)"
    kept = {name: value for name, value in os.environ.items() if name not in ("XDG_CACHE_HOME", "WARP_CACHE_PATH")}
    environment = {**kept, "HOME": home, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("Compiled environments cannot be kept in ")
    assert f"they are kept in {tmp_path}" in done.stderr
    (folder,) = tmp_path.glob("palaestra-kernels-*")
    assert folder.stat().st_mode & 0o077 == 0
    assert any(folder.rglob("*basic*"))


def start(place: Path, name: str) -> subprocess.Popen[str]:
    learn = [sys.executable, "-m", "palaestra", "learn", str(place / "long.yaml"), "--env=Basic"]
    return subprocess.Popen(
        [*learn, f"--results-dir={place}", f"--run-id={name}"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def ended_well(process: subprocess.Popen[str], number: int) -> str:
    """Waits for the end after a signal; what is wrong with it, or nothing."""
    try:
        message, complaint = process.communicate(timeout=180)
    except subprocess.TimeoutExpired:
        process.kill()
        return f"signal {number}: went on: {process.communicate()}"
    status = process.returncode
    saved = status == 0 and "stopping and saving what was learned" in complaint and "[INFO] Stopped at step" in message
    if "palaestra/" not in complaint and f"{os.sep}palaestra{os.sep}" not in complaint and "Traceback" in complaint:
        return ""  # Python itself was still starting
    right = (status in (128 + number, -number) or saved) and "Traceback" not in complaint
    return "" if right else f"signal {number}: {status}: {complaint}"


generator = random.Random(0)
RANDOM_MOMENTS = [generator.uniform(0, 2) for _ in range(200)]


@pytest.mark.slow
@pytest.mark.parametrize("moments", [[0.3 + 0.4 * i for i in range(6)], RANDOM_MOMENTS])
def test_a_signal_while_a_run_starts_ends_it_with_the_right_status(moments: list[float], tmp_path: Path):
    write(str(tmp_path / "long.yaml"), settings("Basic", 10_000_000))
    problems = []
    for i, moment in enumerate(moments):
        process = start(tmp_path, f"r{i}")
        time.sleep(moment)
        number = signal.SIGINT if i % 2 else signal.SIGTERM
        process.send_signal(number)
        problems.append(ended_well(process, number))
    assert [problem for problem in problems if problem] == []


LOST = """
import os, signal, sys
sys.path.insert(0, {place!r})
from palaestra.cli.main import main
sys.argv = ["palaestra", "learn", {config!r}, "--env=python:{module}:make", "--results-dir={place}", "--run-id=r"]
sys.exit(main())
"""
SWALLOWS = """
import os, signal
from palaestra.envs.builtin.basic.env import Basic

class Deaf:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(1000): pass  # the exception is raised here, and lost

def make(areas=1):
    Deaf()
    return Basic(areas)
"""
IMPORTS = (
    "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\n    for _ in range(1000): pass\nexcept "
    "BaseException: pass\n" + SWALLOWS
)
NATIVE = """
import os, re, signal, threading, time
from palaestra.envs.builtin.basic.env import Basic

def make(areas=1):
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
    import ctypes
    ctypes.CDLL(None).sleep(15)  # no Python runs here, as in a compiler
    return Basic(areas)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="sleeps in the C library")
@pytest.mark.parametrize(
    ("module", "text", "status"), [("swallows", SWALLOWS, 143), ("imports", IMPORTS, 130), ("native", NATIVE, 143)]
)
def test_a_signal_whose_exception_is_lost_still_ends_the_command(module: str, text: str, status: int, tmp_path: Path):
    (tmp_path / f"{module}.py").write_text(text)
    config = write(str(tmp_path / "long.yaml"), settings("Basic", 10_000_000))
    code = LOST.format(place=str(tmp_path), config=config, module=module)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=180)
    assert done.returncode == status
    assert "palaestra: interrupted" in done.stderr
    left = [path.name for path in (tmp_path / "r").rglob("*") if path.is_file()]
    assert set(left) <= {LOCK, WRITER}  # a run that did not begin


HANDLER = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))"
LOOP = """
import os, signal, sys, palaestra
{handler}
for i in range(3):
    def stop_soon(summary):
        os.kill(os.getpid(), {number})
    try:
        result = palaestra.train(
            {config!r}, env="Basic", results_dir={place!r}, run_id=f"r{{i}}", quiet=True, callbacks=[stop_soon]
        )
        print("went on", result.finished, flush=True)
    finally:
        print("cleaned up", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "handler", "status", "message"),
    [
        (signal.SIGTERM, "", -signal.SIGTERM, ""),
        (signal.SIGINT, "", -signal.SIGINT, "cleaned up\n"),
        pytest.param(signal.SIGTERM, HANDLER, 7, "cleaned up\n", marks=pytest.mark.slow),
    ],
)
def test_a_signal_ends_a_program_that_trains_in_a_loop_after_saving(number, handler, status, message, tmp_path):
    config = write(str(tmp_path / "loop.yaml"), settings("Basic", 10_000_000, summary_freq=500))
    code = LOOP.format(handler=handler, number=int(number), config=config, place=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=180)
    assert done.returncode == status
    assert done.stdout == message
    assert (tmp_path / "r0" / "Basic.onnx").is_file()
    assert not (tmp_path / "r1").exists()


class Bare:
    """A stream that has `write` alone, as programs put in place of standard output."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text


def test_commands_of_a_program_print_to_an_object_that_has_write_alone(monkeypatch):
    out, err = Bare(), Bare()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    assert main(["envs", "CartPole"]) == 0
    assert main(["plot", "nowhere"]) == 1
    assert (sys.stdout, sys.stderr) == (out, err)
    assert out.text.startswith("CartPole  ")
    assert err.text.startswith("palaestra: error: ")
