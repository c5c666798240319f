"""A game's conversation with whoever trains it: it asks, and does what it is told until the trainer has enough."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from palaestra.sdk import wire
from palaestra.sdk.channels import AnalyticsChannel, EngineChannel, ParametersChannel, StatsChannel
from palaestra.sdk.connection import Connection, TrainerGone
from palaestra.sdk.exchange import Said
from palaestra.sdk.side_channels import SideChannels
from palaestra.sdk.stage import Stage


def serve(make: Callable[[int, int], Stage], port: int, tell: Callable[[str], None] | None = None) -> None:
    """Plays for the trainer on that port until it wants no more, or is gone. `make(areas, seed)` begins the game, as it would have it.

    Raises EnvError where there is no trainer, and for what the game does wrong.
    """
    connection, tell = Connection(port), tell or _print
    try:
        trainer = wire.read_greeting(connection.exchange(wire.hello()))
        if trainer is None:
            return
        tell(f"Connected to a trainer of version {trainer.package or 'unknown'} on port {port}: {trainer.areas} areas, seed {trainer.seed}")
        if "multiAgentGroups" not in trainer.capabilities:
            tell("warning: this trainer knows no groups: it does not see who belongs together, nor group rewards")
        stage = make(trainer.areas, trainer.seed)
        try:
            _Conversation(stage, connection, wire.Writer(trainer.capabilities), tell).go_on()
        except TrainerGone as gone:
            tell(f"{gone}; the game ends")
        finally:
            stage.close()
    finally:
        connection.close()


class _Conversation:
    """From the first command on."""

    def __init__(self, stage: Stage, connection: Connection, writer: wire.Writer, tell: Callable[[str], None]) -> None:
        self._stage, self._connection, self._writer = stage, connection, writer
        academies, self._stats = stage.academies, StatsChannel()
        parameters = ParametersChannel([academy.environment_parameters for academy in academies])
        own = (parameters, EngineChannel(academies), self._stats, AnalyticsChannel())
        self._channels = SideChannels([*own, *(channel for academy in academies for channel in academy.side_channels)], tell)

    def go_on(self) -> None:
        """Until the trainer wants no more."""
        said: Mapping[str, Said] = {}
        reply = wire.read_reply(self._connection.exchange(wire.ready()))
        while not reply.over:
            self._channels.receive(reply.side_channel)
            if reply.reset or not said:
                self._stage.reset()
            else:
                self._stage.answer({key: wire.read_actions(one, reply.actions.get(key)) for key, one in said.items()})
            said = self._stage.advance()
            for academy in self._stage.academies:
                self._stats.tell(academy.stats_recorder.take())
            reply = wire.read_reply(self._connection.exchange(self._writer.write(said, self._channels.take())))


def _print(text: str) -> None:
    print(text, file=sys.stdout, flush=True)
