"""The Editor's port, other ports, and what is left after the end."""

import os
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from unity_client import Client
from unity_games import Ball, Fate, make_build
from unity_play import (
    Direct,
    MessageLog,
    Play,
    RandomPolicy,
    Run,
    free_port,
    in_thread,
    opened,
    played_beside,
    sleeper,
    wait_until,
)

from palaestra.core.errors import EnvError, GameGone
from palaestra.envs.copies import Restarts
from palaestra.envs.unity.env import UnityEnv
from palaestra.envs.unity.options import UnityOptions
from palaestra.envs.unity.timeouts import FIRST_NOTICE

STOPPED = "play mode was stopped. Its open episodes are left out; press Play to continue"
RECONNECTED = "the Editor reconnected without quitting. Its open episodes are left out"


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Neither a process nor a thread nor a folder nor a port that listens."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    me = psutil.Process()
    before = (
        {thread.ident for thread in threading.enumerate()},
        {child.pid for child in me.children(recursive=True)},
        listening(),
    )
    yield
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and left(*before):
        time.sleep(0.02)
    assert not left(*before)
    assert not list(tmp_path.glob("palaestra-*"))


def left(threads: set[int | None], children: set[int], ports: set[tuple[str, int]]) -> list[object]:
    alive = [thread for thread in threading.enumerate() if thread.ident not in threads]
    running = [child for child in psutil.Process().children(recursive=True) if child.pid not in children]
    return [*alive, *running, *(listening() - ports)]


def listening() -> set[tuple[str, int]]:
    """Addresses at which this process listens."""
    found = psutil.Process().net_connections(kind="tcp")
    return {(at.laddr.ip, at.laddr.port) for at in found if at.status == psutil.CONN_LISTEN}


def test_the_editor_may_leave_and_come_again() -> None:
    """By stopping play mode, and by vanishing while the trainer waits for it; each game is another, with ids as
    before.
    """
    games = [
        Ball(ticks=60),
        Ball(ticks=1000, fate=Fate(at=45, how="drop")),
        Ball(ticks=1000, fate=Fate(at=37, how="leave")),
        Ball(ticks=1000, fate=Fate(at=52, how="drop")),
        Ball(ticks=35),
    ]
    log = MessageLog()
    with opened(log) as env:

        def come_and_go() -> None:
            for game in games:
                game.run(Client(env.options.editor_port, patience=20))
            env.interrupt()

        play = played_beside(env, come_and_go)
        count = play.count("Ball")
        slots = len(play.run.collector.steps["Ball"].acting)
    # and the last stop, if there was time for it
    assert log.warnings[:4] == [STOPPED, RECONNECTED, STOPPED, RECONNECTED]
    totals = [(game.expected.before_last if game.ended == "left" else game.expected.totals)["Ball"] for game in games]
    assert count.episodes == sum(each.episodes for each in totals) == 4 * (5 + 4 + 3 + 4 + 3)
    assert count.length == 10 * count.episodes
    assert count.returns == pytest.approx(sum(each.returns for each in totals), abs=1e-3)
    assert count.completed == sum(each.completed for each in totals)
    assert slots <= 8


@pytest.mark.slow
def test_the_editor_may_crash_and_come_again(tmp_path: Path) -> None:
    command = [str(make_build(tmp_path, "Ball", agents=2)), "--mlagents-port"]
    with opened() as env:
        started: list[subprocess.Popen[bytes]] = []

        def crash_and_come() -> None:
            seen = set[object]()
            for _ in range(3):
                started.append(subprocess.Popen([*command, str(env.options.editor_port)], stdout=subprocess.DEVNULL))
                wait_until(
                    lambda: (
                        bool(env.copies)
                        and env.copies[0].conversation.game not in seen
                        and env.copies[0].delivered > 60
                    )
                )
                seen.add(env.copies[0].conversation.game)
                started[-1].kill()
                started[-1].wait()
            with Client(env.options.editor_port) as client:
                Ball(ticks=40, agents=2).run(client)
            env.interrupt()

        play = played_beside(env, crash_and_come)
        count = play.count("Ball")
    assert len(started) == 3
    assert count.episodes >= 3 * 10 + 6
    assert count.length == 10 * count.episodes


def test_another_editor_may_connect_while_the_former_waits() -> None:
    with opened() as env:
        former = Client(env.options.editor_port)
        latter = Client(env.options.editor_port)
        with in_thread(lambda: begin(former)) as waits:
            env.reset(1)
            with in_thread(lambda: begin(latter)):
                while env.step({})["Ball"].lost is None:
                    pass
                for _ in range(20):
                    step = env.step({})["Ball"]
                    assert step.acting.tolist() == [True]
                    assert step.lost is None
                env.close()
        assert waits.result in ("closed", "gone")  # it waited for an answer, or had yet to ask


def begin(client: Client) -> str:
    game = Ball(agents=1)
    with client:
        game.run(client)
    return game.ended.partition(":")[0]


@pytest.mark.slow
def test_two_environments_take_ports_of_their_own(tmp_path: Path) -> None:
    build = str(make_build(tmp_path, "Ball", agents=1))
    base = free_port()
    with (
        opened(executable=build, base_port=base, copies=2) as one,
        opened(executable=build, base_port=base, copies=2) as other,
    ):
        one.reset(1)
        other.reset(1)
        ports = [copy.server.port for env in (one, other) for copy in env.copies]
        assert ports[0] == base
        assert len(set(ports)) == 4
        for env in (one, other):
            assert env.step({})["Ball"].acting.any()


def test_a_base_port_that_is_taken_makes_way(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        base = taken.getsockname()[1]
        with opened(executable=str(make_build(tmp_path, "Ball")), base_port=base) as env:
            env.reset(1)
            assert env.copies[0].server.port != base


def test_an_editor_port_that_is_taken_is_an_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with (
            opened(editor_port=taken.getsockname()[1]) as env,
            pytest.raises(
                EnvError, match=rf"port {taken.getsockname()[1]} is taken by .*, process {os.getpid()}, .*--editor-port"
            ),
        ):
            env.reset(1)


def test_a_silent_game_is_named_long_before_it_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert FIRST_NOTICE == 20
    monkeypatch.setattr("palaestra.envs.unity.timeouts.FIRST_NOTICE", 0.3)
    log = MessageLog()
    with (
        opened(log, executable=str(sleeper(tmp_path)), timeout_wait=1.5) as env,
        pytest.raises(GameGone, match="waited 2 s"),
    ):
        env.reset(1)
    assert len(log.lines) == 1
    assert log.lines[0][1] == "info"
    assert "for it to connect: it runs but has not connected" in log.lines[0][2]


def test_a_build_that_dies_before_it_connects_is_named_in_two_sentences(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    build = tmp_path / "Dead.x86_64"
    build.write_text("#!/bin/sh\nkill -9 $$\n")
    build.chmod(0o755)
    words = (
        r"it was killed by signal SIGKILL before it connected \(Dead\.x86_64\)\. It wrote no log\. "
        r"The system kills programs so when memory runs out$"
    )
    with opened(executable="Dead", timeout_wait=20.0) as env, pytest.raises(GameGone, match=words):
        env.reset(1)


@pytest.mark.parametrize(("game", "said"), [("Empty", "for an agent"), ("Endings", "for a decision to be asked for")])
def test_a_game_that_answers_without_decisions_is_named_once(
    game: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palaestra.envs.unity.timeouts.FIRST_NOTICE", 0.3)
    log = MessageLog()
    build = str(make_build(tmp_path, game))
    with opened(log, executable=build, timeout_wait=2.0) as env, pytest.raises(GameGone, match=said):
        Play(env, Run(env, RandomPolicy)).until(lambda: False, 60)
    assert [said in text for _, level, text in log.lines if level == "info" and "waited" in text].count(True) == 1


@pytest.mark.parametrize(
    ("bind", "expected"), [(None, {"127.0.0.1", "::1"}), ("127.0.0.1", {"127.0.0.1"}), ("0.0.0.0", {"0.0.0.0", "::"})]
)
def test_only_this_machine_can_connect_by_default(bind: str | None, expected: set[str]) -> None:
    with (
        opened(bind=bind) as env,
        Client(env.options.editor_port) as client,
        in_thread(lambda: Ball(agents=1).run(client)),
    ):
        env.reset(1)
        # of IPv4 sockets of both kinds
        addresses = {ip.removeprefix("::ffff:") for ip, port in listening() if port == env.options.editor_port}
        env.close()
    assert addresses
    assert addresses <= expected


@pytest.mark.slow
def test_nothing_is_left_of_a_game_that_never_connects(tmp_path: Path) -> None:
    with (
        opened(executable=str(sleeper(tmp_path)), timeout_wait=0.5, copies=2) as env,
        pytest.raises(GameGone, match="has not connected"),
    ):
        env.reset(1)


@pytest.mark.slow
@pytest.mark.parametrize("at", [0, 1, 2, 3, 20])
def test_nothing_is_left_of_games_that_hang(at: int, tmp_path: Path) -> None:
    """Before they connect, introduce themselves, ask for a command, show agents, or later."""
    build = str(make_build(tmp_path, "Ball", die_at=at, die_how="hang", stubborn=at == 20))
    with opened(executable=build, timeout_wait=1.5, restarts=Restarts(lifetime=0)) as env:
        with pytest.raises(GameGone, match=r"waited \d s"):
            Play(env, Run(env, RandomPolicy)).until(lambda: False, 60)
        env.close()


def test_closing_may_be_repeated(tmp_path: Path) -> None:
    build = str(make_build(tmp_path, "Ball"))
    UnityEnv(UnityOptions(executable=build)).close()
    with opened(executable=build, copies=3) as env:
        env.reset(1)
        env.step({})
        env.close()
        env.close()


def test_a_reset_begins_new_episodes_in_every_phase() -> None:
    game = Ball(agents=2, episode=10)
    with opened() as env, in_thread(lambda: game.run(Client(env.options.editor_port))):
        for ticks in (3, 0, 7, 12):
            steps = env.reset(1)
            for _ in range(ticks):
                assert steps["Ball"].acting.tolist() == [True, True]
                steps = env.step({})
        env.close()
    assert game.resets == 4
    assert game.ended == "closed"


class Slow(Ball):
    """Takes its time to begin anew."""

    KEY = "Slow?team=0"

    def reset(self) -> Any:
        time.sleep(0.2)
        return super().reset()


@pytest.mark.slow
def test_a_reset_may_come_before_a_game_has_followed_the_last(tmp_path: Path) -> None:
    """What the message describes that is answered with another reset is known all the same."""
    ball = Ball(agents=1)
    slow = Slow(agents=1)
    with (
        opened(executable=str(sleeper(tmp_path)), copies=2) as env,
        in_thread(lambda: ball.run(Direct(env, 0))),
        in_thread(lambda: slow.run(Direct(env, 1))),
    ):
        assert env.reset(1).keys() == {"Ball"}
        while slow.resets == 0:  # it may have greeted so late that its first reset is still to be sent
            env.step({})
        assert env.reset(1)["Ball"].acting.all()
        while "Slow" not in (steps := env.step({})):
            pass
        assert steps["Slow"].acting.tolist() == [True]
        env.close()
    assert (ball.resets, slow.resets) == (2, 2)
