"""Games that stop answering after a message in which no agent asks for a decision, with a clock of the test's own."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from unity_client import info, output, vector
from unity_games import Ball, Game
from unity_play import Direct, MessageLog, Player, opened, sleeper

from palaestra.core.errors import GameGone
from palaestra.envs.copies import Restarts
from palaestra.envs.unity.env import UnityEnv
from palaestra.envs.unity.timeouts import Phase

ENDED = {Ball.KEY: [info(0, [vector([0.0])], reward=1.0, done=True)]}
"""Agents of a message in which an episode ends and no other begins."""
LAST = pytest.mark.parametrize("last", [{}, ENDED], ids=["no agents", "ends alone"])
PATIENCE = 20.0
"""Seconds after which a test ends an environment that goes on waiting."""


class Clock:
    """The clock of the connections with games, which a test puts forward."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("palaestra.envs.unity.timeouts.monotonic", made.monotonic)
    monkeypatch.setattr("palaestra.wire.server.monotonic", made.monotonic)
    monkeypatch.setattr("palaestra.envs.copies.CHECK_INTERVAL", 0.001)
    monkeypatch.setattr("palaestra.envs.unity.env.LAST_TICK_SECONDS", 0.1)
    monkeypatch.setattr("palaestra.envs.unity.game_instance.CLOSE_SECONDS", 0.1)
    return made


class Pausing(Ball):
    """Plays three ticks, then sends a message without decisions some times, then plays on; `before(i)` is called before
    each answer.
    """

    def __init__(self, pause: dict[str, Any], before: Callable[[int], None], times: int = 1) -> None:
        super().__init__(agents=1)
        self.pause = pause
        self.before = before
        self.times = times
        self.paused = 0

    def step(self, reply: Any) -> Any:
        if self.tick < 3 or self.paused > self.times:
            return super().step(reply)
        if self.paused:
            self.before(self.paused)
        self.paused += 1
        return output(self.pause) if self.paused <= self.times else self.say({self.KEY: [self._info(0)]}, self.brains)


@contextmanager
def playing(
    tmp_path: Path, make: Callable[[UnityEnv, int], Game], log: MessageLog, **options: Any
) -> Iterator[UnityEnv]:
    """An environment of builds that sleep; `make(env, copy)` gives the game that plays for each process that starts."""
    with opened(log, executable=str(sleeper(tmp_path)), **options) as env:

        def entered(copy: int, phase: Phase) -> None:
            if phase is Phase.STARTING:
                Player(make(env, copy), Direct(env, copy))

        env.entered = entered
        guard = threading.Timer(PATIENCE, env.interrupt)
        guard.start()
        try:
            yield env
        finally:
            guard.cancel()


def hanging(clock: Clock, env: UnityEnv, last: dict[str, Any]) -> Game:
    """A game of copy 0 that does not react to the answer to its last message, until it is given up. Time passes in two
    steps, between which each other copy answers twice, so that on a busy machine none of them seems to hang as well.
    """

    def hang(_: int) -> None:
        games = [copy.conversation.game for copy in env.copies]
        others = env.copies[1:]

        def waited_for() -> bool:
            return games == [copy.conversation.game for copy in env.copies] and not env.copies.interrupted

        for _half in range(2):
            clock.ahead += 30.5
            later = [copy.delivered + 2 for copy in others]
            while waited_for() and any(copy.delivered < least for copy, least in zip(others, later, strict=True)):
                time.sleep(0.002)
        while waited_for():
            time.sleep(0.002)
        raise ConnectionError("given up")

    return Pausing(last, hang)


def play(env: UnityEnv, done: Callable[[], bool] = lambda: False) -> None:
    """Steps until `done`, or until the environment is interrupted."""
    while not done() and not env.copies.interrupted:
        env.step({})


@pytest.mark.few(1)
@LAST
def test_a_game_that_hangs_after_a_message_without_decisions_is_started_again(
    last: dict[str, Any], clock: Clock, tmp_path: Path
) -> None:
    """The other copy goes on, and limits on restarts count as for any other failure."""
    log = MessageLog()

    def make(env: UnityEnv, copy: int) -> Game:
        return Ball(agents=1) if copy else hanging(clock, env, last)

    with playing(tmp_path, make, log, copies=2, restarts=Restarts(lifetime=1)) as env:
        env.reset(1)
        play(env, lambda: bool(log.warnings))
        other = env.copies[1].delivered
        with pytest.raises(
            GameGone, match=r"(?s)copy 0 .* was restarted 1 times.*max-lifetime-restarts allows; waited 61 s"
        ):
            play(env)
        assert env.copies[1].delivered > other
    assert len(log.warnings) == 1
    assert "copy 0 of the game: waited 61 s for the next tick: it has stopped answering" in log.warnings[0]
    assert "it is started again now (restart 1)" in log.warnings[0]


@pytest.mark.slow
def test_a_game_that_answers_may_be_without_agents_for_long(clock: Clock, tmp_path: Path) -> None:
    """Its pauses are reported, and only the silence after an answer counts for --timeout-wait."""
    log = MessageLog()
    games = list[Pausing]()

    def pause(_: int) -> None:
        clock.ahead += 15
        time.sleep(0.005)

    def make(_env: UnityEnv, _copy: int) -> Game:
        games.append(Pausing({}, pause, times=13))
        return games[-1]

    with playing(tmp_path, make, log) as env:
        env.reset(1)
        play(env, lambda: env.copies[0].delivered == 50)
        assert env.copies[0].delivered == 50
    assert len(games) == 1
    assert len(log.warnings) == 3
    assert all("for an agent: it connected and answers, but without any behavior" in text for text in log.warnings)


def editor(env: UnityEnv, game: Game) -> None:
    """Presses Play as soon as the environment listens for the Editor."""

    def entered(_: int, phase: Phase) -> None:
        if phase is Phase.STARTING:
            Player(game, Direct(env))

    env.entered = entered


@pytest.mark.slow
@LAST
def test_an_editor_that_hangs_without_decisions_is_waited_for_like_any_that_hangs(
    last: dict[str, Any], clock: Clock
) -> None:
    """The user is reminded that it may be paused; with --timeout-wait the run ends."""
    log = MessageLog()

    def remind(_: int) -> None:
        for count in range(1, 4):
            clock.ahead += 61
            deadline = time.monotonic() + PATIENCE
            while len(log.warnings) < count and time.monotonic() < deadline:
                time.sleep(0.002)
        env.interrupt()
        raise ConnectionError("given up")

    with opened(log) as env:
        editor(env, Pausing(last, remind))
        env.reset(1)
        play(env)
    assert len(log.warnings) == 3
    assert all("for the next tick: the Editor has stopped answering: it is paused" in text for text in log.warnings)

    with opened(timeout_wait=60.0) as env:
        editor(env, hanging(clock, env, last))
        guard = threading.Timer(PATIENCE, env.interrupt)
        guard.start()
        env.reset(1)
        with pytest.raises(GameGone, match="waited 61 s for the next tick: the Editor has stopped answering"):
            play(env)
        guard.cancel()


@pytest.mark.slow
def test_time_in_which_a_game_waits_for_an_update_is_not_its_silence(clock: Clock, tmp_path: Path) -> None:
    """Of a game that has not asked for a decision yet, and so may be given up while it answers."""
    log = MessageLog()

    class Slow(Pausing):
        def reset(self) -> Any:
            super().reset()
            return output(ENDED, [self.brains[self.KEY]])

        def step(self, reply: Any) -> Any:
            return self.say({self.KEY: [self._info(0)]}, {}) if env.copies[0].delivered > 20 else output(ENDED)

    def make(_: UnityEnv, copy: int) -> Game:
        return Slow(ENDED, lambda _: None) if copy else Ball(agents=1)

    with playing(tmp_path, make, log, copies=2) as env:
        env.reset(1)
        while env.copies[0].delivered < 50 and not env.copies.interrupted:
            env.step({})
            clock.ahead += 20  # an update
        assert env.copies[0].delivered == 50
    assert not log.warnings
