"""The page as a process: ports, addresses, its end."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from unity_play import free_port

from palaestra.core.errors import ConfigError
from palaestra.core.wording.error_topics import POINTER
from palaestra.web.page_socket import listen

pytest.importorskip("nicegui")


@contextmanager
def viewing(folder: Path, *flags: str) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """Runs `palaestra view` in a process of its own; gives it, its address and what it printed before that."""
    command = [sys.executable, "-m", "palaestra", "view", "--no-browser", "--results-dir", str(folder), *flags]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder)
    try:
        printed = ""
        while (found := re.search(r"http://\S+", printed)) is None:
            line = process.stdout.readline()
            assert line or process.poll() is None, process.communicate()[1]
            printed += line
        yield process, found[0], printed
    finally:
        process.kill()
        process.communicate()


def status(address: str, wait: float = 30.0) -> int:
    """Status of the answer, once the server answers at all."""
    end = time.monotonic() + wait
    while True:
        try:
            with urllib.request.build_opener(NoRedirect).open(address, timeout=180) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


def test_a_port_that_is_taken_leads_to_the_next_one():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        mine = listen(port=taken)
        mine.socket.close()
    assert taken < mine.port <= taken + 50
    assert mine.wanted == taken


@pytest.mark.parametrize(
    ("bind", "why"), [("nowhere", "expected an IP address"), ("192.0.2.77", "is not an address of this machine")]
)
def test_an_address_that_is_not_this_machines_is_refused(bind: str, why: str):
    with pytest.raises(ConfigError, match=why):
        listen(bind, free_port())


def test_the_page_asks_for_its_token_and_leaves_nothing_in_the_folder(tmp_path: Path):
    with viewing(tmp_path, "--port", str(free_port())) as (process, address, _):
        home = address.partition("?")[0]
        assert status(home) == 403
        assert status(f"{home}_nicegui/x.js") == 403
        assert status(address) == 303
        process.send_signal(signal.SIGINT)
        assert process.wait(180) == 0
    assert os.listdir(tmp_path) == []


def test_only_the_loopback_address_listens_unless_bound(tmp_path: Path):
    own = [info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)]
    others = [address for address in own if not str(address).startswith("127.")] or ["127.0.0.2"]
    with viewing(tmp_path, "--port", str(free_port())) as (_, address, _printed):
        assert status(address) == 303
        port = int(re.findall(r":(\d+)/", address)[0])
        with pytest.raises(OSError), socket.create_connection((others[0], port), timeout=5):  # noqa: PT011  refused, in any words
            pass


@pytest.mark.slow
def test_a_second_page_takes_the_next_port_and_says_so(tmp_path: Path):
    port = free_port()
    with viewing(tmp_path, "--port", str(port)), viewing(tmp_path, "--port", str(port)) as (_, address, printed):
        assert f"port {port} is taken; the page uses" in printed
        assert f":{port}/" not in address


@pytest.mark.slow
def test_a_page_for_others_warns_that_it_can_be_reached(tmp_path: Path):
    with viewing(tmp_path, "--port", str(free_port()), "--bind", "0.0.0.0") as (process, address, _):
        assert f"//{socket.gethostname()}:" in address
        with suppress(OSError):
            status(address.replace(socket.gethostname(), "127.0.0.1"))
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=180)
    assert "anyone on the network who has this address" in said


def test_without_the_library_one_line_says_how_to_get_it(tmp_path: Path):
    code = (
        "import sys; sys.modules['nicegui'] = None\nfrom palaestra.cli.main import main\nsys.argv = ['palaestra', "
        "'view']\nsys.exit(main())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1
    message = "the page needs NiceGUI, which is not installed: pip install 'palaestra[view]'"
    assert done.stderr == f"palaestra: error: {message}\n{POINTER}extra-missing\n"


@contextmanager
def learning(folder: Path, run: str) -> Iterator[tuple[subprocess.Popen[str], Iterator[str]]]:
    """Trains with a page beside it; gives the process and the lines that it prints."""
    words = ["learn", "--env=Basic", f"--run-id={run}", "--view", "--max-steps=1e9"]
    command = [sys.executable, "-m", "palaestra", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder)
    try:
        yield process, iter(process.stdout.readline, "")
    finally:
        process.kill()
        process.communicate()


def pages_of(run: str) -> list[int]:
    """Processes that serve a page beside a run of this name."""
    return [one.pid for one in psutil.process_iter(["cmdline"]) if {"--beside", run} <= set(one.info["cmdline"] or ())]


@pytest.mark.slow
def test_a_page_beside_a_training_ends_with_it_even_if_it_is_killed(tmp_path: Path):
    run = f"killed-{os.getpid()}"
    with learning(tmp_path, run) as (_, lines):
        address = next(match[0] for line in lines if (match := re.search(r"http://\S+", line)))
        assert f"/run?id={run}&token=" in address
        assert status(address) == 303
        assert len(pages_of(run)) == 1
    end = time.monotonic() + 60
    while pages_of(run) and time.monotonic() < end:
        time.sleep(0.2)
    assert pages_of(run) == []


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="signals are POSIX'")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_page_beside_a_training_ends_quietly_on_a_signal_and_the_run_says_so_and_goes_on(name: str, tmp_path: Path):
    run = f"signalled-{name}-{os.getpid()}"
    with learning(tmp_path, run) as (process, lines):
        seen = [next(line for line in lines if "http://" in line)]
        os.kill(pages_of(run)[0], getattr(signal, name))
        for line in lines:
            seen.append(line)
            if "the page beside the run has ended" in line:
                break
        assert "the run continues" in seen[-1]
        assert any("Step" in line for line in lines)
        process.send_signal(signal.SIGTERM)
        seen += process.communicate(timeout=180)[0].splitlines()
        assert process.returncode == 0
        assert not any("Fatal Python error" in line or "Traceback" in line for line in seen)
