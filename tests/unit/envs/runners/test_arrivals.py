import socket
from multiprocessing.connection import Connection
from queue import SimpleQueue

import pytest

from palaestra.core.errors import EnvError
from palaestra.envs.runners.arrivals import Address, Arrivals, call_home


def test_a_runner_calls_home_and_both_sides_talk():
    arrivals = Arrivals("127.0.0.1")
    came = SimpleQueue[tuple[Connection, str]]()
    address = arrivals.expect(lambda connection, machine: came.put((connection, machine)))
    with call_home(address) as there:
        here, machine = came.get(timeout=180)
        assert machine == "127.0.0.1"
        there.send_bytes(b"x" * 100_000)
        assert len(here.recv_bytes()) == 100_000
        here.send_bytes(b"answer")
        assert there.recv_bytes() == b"answer"
        here.close()
    arrivals.close()


@pytest.mark.parametrize("word", [b"?" * 32, b"short"])
def test_callers_who_do_not_know_a_word_are_hung_up_on(word: bytes):
    arrivals = Arrivals("127.0.0.1")
    came = SimpleQueue[object]()
    address = arrivals.expect(lambda connection, machine: came.put(connection))
    with socket.create_connection((address.host, address.port)) as stranger:
        stranger.sendall(word)
        stranger.shutdown(socket.SHUT_WR)
        assert stranger.recv(1) == b""
    assert came.empty()
    arrivals.close()


def test_a_word_is_good_for_one_call_and_until_it_is_forgotten():
    arrivals = Arrivals("127.0.0.1")
    came = SimpleQueue[Connection]()
    once, never = (arrivals.expect(lambda connection, _: came.put(connection)) for _ in range(2))
    arrivals.forget(never)
    first = call_home(once)
    came.get(timeout=180).close()
    for address in (once, never):
        with call_home(address) as late, pytest.raises(EOFError):
            late.recv_bytes()
    first.close()
    assert came.empty()
    arrivals.close()


def test_a_run_that_is_not_reached_is_reported_with_both_machines():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(EnvError, match=f"does not reach the run at 127.0.0.1, port {port}"):
        call_home(Address("127.0.0.1", port, b"?" * 32))
