"""Small games that speak to a trainer over the wire, well or badly; a test runs them in a thread or as a build
(`make_build`).

The game of the fuzz test is in unity_crowd.
"""

import os
import shlex
import signal
import struct
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import grpc
from unity_client import CAPABILITIES, Client, actions, brain, header, hello, info, output, vector
from unity_counts import ExpectedCounts

from palaestra.wire.messages import UnityMessage
from palaestra.wire.side_channels import IncomingMessage, unpack
from palaestra.wire.unity_channels import ENGINE

RESET = 1
STATS = uuid.UUID("a1d8f7b7-cec8-50f9-b78b-d3e165a78520").bytes_le


class Wrong(AssertionError):
    """The trainer answered what a game cannot use."""


class Left(Exception):
    """The game went before its end, in one of the ways of Fate."""


@dataclass(frozen=True)
class Fate:
    """What befalls a game in place of its message number `at`: 0 before it connects, 1 the hello, 2 the empty one, 3
    its first tick.
    """

    at: int = -1  # -1: nothing does
    how: str = (
        "hang"  # hang, exit, kill (as a crash of the engine looks), leave (status 400), drop (the connection), corrupt
    )
    code: int = 3  # of exit
    words: str = ""  # to stderr before

    def strike(self, client: Client, number: int) -> None:
        if number != self.at:
            return
        if self.words:
            print(self.words, file=sys.stderr, flush=True)
        if self.how == "hang":
            client.closed.wait()
        elif self.how == "exit":
            os._exit(self.code)
        elif self.how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.how == "leave":
            client.quit()
        elif self.how == "corrupt":
            client.exchange_bytes(b"\x0a\x03\x08\xc8\x01\x12\xff\xff")  # a header, then an output that is cut off
        elif self.how != "drop":
            raise ValueError(f"no fate {self.how!r}")
        raise Left(self.how)


class Game:
    """What all games share: the conversation. `reset` and `step` each give the next message; None ends the game.

    `run`, once for each game made, comes back when the trainer closed or is gone, or the game is over; raises Wrong.
    """

    def __init__(
        self,
        version: str = "1.5.0",
        package: str = "3.0.0",
        capabilities: Sequence[str] = CAPABILITIES,
        fate: Fate | None = None,
    ) -> None:
        self.greeting = hello(version, package, capabilities)
        self.fate = fate or Fate()
        self.init: Any = None  # the trainer's initialization input, once it came
        self.side_channel = bytearray()  # all that came
        self.sent = 0  # messages, with the hello and the empty one
        self.resets = 0
        self.expected = ExpectedCounts()
        self.ended = ""  # closed: by the trainer; gone: the trainer is; over: the game is; left: by its Fate
        self._known: set[str] = set()

    def reset(self) -> Any:
        raise NotImplementedError

    def step(self, reply: Any) -> Any:
        raise NotImplementedError

    def say(self, infos: Mapping[str, Sequence[Any]], brains: Mapping[str, Any], side_channel: bytes = b"") -> Any:
        """A tick's message, in the expected; of `brains` those go along that are new to the trainer."""
        self.expected.sent(infos)
        new = [key for key, some in infos.items() if some and key not in self._known]
        self._known.update(new)
        return output(infos, [brains[key] for key in new], side_channel)

    def run(self, client: Client) -> None:
        try:
            self.ended = self._run(client)
        except Left:
            self.ended = "left"
        except (grpc.RpcError, OSError) as gone:
            self.ended = f"gone: {gone}"
        finally:
            client.close()

    def _run(self, client: Client) -> str:
        self.fate.strike(client, 0)
        client.connect()
        reply = self._send(client, self.greeting)
        if reply.header.status != 200:
            return "closed"
        self.init = reply.unity_input.rl_initialization_input
        message = header()
        while message is not None:
            reply = self._send(client, message)
            if reply.header.status != 200:
                return "closed"
            message = self._next(reply)
        client.quit()
        return "over"

    def _send(self, client: Client, message: Any) -> Any:
        self.fate.strike(client, self.sent + 1)
        self.sent += 1
        return client.exchange(message)

    def _next(self, reply: Any) -> Any:
        if not reply.HasField("unity_input"):
            raise Wrong("an answer of status 200 without unity_input")
        rl_input = reply.unity_input.rl_input
        self.side_channel += rl_input.side_channel
        if rl_input.command != RESET:
            self.expected.answered()
            return self.step(reply)
        self.resets += 1
        self.expected.reset()
        return self.reset()


def stat(name: str, value: float, aggregation: int = 0) -> bytes:
    """A record of Unity's stats channel: 0 average, 1 most recent, 2 sum, 3 histogram."""
    payload = struct.pack("<i", len(name)) + name.encode("ascii") + struct.pack("<fi", value, aggregation)
    return STATS + struct.pack("<i", len(payload)) + payload


class Ball(Game):
    """Each agent sees a number within -1..1 and earns 1 - |action - number|. Episodes last `episode` decisions; ids
    outlive them.

    An agent's end and its next first decision are in one message. Its episodes are cut and terminated in turn.
    """

    KEY = "Ball?team=0"

    def __init__(
        self,
        agents: int = 4,
        episode: int = 10,
        ticks: int = 0,
        seed: int | None = None,
        stats: bool = False,
        **talk: Any,
    ) -> None:
        super().__init__(**talk)
        self.agents = agents
        self.episode = episode
        self.ticks = ticks
        self.seed = seed
        self.stats = stats
        self.brains = {self.KEY: brain(self.KEY, continuous=1)}
        self.tick = self.age = self.played = 0
        self.random: Random | None = None
        self.numbers: list[float] = []

    def reset(self) -> Any:
        if self.random is None:
            self.random = Random(self.init.seed if self.seed is None else self.seed)
        self.age = 0
        self._draw()
        return self.say({self.KEY: [self._info(i) for i in range(self.agents)]}, self.brains)

    def step(self, reply: Any) -> Any:
        self.tick += 1
        if self.tick == self.ticks:
            return None
        taken = actions(reply, self.KEY)[0]
        if taken.shape != (self.agents, 1):
            raise Wrong(f"actions of shape {taken.shape} for {self.agents} agents with one each")
        rewards = [1 - abs(action - number) for action, number in zip(taken[:, 0].tolist(), self.numbers, strict=True)]
        self._draw()
        self.age += 1
        infos = []
        if self.age == self.episode:
            truncated = self.played % 2 == 0
            infos = [
                info(i, [vector([self.numbers[i]])], rewards[i], done=True, truncated=truncated)
                for i in range(self.agents)
            ]
            rewards = [0.0] * self.agents
            self.age = 0
            self.played = self.played + 1
            self._draw()
        infos += [self._info(i, reward) for i, reward in enumerate(rewards)]
        return self.say({self.KEY: infos}, self.brains, stat("Ball/Age", self.age) if self.stats else b"")

    def _info(self, agent: int, reward: float = 0.0) -> Any:
        return info(agent, [vector([self.numbers[agent]])], reward)

    def _draw(self) -> None:
        assert self.random is not None
        self.numbers = [self.random.uniform(-1, 1) for _ in range(self.agents)]


class Hasty(Ball):
    """Its episodes are half as long at time scales beyond 1, as those of a game whose physics depends on the frame
    rate.
    """

    def step(self, reply: Any) -> Any:
        scales = [IncomingMessage(payload) for id, payload in unpack(bytes(self.side_channel)) if id == ENGINE]
        time_scales = [message.read_float32() for message in scales if message.read_int32() == 2]
        self.episode = 5 if time_scales and time_scales[-1] > 1 else 10
        return super().step(reply)


class Empty(Game):
    """A message without agents every `ms` milliseconds."""

    def __init__(self, ms: float = 10.0, **talk: Any) -> None:
        super().__init__(**talk)
        self.pause = ms / 1000

    def reset(self) -> Any:
        return self.say({}, {})

    def step(self, reply: Any) -> Any:
        time.sleep(self.pause)
        return self.say({}, {})


class Endings(Game):
    """A behavior of which nothing but ends comes: nobody ever asks for a decision."""

    KEY = "Endings?team=0"

    def __init__(self, ms: float = 10.0, **talk: Any) -> None:
        super().__init__(**talk)
        self.pause = ms / 1000
        self.brains = {self.KEY: brain(self.KEY, continuous=1)}

    def reset(self) -> Any:
        return self.say({self.KEY: [info(self.sent, [vector([0.0])], reward=1.0, done=True)]}, self.brains)

    def step(self, reply: Any) -> Any:
        time.sleep(self.pause)
        return self.reset()


def replay(requests: Sequence[bytes], client: Client) -> list[Any]:
    """The trainer's answers to a recorded game's messages (`conversations.requests`), up to one that is not of status
    200.
    """
    answers = []
    for request in requests:
        answers.append(UnityMessage.FromString(client.exchange_bytes(request)))
        if answers[-1].header.status != 200:
            break
    return answers


def make_build(folder: Path, game: str, name: str = "Game.x86_64", **options: Any) -> Path:
    """An executable that plays a game: `make_build(tmp_path, "Ball", agents=4, die_at=20)` (options:
    unity_game_main.py).
    """
    words = [sys.executable, str(Path(__file__).with_name("unity_game_main.py")), "--game", game]
    for option, value in options.items():
        flag = "--" + option.replace("_", "-")
        words += [] if value is False else [flag] if value is True else [f"{flag}={value}"]
    build = folder / name
    build.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    build.chmod(0o755)
    return build
