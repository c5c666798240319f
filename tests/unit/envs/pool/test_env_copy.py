"""One copy of a pool without a process: how long it may be silent, and what an interruption leaves of a reset."""

from multiprocessing import Pipe
from typing import Any

import pytest

from palaestra.envs.copies import CopyFailed
from palaestra.envs.pool import env_copy
from palaestra.envs.pool.env_copy import EnvCopy
from palaestra.envs.pool.env_pool import EnvPool
from palaestra.envs.pool.env_server import CopyReply, EnvFacts, pack, unpack
from palaestra.envs.pool.links import Link
from palaestra.envs.traits import EnvTraits
from palaestra.parallel.worker import Listener

FACTS = EnvFacts(2, {}, None, EnvTraits())


class Held(Link):
    """The test is the environment, at the other end."""

    title = "copy 0 of the environment"
    grace = 0.0

    def start(self) -> None:
        """Shows the facts at once."""
        self.connection, self.there = Pipe()
        self.there.send_bytes(pack(CopyReply(FACTS, behaviors={})))

    def describe_end(self) -> str:
        """See `Link`."""
        return "ended"

    def kill(self) -> None:
        """See `Link`."""
        self.there.close()

    def end(self) -> None:
        """See `Link`."""
        self.connection.close()


def test_a_copy_that_is_started_again_may_take_as_long_as_the_first_start(monkeypatch: pytest.MonkeyPatch):
    now = 100.0
    monkeypatch.setattr(env_copy, "monotonic", lambda: now)

    def take_in(copy: EnvCopy, reply: CopyReply) -> None:
        copy.facts = reply.facts

    copy = EnvCopy(0, Held(), Listener(), 2.0, 60.0, take_in)
    copy.start()
    copy.receive(copy.link.connection)
    copy.stop()
    copy.start()
    now += 50
    copy.check()
    now += 11
    with pytest.raises(CopyFailed, match="did not answer for 60 s"):
        copy.check()
    copy.receive(copy.link.connection)
    copy.ask("reset", 0)
    now += 3
    with pytest.raises(CopyFailed, match="did not answer for 2 s"):
        copy.check()
    copy.close()


@pytest.mark.parametrize("request_under_way", ["step", "reset"])
def test_an_interruption_ends_the_wait_of_a_reset(request_under_way: str, monkeypatch: pytest.MonkeyPatch):
    link = Held()
    env = EnvPool([link])
    ask = EnvCopy.ask

    def ask_and_interrupt(copy: EnvCopy, *request: Any) -> None:
        ask(copy, *request)
        env.interrupt()

    monkeypatch.setattr(EnvCopy, "ask", ask_and_interrupt)
    if request_under_way == "step":
        env.copies[0].ask("step")
    assert env.reset(7) == {}
    (request, *_), _ = unpack(link.there.recv_bytes())
    assert request == request_under_way
    assert not link.there.poll()
    link.there.close()
    env.close()
