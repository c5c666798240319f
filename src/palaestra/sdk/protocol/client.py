"""Connects a game to a trainer: sends outputs of agents and applies the actions until the trainer ends the game."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import grpc

from palaestra.core.display import print_now
from palaestra.core.errors import EnvError
from palaestra.sdk.areas import Areas
from palaestra.sdk.protocol import codec
from palaestra.sdk.protocol.exchange import AgentOutputs
from palaestra.sdk.protocol.game_channels import AnalyticsChannel, EngineChannel, ParametersChannel, StatsChannel
from palaestra.sdk.protocol.game_side_channels import GameSideChannels
from palaestra.wire.messages import EXCHANGE


def serve(make: Callable[[int, int], Areas], port: int) -> None:
    """Plays for the trainer on `port` until the trainer ends the game; `make(areas, seed)` makes a game. Raises
    EnvError."""
    connection = TrainerConnection(port)
    try:
        trainer = codec.read_greeting(connection.exchange(codec.hello()))
        if trainer is None:
            return
        print_now(
            f"Connected to a trainer of version {trainer.package or 'unknown'} on port {port}: {trainer.areas} areas, "
            f"seed {trainer.seed}"
        )
        if "multiAgentGroups" not in trainer.capabilities:
            print_now(
                "warning: this trainer does not support groups: it ignores which agents belong together, and group "
                "rewards"
            )
        areas = make(trainer.areas, trainer.seed)
        try:
            _Conversation(areas, connection, codec.MessageWriter(trainer.capabilities)).go_on()
        except TrainerGone as gone:
            print_now(f"{gone}; the game ends")
        finally:
            areas.close()
    finally:
        connection.close()


class _Conversation:
    def __init__(self, areas: Areas, connection: TrainerConnection, writer: codec.MessageWriter) -> None:
        self._areas = areas
        self._connection = connection
        self._writer = writer
        academies = areas.academies
        self._stats = StatsChannel()
        parameters = ParametersChannel([academy.environment_parameters for academy in academies])
        own = (parameters, EngineChannel(academies), self._stats, AnalyticsChannel())
        self._channels = GameSideChannels(
            [*own, *(channel for academy in academies for channel in academy.side_channels)], print_now
        )

    def go_on(self) -> None:
        """Exchanges messages until the trainer ends the game."""
        outputs: Mapping[str, AgentOutputs] = {}
        reply = codec.read_reply(self._connection.exchange(codec.ready()))
        while not reply.ends_game:
            self._channels.receive(reply.side_channel)
            if reply.reset or not outputs:
                self._areas.reset()
            else:
                self._areas.answer(
                    {key: codec.read_actions(one, reply.actions.get(key)) for key, one in outputs.items()}
                )
            outputs = self._areas.advance()
            for academy in self._areas.academies:
                self._stats.add(academy.stats_recorder.take())
            reply = codec.read_reply(self._connection.exchange(self._writer.write(outputs, self._channels.take())))


CONNECT_SECONDS = 10.0
"""Seconds to wait for a trainer to listen."""
_BROKEN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.INTERNAL)
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
)


class TrainerGone(EnvError):
    """The connection broke, for example because ML-Agents' trainer ended, which closes its server at once."""


class TrainerConnection:
    """Connection to a trainer: sends a message and waits for the answer, which may take minutes."""

    def __init__(self, port: int, host: str = "localhost", connect_seconds: float = CONNECT_SECONDS) -> None:
        """Prepares the connection without sending anything."""
        self.port = port
        self._connect_seconds = connect_seconds
        self._channel = grpc.insecure_channel(f"{host}:{port}", options=_OPTIONS)
        self._call = self._channel.unary_unary(EXCHANGE)
        self._connected = False

    def exchange(self, raw: bytes) -> bytes:
        """Sends a message and returns the answer. Raises EnvError if no trainer answers, TrainerGone if the trainer has
        left."""
        try:
            if self._connected:
                return self._call(raw)
            answer = self._first(raw)
        except grpc.RpcError as error:
            raise self._explain(error, len(raw)) from None
        self._connected = True
        return answer

    def _first(self, raw: bytes) -> bytes:
        try:
            grpc.channel_ready_future(self._channel).result(timeout=self._connect_seconds)
        except grpc.FutureTimeoutError:
            raise EnvError(
                f"no trainer listens on port {self.port} of this machine; start one first, such as "
                "'palaestra learn SETTINGS --env editor', which listens on port 5004, or let it start the game: "
                "--env GAME.py"
            ) from None
        return self._call(raw)

    def _explain(self, error: grpc.RpcError, size: int) -> EnvError:
        code, details = error.code(), error.details()  # pyright: ignore[reportAttributeAccessIssue]
        if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
            return EnvError(
                f"the trainer refused a message of {size / 2**20:.1f} MiB ({details}); ML-Agents' takes 4 MiB: "
                f"have fewer areas or agents, smaller images, or images sent compressed"
            )
        if code is grpc.StatusCode.UNIMPLEMENTED:
            return EnvError(f"the program that listens on port {self.port} is not a trainer ({details})")
        if code in _BROKEN and self._connected:
            return TrainerGone(f"the trainer on port {self.port} is gone: its connection broke ({details})")
        return EnvError(f"the trainer on port {self.port} did not answer: {code.name}, {details}")

    def close(self) -> None:
        """Closes the connection; an exchange that waits for its answer fails."""
        self._channel.close()
