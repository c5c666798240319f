"""A game's connection to a trainer of this machine."""

from __future__ import annotations

import grpc

from palaestra.core.errors import EnvError
from palaestra.envs.unity.messages import EXCHANGE

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


class Connection:
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
