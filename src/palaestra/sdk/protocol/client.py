"""A game's conversation with whoever trains it: it asks, and does what it is told until the trainer has enough."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

import grpc

from palaestra.core.errors import EnvError
from palaestra.sdk.areas import Areas
from palaestra.sdk.protocol import codec
from palaestra.sdk.protocol.exchange import AgentOutputs
from palaestra.sdk.protocol.game_channels import AnalyticsChannel, EngineChannel, ParametersChannel, StatsChannel
from palaestra.sdk.protocol.game_side_channels import GameSideChannels
from palaestra.wire.messages import EXCHANGE


def serve(make: Callable[[int, int], Areas], port: int, tell: Callable[[str], None] | None = None) -> None:
    """Plays for the trainer on that port until it wants no more, or is gone. `make(areas, seed)` begins the game, as it would have it.

    Raises EnvError where there is no trainer, and for what the game does wrong.
    """
    connection, tell = TrainerConnection(port), tell or _print
    try:
        trainer = codec.read_greeting(connection.exchange(codec.hello()))
        if trainer is None:
            return
        tell(f"Connected to a trainer of version {trainer.package or 'unknown'} on port {port}: {trainer.areas} areas, seed {trainer.seed}")
        if "multiAgentGroups" not in trainer.capabilities:
            tell("warning: this trainer knows no groups: it does not see who belongs together, nor group rewards")
        stage = make(trainer.areas, trainer.seed)
        try:
            _Conversation(stage, connection, codec.MessageWriter(trainer.capabilities), tell).go_on()
        except TrainerGone as gone:
            tell(f"{gone}; the game ends")
        finally:
            stage.close()
    finally:
        connection.close()


class _Conversation:
    """From the first command on."""

    def __init__(self, stage: Areas, connection: TrainerConnection, writer: codec.MessageWriter, tell: Callable[[str], None]) -> None:
        self._stage, self._connection, self._writer = stage, connection, writer
        academies, self._stats = stage.academies, StatsChannel()
        parameters = ParametersChannel([academy.environment_parameters for academy in academies])
        own = (parameters, EngineChannel(academies), self._stats, AnalyticsChannel())
        self._channels = GameSideChannels([*own, *(channel for academy in academies for channel in academy.side_channels)], tell)

    def go_on(self) -> None:
        """Until the trainer wants no more."""
        said: Mapping[str, AgentOutputs] = {}
        reply = codec.read_reply(self._connection.exchange(codec.ready()))
        while not reply.over:
            self._channels.receive(reply.side_channel)
            if reply.reset or not said:
                self._stage.reset()
            else:
                self._stage.answer({key: codec.read_actions(one, reply.actions.get(key)) for key, one in said.items()})
            said = self._stage.advance()
            for academy in self._stage.academies:
                self._stats.tell(academy.stats_recorder.take())
            reply = codec.read_reply(self._connection.exchange(self._writer.write(said, self._channels.take())))


def _print(text: str) -> None:
    print(text, file=sys.stdout, flush=True)


PATIENCE = 10.0
"""Seconds for a trainer to begin listening."""
_BROKEN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.INTERNAL)
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
)


class TrainerGone(EnvError):
    """The connection broke. ML-Agents' trainer may end so: it closes its server at once, and its goodbye may not get through."""


class TrainerConnection:
    """Asks and waits for the answer, which may take a trainer minutes."""

    def __init__(self, port: int, host: str = "localhost", patience: float = PATIENCE) -> None:
        """Nothing is sent yet."""
        self.port, self._patience = port, patience
        self._channel = grpc.insecure_channel(f"{host}:{port}", options=_OPTIONS)
        self._call = self._channel.unary_unary(EXCHANGE)
        self._spoke = False

    def exchange(self, raw: bytes) -> bytes:
        """The trainer's answer. Raises EnvError where there is no trainer, TrainerGone where there is none any more."""
        try:
            if self._spoke:
                return self._call(raw)
            answer = self._first(raw)
        except grpc.RpcError as error:
            raise self._explain(error, len(raw)) from None
        self._spoke = True
        return answer

    def _first(self, raw: bytes) -> bytes:
        try:
            grpc.channel_ready_future(self._channel).result(timeout=self._patience)
        except grpc.FutureTimeoutError:
            raise EnvError(
                f"no trainer listens on port {self.port} of this machine; start one first, such as "
                f"'palaestra learn SETTINGS --env editor', which listens on port 5004, or let it start the game: --env GAME.py"
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
            return EnvError(f"what listens on port {self.port} is no trainer ({details})")
        if code in _BROKEN and self._spoke:
            return TrainerGone(f"the trainer on port {self.port} is gone: its connection broke without a goodbye ({details})")
        return EnvError(f"the trainer on port {self.port} did not answer: {code.name}, {details}")

    def close(self) -> None:
        """Ends what still waits."""
        self._channel.close()
