"""A crowd that does everything agents can do: what the trainer counts is what the game counts. And games whose messages
are damaged.
"""

import threading
from collections import Counter
from collections.abc import Callable
from random import Random

import grpc
import pytest
from conversations import NAMES as CONVERSATIONS
from conversations import requests
from unity_client import Client
from unity_counts import Totals
from unity_crowd import KINDS, Crowd, Habits
from unity_play import Count, Direct, EchoPolicy, MessageLog, Player, RandomPolicy, Run, in_thread, opened

from palaestra.core.errors import EnvError
from palaestra.envs.unity.env import UnityEnv
from palaestra.wire.messages import UnityMessage

NAMES = {kind.key.partition("?")[0] for kind in KINDS}


def play(game: Crowd, policy: type[EchoPolicy], wire: bool = False) -> dict[str, Count]:
    """Plays a crowd to its end through the collector."""
    log = MessageLog()
    with opened(log) as env:
        player = Player(game, Client(env.options.editor_port, patience=60) if wire else Direct(env))
        run = Run(env, policy)
        counts = dict(run.until(lambda: bool(log.warnings) or player.over))
        player.wait()
    assert log.warnings == ["play mode was stopped. Its open episodes are left out; press Play to continue"]
    return counts


def check(counts: dict[str, Count], totals: dict[str, Totals]) -> None:
    for name in ("episodes", "length", "completed", "returns", "group_returns"):
        expected = {behavior: getattr(totals[behavior], name) for behavior in counts}
        assert {behavior: getattr(count, name) for behavior, count in counts.items()} == expected, name
    assert not any(totals[name].completed for name in totals.keys() - counts.keys())


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(6))
def test_episodes_returns_and_decisions_are_those_of_the_games_own_ledger(seed: int) -> None:
    game = Crowd(seed, messages=500, agents=(4, 16, 40)[seed % 3], echo=True)
    counts = play(game, EchoPolicy)
    assert counts.keys() == NAMES
    check(counts, game.expected.totals)


@pytest.mark.slow
def test_agents_that_vanish_are_neither_counted_nor_kept_for_ever() -> None:
    game = Crowd(5, messages=2500, agents=5, habits=Habits(vanish=0.03, stranger=0.3), echo=True)
    counts = play(game, EchoPolicy)
    check(counts, game.expected.totals)


def test_choices_obey_masks_over_a_real_connection() -> None:
    game = Crowd(7, messages=300, masks_bind=True)
    counts = play(game, RandomPolicy, wire=True)
    assert counts.keys() == NAMES
    check(counts, game.expected.totals)


def damaged(raw: bytes, random: Random) -> bytes:
    """The message with bytes changed, cut out, put in or cut off."""
    kind = random.randrange(5)
    at = random.randrange(len(raw))
    if kind == 0:
        return raw[:at]
    if kind == 1:
        return raw[:at] + bytes([random.randrange(256)]) + raw[at + 1 :]
    if kind == 2:
        return raw[:at] + raw[at + random.randint(1, 8) :]
    if kind == 3:
        return raw[:at] + random.randbytes(random.randint(1, 8)) + raw[at:]
    changed = bytearray(raw)
    for _ in range(random.randint(2, 20)):
        changed[random.randrange(len(raw))] = random.randrange(256)
    return bytes(changed)


class Vandal:
    """Plays recorded conversations, in each of which one message is damaged; every message must be answered within a
    time.
    """

    def __init__(self, random: Random, count: int) -> None:
        self.random = random
        self.count = count
        self.recorded = [requests(name) for name in CONVERSATIONS]
        self.outcomes: Counter[str] = Counter()

    def play(self, client: Client) -> None:
        for recorded in self.recorded:  # whole, so that their behaviors are known as they are
            assert all(self._send(client, message) == "accepted" for message in recorded[:5])
            client.quit()
        for _ in range(self.count):
            recorded = self.random.choice(self.recorded)
            at = self.random.choice((0, 1, 2, 2, 3, 4, 7, 10, 13))
            for message in recorded[: max(at, 2)] if at else ():
                assert self._send(client, message) == "accepted", "a message as recorded"
            self.outcomes[self._send(client, damaged(recorded[at], self.random))] += 1
            client.quit()

    @staticmethod
    def _send(client: Client, raw: bytes) -> str:
        try:
            answer = UnityMessage.FromString(client.exchange_bytes(raw))
        except (ConnectionError, grpc.RpcError):
            return "refused"
        return "accepted" if answer.header.status == 200 else "goodbye"


def vandalize(count: int, seed: int, connect: Callable[[UnityEnv], Client]) -> tuple[Counter[str], list[str]]:
    """How damaged messages were answered, and what people were log of them."""
    log = MessageLog()
    raised = list[str]()
    vandal = Vandal(Random(seed), count)
    with opened(log, timeout_wait=600) as env:
        alarm = threading.Timer(60 + count / 20, env.interrupt)
        alarm.start()
        over = threading.Event()

        def work() -> None:
            try:
                vandal.play(connect(env))
            finally:
                over.set()
                env.interrupt()

        with in_thread(work):
            step = env.reset
            while not over.is_set() and alarm.is_alive():
                try:
                    step({} if step == env.step else 1)
                except EnvError as error:
                    raised.append(str(error))
                step = env.step
        alarm.cancel()
    return vandal.outcomes, [text for text in log.warnings if "play mode was stopped" not in text] + raised


NAMED = (
    "behavior",
    "are not a message",
    "without a header",
    "of a trainer",
    "side channel",
    "communication API",
    "does not introduce it",
)


@pytest.mark.slow
@pytest.mark.parametrize(("count", "wire"), [(1000, False), (60, True)])
def test_each_damaged_message_is_answered_and_reported(count: int, wire: bool) -> None:
    outcomes, words = vandalize(
        count, 1, lambda env: Client(env.options.editor_port, patience=20) if wire else Direct(env)
    )
    assert sum(outcomes.values()) == count
    assert outcomes["goodbye"] > (0 if wire else 300)
    # a damaged status is a goodbye
    assert outcomes["goodbye"] <= len(words) + outcomes["refused"] + count // 10
    unclear = [text for text in words if not any(name in text for name in NAMED)]
    assert not unclear, unclear[:3]
