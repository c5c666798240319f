"""The test games are right about what they count, what they refuse and how they fail."""

from __future__ import annotations

import io
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from conversations import requests
from PIL import Image
from unity_client import Client, actions, header, info, png, vector
from unity_counts import ExpectedCounts
from unity_crowd import KINDS, Crowd
from unity_games import Ball, Sleeper, Wrong, make_build, replay
from unity_wire import Wire

from palaestra.wire.messages import UnityMessage

Answer = Callable[[Any], Any]


@contextmanager
def trainer(answer: Answer) -> Iterator[int]:
    """A server that gives `answer` of each message; its port."""

    def exchange(raw: bytes, _: Any) -> bytes:
        return answer(UnityMessage.FromString(raw)).SerializeToString()

    handler = grpc.method_handlers_generic_handler(
        "communicator_objects.UnityToExternalProto", {"Exchange": grpc.unary_unary_rpc_method_handler(exchange)}
    )
    server = grpc.server(ThreadPoolExecutor(1), options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()


class Echo:
    """Answers as the crowd's `echo` wants it; `spoil` has the last word on each answer."""

    def __init__(self, spoil: Callable[[Any], None] = lambda answer: None, most: int = 10_000) -> None:
        self.spoil = spoil
        self.most = most
        self.count = 0

    def __call__(self, message: Any) -> Any:
        self.count += 1
        answer = header(400 if self.count > self.most else 200)
        if self.count == 1:
            answer.unity_input.rl_initialization_input.seed = 3
            return answer
        answer.unity_input.rl_input.command = int(self.count == 2)
        for key, infos in message.unity_output.rl_output.agentInfos.items():
            for one in infos.value:
                if not one.done:
                    self._act(answer, key, one.observations[0].float_data.data[0])
        self.spoil(answer)
        return answer

    @staticmethod
    def _act(answer: Any, key: str, x: float) -> None:
        kinds = [kind for kind in KINDS if kind.key == key]
        continuous, branches = (kinds[0].continuous, kinds[0].branches) if kinds else (1, ())
        row = answer.unity_input.rl_input.agent_actions[key].value.add()
        row.continuous_actions.extend([x] * continuous)
        row.discrete_actions.extend(round(64 * abs(x)) % size for size in branches)
        row.vector_actions_deprecated.extend([*row.continuous_actions, *row.discrete_actions])


def test_a_ledger_counts_what_follows_an_answered_decision() -> None:
    expected = ExpectedCounts()
    expected.sent(
        {"A?team=0": [info(1, reward=9), info(2, reward=9, done=True)]}
    )  # a first decision; an end out of nowhere
    expected.answered()
    expected.sent({"A?team=0": [info(1, reward=1, group_reward=0.5)]})
    expected.answered()
    expected.sent({})  # it skips a turn
    expected.answered()
    expected.sent(
        {"A?team=0": [info(1, reward=2, truncated=True), info(1, reward=9, done=True), info(1, reward=9)]}
    )  # ends twice, begins again
    expected.answered()
    expected.sent({"A?team=0": [info(1, reward=4, done=True)], "B?team=1": [info(1, reward=9)]})  # goes on as a B
    expected.reset()
    expected.sent({"B?team=1": [info(1, reward=9, done=True)]})
    a = expected.totals["A"]
    b = expected.totals["B"]
    assert (a.episodes, a.truncated, a.terminated) == (2, 1, 1)
    assert (a.returns, a.group_returns, a.length) == (1 + 2 + 4, 0.5, 2 + 1)
    assert (a.answered, a.completed) == (3, 3)
    assert b.episodes == b.answered == b.returns == 0


def test_the_ledger_tells_what_came_before_the_last_message() -> None:
    expected = ExpectedCounts()
    for some in ([info(1)], [info(1, reward=1, done=True), info(1)], [info(1, reward=2, done=True)]):
        expected.sent({"A?team=0": some})
        expected.answered()
    assert (expected.before_last["A"].returns, expected.totals["A"].returns) == (1, 3)


def test_ball_earns_one_for_each_decision_that_hits() -> None:
    game = Ball(agents=3, episode=5, ticks=12)
    with trainer(Echo()) as port:
        game.run(Client(port))
    totals = game.expected.totals["Ball"]
    assert game.ended == "over"
    assert (totals.episodes, totals.truncated, totals.terminated) == (6, 3, 3)
    assert totals.returns == totals.length == 30
    assert (totals.answered, totals.completed) == (36, 33)


def test_a_game_ends_when_its_trainer_closes() -> None:
    game = Ball()
    with trainer(Echo(most=20)) as port:
        game.run(Client(port))
    assert (game.ended, game.sent) == ("closed", 21)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_crowd_accepts_right_answers_to_everything_it_does(seed: int) -> None:
    game = Crowd(seed, messages=400, echo=True)
    with trainer(Echo()) as port:
        game.run(Client(port))
    assert game.ended == "over"
    assert game.expected.messages == 400
    assert {kind.key.partition("?")[0] for kind in KINDS} == set(game.expected.totals)
    assert all(totals.episodes > 5 and totals.completed < totals.answered for totals in game.expected.totals.values())


def drop_one(answer: Any) -> None:
    for rows in answer.unity_input.rl_input.agent_actions.values():
        rows.value.pop()


def turn_around(answer: Any) -> None:
    for rows in answer.unity_input.rl_input.agent_actions.values():
        rows.value.reverse()


def blow_up(answer: Any) -> None:
    for rows in answer.unity_input.rl_input.agent_actions.values():
        for row in rows.value:
            row.discrete_actions[:] = [choice + 10 for choice in row.discrete_actions]
            row.vector_actions_deprecated[:] = [*row.continuous_actions, *row.discrete_actions]


def forget_the_old_fields(answer: Any) -> None:
    for rows in answer.unity_input.rl_input.agent_actions.values():
        for row in rows.value:
            del row.vector_actions_deprecated[:]


def answer_strangers(answer: Any) -> None:
    answer.unity_input.rl_input.agent_actions["Nobody?team=0"].value.add()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (drop_one, "asked and got"),
        (turn_around, "of the message saw"),
        (blow_up, "outside the branches"),
        (forget_the_old_fields, "deprecated"),
        (answer_strangers, "of whom nobody asked"),
    ],
)
def test_the_crowd_refuses_wrong_answers(spoil: Callable[[Any], None], words: str) -> None:
    with trainer(Echo(spoil)) as port, pytest.raises(Wrong, match=words):
        Crowd(5, messages=300, echo=True).run(Client(port))


def test_a_bare_socket_gets_the_answers_that_grpc_gets() -> None:
    asked = header()
    asked.unity_output.rl_output.agentInfos["Ball?team=0"].value.append(info(1, [vector([0.25])]))
    raw = asked.SerializeToString()
    with trainer(Echo()) as port, Client(port) as client:
        by_grpc = [client.exchange_bytes(raw) for _ in range(3)]
        actions_of = actions(UnityMessage.FromString(by_grpc[2]), "Ball?team=0")
    with trainer(Echo()) as port:
        wire = Wire(port)
        by_socket = [wire.exchange_bytes(raw) for _ in range(3)]
        wire.close()
    assert by_grpc == by_socket
    assert actions_of[0].tolist() == [[0.25]]
    assert actions_of[1].shape == (1, 0)


def test_a_sleeper_plays_its_ticks_and_goes() -> None:
    game = Sleeper(ms=0, episode=3, ticks=20)
    with trainer(Echo()) as port:
        game.run(Client(port))
    assert game.ended == "over"


def test_a_recorded_game_is_replayed_up_to_the_end() -> None:
    recorded = requests("spawn")
    with trainer(Echo(most=len(recorded) - 1)) as port, Client(port) as client:
        answers = replay(recorded, client)
    assert len(answers) == len(recorded)
    assert answers[-1].header.status == 400


@pytest.mark.parametrize("channels", [(), (2,), (3,), (4,)])
def test_a_png_is_read_as_it_was_written(channels: tuple[int, ...]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, *channels), np.uint8)
    with Image.open(io.BytesIO(png(pixels))) as image:
        assert (np.asarray(image) == pixels).all()


@pytest.mark.parametrize(("how", "code"), [("exit", 7), ("kill", -9)])
def test_a_build_dies_where_it_is_told_to_and_says_so_in_its_log(tmp_path: Path, how: str, code: int) -> None:
    build = make_build(tmp_path, "Ball", die_at=10, die_how=how, die_code=7, words="out of luck", notes=tmp_path)
    echo = Echo()
    with trainer(echo) as port:
        words = [
            str(build),
            "-batchmode",
            "--mlagents-port",
            str(port),
            "-logFile",
            str(tmp_path / "Player.log"),
            "--unknown",
            "3",
        ]
        assert subprocess.run(words, timeout=30).returncode == code
    assert echo.count == 9
    assert "out of luck" in (tmp_path / "Player.log").read_text()
    assert len(list(tmp_path.glob("*.json"))) == 1
