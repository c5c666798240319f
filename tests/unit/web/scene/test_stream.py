"""Messages to a browser that watches."""

import asyncio
import time

import numpy as np
from asgi_client import in_a_loop
from starlette.websockets import WebSocketDisconnect

from palaestra.envs.solids import Drawing, solids
from palaestra.web.scene.stream import Frames, SceneStreams


class Moving:
    """A ball whose x is the number of the tick."""

    def __init__(self) -> None:
        self.tick = 0
        self.made = 0.0
        self.lasts = 0.0
        self.areas = 1
        self.size = 1.0
        self.asked = 0
        self.drawn: dict[object, Drawing] = {}

    def ticks(self) -> tuple[int, float, float]:
        return self.tick, self.made, self.lasts

    def drawing(self) -> Drawing | None:
        self.asked += 1
        place = np.full((self.areas, 1, 3), (self.tick, 0, 0))
        new = Drawing((solids("ball", "sphere", place, self.size, (0, 0, 0)),), (50, 1, 50))
        return self.drawn.setdefault((self.tick, self.areas, self.size), new)

    def picture(self) -> bytes | None:
        return None


class Pictures(Moving):
    def drawing(self) -> Drawing | None:
        return None

    def picture(self) -> bytes | None:
        return b"jpeg %d" % self.tick


def x_of(message: bytes) -> float:
    return float(np.frombuffer(message, np.float32, offset=4)[0])


def started() -> tuple[Moving, Frames]:
    """A source whose outline and first tick were sent."""
    source = Moving()
    frames = Frames(source)
    frames.next(), frames.next()
    return source, frames


def test_the_outline_comes_first_and_again_when_the_number_of_areas_changes():
    source = Moving()
    frames = Frames(source)
    assert list(frames.next()) == ["outline"]
    assert x_of(frames.next()) == 0
    source.areas = 2
    source.tick = 1
    assert frames.next()["outline"]["groups"][0]["count"] == 2


def test_a_tick_that_has_been_shown_is_not_sent_again():
    source, frames = started()
    assert frames.next() is None
    source.tick = 1
    assert x_of(frames.next()) == 1
    assert frames.next() is None


def test_ticks_that_were_missed_are_left_out():
    source, frames = started()
    source.tick = 7
    source.made = time.monotonic()
    source.lasts = 10.0
    assert x_of(frames.next()) == 7


def test_a_slow_tick_is_sent_in_between_from_the_place_before_to_the_new_one():
    source, frames = started()
    source.tick = 1
    source.made = time.monotonic() - 5
    source.lasts = 10.0
    between = x_of(frames.next())
    assert 0.4 < between < 0.7
    source.made -= 5
    assert x_of(frames.next()) == 1
    assert frames.next() is None


def test_pictures_are_sent_where_there_are_no_solids():
    source = Pictures()
    frames = Frames(source)
    assert frames.next() == b"jpeg 0"
    assert frames.next() is None
    source.tick = 3
    assert frames.next() == b"jpeg 3"


def test_a_tick_that_is_drawn_anew_is_sent_again():
    source, frames = started()
    source.size = 2.0
    assert np.frombuffer(frames.next(), np.float32, offset=4)[7:10].tolist() == [2, 2, 2]
    assert frames.next() is None


class Socket:
    """A browser's end of a WebSocket: it answers `answers` messages and then leaves."""

    def __init__(self, key: str, answers: int, source: Moving | None = None) -> None:
        self.path_params = {"key": key}
        self.sent: list[object] = []
        self.closed: int | None = None
        self._answers = answers
        self._source = source

    async def accept(self) -> None: ...

    async def send_bytes(self, message: object) -> None:
        self.sent.append(message)

    send_text = send_bytes

    async def receive_text(self) -> str:
        if self._answers == 0:
            raise WebSocketDisconnect
        self._answers -= 1
        if self._source is not None:
            self._source.tick += 1
        return ""

    async def close(self, code: int = 1000) -> None:
        self.closed = code


def serve(streams: SceneStreams, socket: Socket) -> None:
    async def watched() -> None:
        await asyncio.wait_for(streams.route.endpoint(socket), 20)

    in_a_loop(watched())


def test_a_browser_gets_one_message_for_each_answer_and_none_after_it_left():
    streams = SceneStreams()
    source = Moving()
    socket = Socket(streams.add(source), 3, source)
    serve(streams, socket)
    assert len(socket.sent) == 4


def test_an_unknown_stream_is_refused():
    socket = Socket("guess", 0)
    serve(SceneStreams(), socket)
    assert socket.closed == 4404
    assert socket.sent == []


def test_a_stream_that_is_removed_sends_its_browsers_away():
    streams = SceneStreams()
    source = Moving()
    key = streams.add(source)

    class Last(Socket):
        async def receive_text(self) -> str:
            streams.remove(key)
            return ""

    socket = Last(key, 1)
    serve(streams, socket)
    assert socket.closed == 4404
