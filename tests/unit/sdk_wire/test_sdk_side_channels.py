"""The game's ends of side channels speak with the trainer's."""

from uuid import UUID

import pytest

from palaestra.core.errors import EnvError
from palaestra.sdk.protocol.game_channels import FloatProperties, RawBytes
from palaestra.sdk.protocol.game_side_channels import GameSideChannels, IncomingMessage, OutgoingMessage, SideChannel
from palaestra.wire import side_channels, unity_channels

ID = UUID("621f0a70-4f87-11ea-a6bf-784f4387d1f7")


class Both:
    """One end of each kind, without a connection between them."""

    def __init__(self, game: SideChannel, trainer: side_channels.SideChannel) -> None:
        self.warnings: list[str] = []
        self.game = GameSideChannels([game], self.warnings.append)
        self.trainer = side_channels.SideChannels([trainer], 1, self.warnings.append)
        self.trainer.connected(0)

    def tick(self) -> None:
        self.trainer.incoming(0, self.game.take())
        self.game.receive(self.trainer.outgoing(0))


def test_properties_are_set_from_both_sides():
    game = FloatProperties()
    trainer = unity_channels.FloatProperties()
    heard: list[float] = []
    game.on_change("gravity", heard.append)
    both = Both(game, trainer)
    game.set("speed", 2.5)
    trainer.set("gravity", -9.5)
    both.tick()
    assert trainer.get("speed") == 2.5
    assert game.get("gravity") == -9.5
    assert heard == [-9.5]
    assert game.names() == ["speed", "gravity"]
    assert game.get("wind", 7.0) == 7.0


def test_bytes_go_both_ways():
    game = RawBytes(ID)
    trainer = unity_channels.RawBytes(ID)
    both = Both(game, trainer)
    game.send_raw_data(b"from the game")
    trainer.send_raw_data(b"from the trainer")
    both.tick()
    assert trainer.take() == [b"from the game"]
    assert game.take() == [b"from the trainer"]
    assert game.take() == []


class Echo(SideChannel):
    def on_message_received(self, message: IncomingMessage) -> None:
        answer = OutgoingMessage()
        answer.write_string(message.read_string() + "!")
        self.send(answer)


def test_a_channel_of_ones_own_answers():
    game = GameSideChannels([Echo(str(ID))], pytest.fail)
    message = OutgoingMessage()
    message.write_string("hello")
    game.receive(side_channels.pack([(ID, bytes(message.buffer))]))
    ((id, payload),) = side_channels.unpack(game.take())
    assert (id, IncomingMessage(payload).read_string()) == (ID, "hello!")
    assert game.take() == b""


def test_channels_of_one_id_all_hear():
    areas = [RawBytes(ID), RawBytes(ID)]
    GameSideChannels(areas, pytest.fail).receive(side_channels.pack([(ID, b"x")]))
    assert [area.take() for area in areas] == [[b"x"], [b"x"]]


def test_unknown_channels_are_named_once():
    warnings: list[str] = []
    game = GameSideChannels([], warnings.append)
    for _ in range(2):
        game.receive(side_channels.pack([(ID, b"x")]))
    assert len(warnings) == 1
    assert str(ID) in warnings[0]


def test_an_error_in_a_channel_is_reported_with_its_name():
    class Faulty(SideChannel):
        def on_message_received(self, message: IncomingMessage) -> None:
            raise KeyError("speed")

    with pytest.raises(EnvError, match=r"side channel Faulty .*: its on_message_received failed: KeyError: 'speed'"):
        GameSideChannels([Faulty(ID)], pytest.fail).receive(side_channels.pack([(ID, b"x")]))
    with pytest.raises(EnvError, match="the channel only sends"):
        GameSideChannels([SideChannel(ID)], pytest.fail).receive(side_channels.pack([(ID, b"x")]))


def test_a_channel_without_an_id_is_an_error():
    class Nameless(SideChannel):
        def __init__(self) -> None:
            pass

    with pytest.raises(EnvError, match="Nameless has no id"):
        GameSideChannels([Nameless()], pytest.fail)
