"""The core of copies: who is ready, who has failed and is started again, how all are closed."""

from collections.abc import Callable
from typing import Any

import pytest

from palaestra.core.errors import EnvError, GameGone, ProtocolError
from palaestra.envs import copies as core
from palaestra.envs.copies import (
    CHECK_INTERVAL,
    MAX_FRUITLESS_FAILURES,
    MAX_RESTART_DELAY,
    PROGRESS,
    Copies,
    CopyFailed,
    RestartPolicy,
    Restarts,
)


class Clock:
    """Time that passes only while somebody waits, or when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(core, "monotonic", made.monotonic)
    return made


CRASH = GameGone("it was killed")


def failures(policy: RestartPolicy, count: int, delivered: int = PROGRESS) -> list[float]:
    """Waits after failures between which some copy got on."""
    start = policy.restarts
    return [policy.failed(CRASH, start + i, delivered) for i in range(count)]


@pytest.mark.parametrize("limits", [Restarts(), Restarts(-1, -1), Restarts(None, -1), Restarts(-1, None)])
def test_without_limits_a_run_that_gets_on_goes_on(limits: Restarts) -> None:
    policy = RestartPolicy("copy 0 of the game", limits)
    assert failures(policy, 500) == [0.0] * 500
    assert policy.restarts == 500


@pytest.mark.parametrize(
    ("limits", "allowed", "why"),
    [
        (Restarts(lifetime=0), 0, "restarted 0 times.*--max-lifetime-restarts allows"),
        (Restarts(lifetime=3), 3, "restarted 3 times.*--max-lifetime-restarts allows"),
        (Restarts(rate=0), 0, "restarted 0 times within 60 s.*--restarts-rate-limit-n allows"),
        (Restarts(rate=2), 2, "restarted 2 times within 60 s.*--restarts-rate-limit-n allows"),
    ],
)
def test_a_copy_is_started_again_as_often_as_is_allowed(limits: Restarts, allowed: int, why: str) -> None:
    policy = RestartPolicy("copy 2 of the game", limits)
    failures(policy, allowed)
    with pytest.raises(GameGone, match=f"copy 2 of the game was {why}; it was killed"):
        failures(policy, 1)


def test_restarts_before_the_period_do_not_count(clock: Clock) -> None:
    policy = RestartPolicy("copy 0 of the game", Restarts(rate=1, period=60))
    for _ in range(3):
        failures(policy, 1)
        clock.now += 61


def test_failures_in_a_row_wait_longer_each_time() -> None:
    policy = RestartPolicy("copy 0 of the game", Restarts())
    assert failures(policy, 9, delivered=PROGRESS - 1) == [0, 0.5, 1, 2, 4, 8, 16, MAX_RESTART_DELAY, MAX_RESTART_DELAY]
    assert failures(policy, 2) == [0, 0]
    assert failures(policy, 2, delivered=0) == [0.5, 1]


def test_a_run_that_gets_nowhere_ends() -> None:
    policy = RestartPolicy("copy 1 of the game", Restarts())
    for _ in range(MAX_FRUITLESS_FAILURES - 1):
        policy.failed(CRASH, 7, 0)
    policy.failed(CRASH, 8, 0)
    for _ in range(MAX_FRUITLESS_FAILURES - 2):
        policy.failed(CRASH, 8, 0)
    with pytest.raises(
        GameGone,
        match=rf"copy 1 of the game failed {MAX_FRUITLESS_FAILURES} times in a row without progress; it was killed",
    ):
        policy.failed(CRASH, 8, 0)


class Post:
    """Events that a test writes; a wait without any takes all of its time."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.messages: list[tuple[int, Any]] = []
        self.closed = False

    def wait(self, seconds: float) -> list[tuple[int, Any]]:
        self.clock.now += 0.0 if self.messages else seconds
        messages = self.messages
        self.messages = []
        return messages

    def wake(self) -> None:
        """Nobody waits in earnest."""

    def close(self) -> None:
        self.closed = True


class Puppet:
    """A copy that does what its messages say, and writes down what is done to it."""

    delivered = 0
    leaving = False

    def __init__(self, index: int, log: list[str]) -> None:
        self.index = index
        self.title = f"copy {index}"
        self.ends = False
        self._log = log

    def _do(self, what: str) -> None:
        self._log.append(f"{what} {self.index}")

    def __getattr__(self, what: str) -> Callable[[], None]:
        return lambda: self._do(what)  # start, stop, kill, close

    def receive(self, message: Any) -> bool:
        if isinstance(message, Exception):
            raise message
        return message == "ready"

    def check(self) -> None:
        if self.ends:
            raise CopyFailed(GameGone("it has ended"))

    def leave(self) -> None:
        self._do("leave")
        self.leaving = True

    def farewell(self, message: Any) -> None:
        self.leaving = message != "bye"


class Stage:
    """Three puppets."""

    def __init__(self, clock: Clock, **options: Any) -> None:
        self.log: list[str] = []
        self.warnings: list[str] = []
        self.post = Post(clock)
        limits = options.pop("restarts", Restarts())
        log = lambda _, text: self.warnings.append(text)  # noqa: E731
        self.copies: Copies[Any] = Copies(self.post, limits, log, grace=1.0, **options)
        for index in range(3):
            self.copies.add(Puppet(index, self.log))
        self.log.clear()

    def gather(self, *messages: tuple[int, Any], times: int = 1) -> None:
        self.post.messages = [*messages]
        for _ in range(times):
            self.copies.gather()


def test_copies_that_are_ready_come_in_their_order_once(clock: Clock) -> None:
    stage = Stage(clock)
    stage.gather((2, "ready"), (1, "note"), (0, "ready"))
    assert [copy.index for copy in stage.copies.take_ready()] == [0, 2]
    assert stage.copies.take_ready() == []


def test_a_copy_that_fails_is_ended_and_started_again_later_while_the_others_go_on(clock: Clock) -> None:
    stage = Stage(clock)
    stage.copies.begun = True
    stage.gather((0, "ready"), (0, CopyFailed(ProtocolError("it sent nonsense"))), (1, "ready"))
    assert [copy.index for copy in stage.copies.take_ready()] == [1]
    assert stage.copies.failed == {0}
    assert stage.log == ["stop 0", "start 0"]
    stage.copies[0].ends = True
    stage.gather()  # until the next check, which finds its end
    assert stage.warnings[0].startswith("copy 0: it sent nonsense\n")
    assert "it is started again now (restart 1)" in stage.warnings[0]
    assert "copy 0: it has ended" in stage.warnings[1]
    assert stage.copies.starts_at == {0: clock.now + 0.5}
    while stage.copies.starts_at:
        stage.gather()
    assert stage.log == 2 * ["stop 0", "start 0"]
    assert stage.copies.restarts(0) == 2


@pytest.mark.parametrize(("tries", "starts"), [(1, 0), (2, 1)])
def test_before_the_beginning_a_copy_is_started_so_many_times_and_its_error_raised(
    tries: int, starts: int, clock: Clock
) -> None:
    stage = Stage(clock, start_tries=tries)
    stage.copies[1].ends = True
    with pytest.raises(GameGone, match=r"^copy 1: it has ended$"):
        stage.gather(times=20)
    assert stage.log.count("start 1") == starts


def test_an_error_that_a_restart_would_not_mend_is_raised(clock: Clock) -> None:
    stage = Stage(clock)
    with pytest.raises(EnvError, match="another version"):
        stage.gather((1, EnvError("another version")))
    assert stage.log == []


def test_copies_may_be_kept_from_starting_and_added_at_a_check(clock: Clock) -> None:
    stage = Stage(clock)
    stage.copies.begun = True
    stage.copies.may_start = lambda: len(stage.copies) == 4
    stage.gather((2, CopyFailed(GameGone("it has ended"))))
    assert stage.log == ["stop 2"]
    stage.copies.before_check = lambda: stage.copies.add(Puppet(3, stage.log)) if len(stage.copies) == 3 else None
    clock.now += CHECK_INTERVAL
    stage.gather()
    assert stage.log == ["stop 2", "start 3", "start 2"]


def test_all_are_closed_after_those_that_leave_have_left_or_their_time_is_over(clock: Clock) -> None:
    stage = Stage(clock)
    stage.post.messages = [(0, "bye"), (1, "one more thing"), (2, "bye")]
    begin = clock.now
    stage.copies.close()
    stage.copies.close()
    assert stage.log == ["leave 0", "leave 1", "leave 2", "close 0", "close 1", "close 2"]
    assert 1.0 <= clock.now - begin < 1.1
    assert stage.post.closed
