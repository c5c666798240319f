"""A game on the page: it waits for its people, who find their seats, their link and their pieces."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("nicegui")

from palaestra.envs.builtin.match3.env import Match3
from palaestra.runtime.playback.sources import PlaybackSource
from palaestra.web.page_socket import listen
from palaestra.web.people.board import Board
from palaestra.web.people.invitation import invitation, qr_code
from palaestra.web.people.played_game import Person, PlayedGame
from palaestra.web.scene.stream import SceneStreams


def until(met: Callable[[], object]) -> None:
    end = time.monotonic() + 30
    while not met():
        assert time.monotonic() < end
        time.sleep(0.01)


@contextmanager
def played(results: Path, env: str) -> Iterator[PlayedGame]:
    game = PlayedGame(PlaybackSource(results, env=env), SceneStreams())
    try:
        until(lambda: game.places())
        yield game
    finally:
        game.people.clear()
        game.leave("")
        game.playback.close(10.0)


def test_nothing_moves_until_a_person_begins_and_then_a_countdown_runs(tmp_path: Path):
    with played(tmp_path, "Basic") as game:
        assert game.playback.state.paused
        game.begin()
        state = game.playback.state
        assert not state.paused
        assert 2 < state.held <= 3
        assert state.ticks == 0
        game.playback.hold(0.0)
        until(lambda: game.playback.state.ticks > 0)


def test_the_next_round_of_a_game_between_teams_waits(tmp_path: Path):
    with played(tmp_path, "SoccerTwos") as game:
        game.people["me"] = Person(game, game.places()[0])
        game.playback.set_speed(10.0)
        steps = game.people["me"].played.steps
        step = steps["SoccerTwos"]
        ended = {
            "SoccerTwos": type(step)(
                **{**{name: getattr(step, name) for name in step.__slots__}, "terminated": ~step.truncated}
            )
        }
        game.people["me"]._watch(steps, {}, ended)
        assert game.playback.state.held > 0
        assert game.people["me"].last_result == "A draw."


def test_a_second_person_is_offered_the_other_team_first(tmp_path: Path):
    with played(tmp_path, "SoccerTwos") as game:
        first = game.free()[0]
        game.people["first"] = Person(game, first)
        assert game.free()[0].team != first.team
        game.people["second"] = Person(game, game.free()[0])
        assert len(game.free()) == 2


def test_an_invitation_is_a_whole_link_and_says_whether_others_can_open_it():
    for bind, private in (("127.0.0.1", True), ("0.0.0.0", False)):
        listener = listen(bind, 20000)
        listener.socket.close()
        found = invitation(listener, "/play?join=key", "guest")
        assert found.is_private == private
        assert found.address.startswith("http://")
        assert found.address.endswith(f":{listener.port}/play?join=key&token=guest")
        assert "0.0.0.0" not in found.address


@pytest.mark.skipif(find_spec("segno") is None, reason="segno is not installed")
def test_the_code_of_a_link_is_a_picture_without_a_request():
    assert (qr_code("http://192.168.0.2:8600/play?join=key&token=secret") or "").startswith("data:image/svg+xml")


def test_two_clicks_or_keys_exchange_neighbors():
    board = Board(8, lambda cell: 0 <= cell < 72)
    assert board.click(9) is None
    assert board.click(30) is None  # no neighbor: chosen instead
    assert board.click(31) == (30, 31)
    for key in (" ", "ArrowUp"):
        pair = board.press(key)
    assert pair == (31, 39)
    assert board.press("ArrowLeft") is None
    assert board.chosen == 38


def test_each_move_of_match3_exchanges_one_pair_of_cells():
    exchange = Match3.board.exchange
    moves = {exchange(a, b) for a in range(72) for b in range(a, 72)}
    assert moves == {None, *range(127)}
    assert exchange(7, 8) is None  # the end of one row and the beginning of the next
    assert exchange(8, 0) == exchange(0, 8) == 63
