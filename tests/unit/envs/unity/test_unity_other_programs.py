"""Whoever is not the game is dropped: the conversation goes on, nothing is lost, nothing is started again."""

import os
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import grpc
import pytest
from unity_client import Client, header, hello, info, output, vector
from unity_games import Ball, make_build
from unity_play import MessageLog, Play, free_port, opened, played_beside, wait_until

from palaestra.core.errors import ProtocolError
from palaestra.envs.unity.env import UnityEnv
from palaestra.wire.server import holder_of

GARBAGE = (
    b"\xff\xff\xffgarbage",
    b"",
    header().SerializeToString(),
    header(400).SerializeToString(),
    output({"Ball?team=0": [info(0, [vector([float("nan")])])]}).SerializeToString(),
    hello().SerializeToString(),
    hello(version="9.9").SerializeToString(),
)


def say(port: int, raw: bytes) -> None:
    """As a program that is not the game."""
    with Client(port, patience=10) as client, suppress(grpc.RpcError):
        client.exchange_bytes(raw)


def beside(env: UnityEnv, work: Callable[[int], None]) -> Play:
    """Plays until the work, which gets the game's port and begins after some messages, is done, and a little longer."""

    def begin() -> None:
        wait_until(lambda: bool(env.copies) and env.copies[0].delivered >= 20)
        work(env.copies[0].server.port)
        before = env.copies[0].delivered
        wait_until(lambda: env.copies[0].delivered > before + 50)

    return played_beside(env, begin)


def whole(env: UnityEnv, play: Play) -> bool:
    """One game played from beginning to end, no episode of which is lost."""
    count = play.count("Ball")
    return env.copies.restarts(0) == 0 and env.tables.new_source() == 2 and count.length == 10 * count.episodes > 0


@pytest.mark.slow
def test_messages_of_other_programs_do_not_affect_a_game(tmp_path: Path) -> None:
    log = MessageLog()
    build = make_build(tmp_path, "Ball")
    with opened(log, executable=str(build)) as env:
        play = beside(env, lambda port: [say(port, raw) for raw in 2 * GARBAGE])
        assert whole(env, play)
        assert env.copies[0].conversation.dropped == 14
    assert len(log.warnings) == 1
    assert "which are ignored" in log.warnings[0]


@pytest.mark.slow
def test_bytes_and_connections_that_never_end_leave_a_game_alone(tmp_path: Path) -> None:
    def crowd(port: int) -> None:
        for i in range(60):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            with suppress(OSError):
                connection.sendall(
                    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET / HTTP/1.1\r\n", bytes(range(256)) * 40, b"\x00")[i % 4]
                )

    with ExitStack() as stack, opened(executable=str(make_build(tmp_path, "Ball"))) as env:
        assert whole(env, beside(env, crowd))


@pytest.mark.slow
def test_garbage_does_not_disturb_the_wait_for_the_editor() -> None:
    log = MessageLog()
    with opened(log) as env:

        def knock() -> None:
            wait_until(lambda: bool(env.copies))
            for raw in GARBAGE[:5]:
                say(env.options.editor_port, raw)
            with Client(env.options.editor_port) as client:
                Ball(ticks=40).run(client)
            env.interrupt()

        play = played_beside(env, knock)
        assert play.count("Ball").episodes >= 12
    assert "are not a message of ML-Agents' protocol" in log.warnings[0]
    assert not any("left out; press Play" in text for text in log.warnings[:-1])


@pytest.mark.slow
def test_a_build_whose_greeting_is_damaged_is_still_an_error_at_once(tmp_path: Path) -> None:
    build = make_build(tmp_path, "Ball", die_at=1, die_how="corrupt")
    with (
        opened(executable=str(build)) as env,
        pytest.raises(ProtocolError, match="not a message of ML-Agents' protocol"),
    ):
        env.reset(1)


@pytest.mark.skipif(sys.platform == "darwin", reason="only root sees other programs' connections there")
def test_the_holder_of_a_port_is_named() -> None:
    port = free_port()
    assert holder_of(port) is None
    with socket.create_server(("127.0.0.1", port)):
        assert (holder_of(port) or "").endswith(f", process {os.getpid()}")
