"""A Unity game in a playback: a process stands in for a build."""

import os
from pathlib import Path

import numpy as np
from runtime.playback.test_playing import until
from unity_games import make_build

from palaestra.brains.base import Brain, Choice, Seen
from palaestra.demos import read_demo
from palaestra.demos.summary import summarize
from palaestra.runtime.playback.agent_slots import Moves
from palaestra.runtime.playback.demo_takes import DemoTakes
from palaestra.runtime.playback.playing import Playback
from palaestra.runtime.playback.sources import PlaybackSource


class Two(Brain):
    """Always takes choice 2."""

    def decide(self, seen: Seen) -> Choice:
        return Choice(np.zeros((len(seen.slots), 0), np.float32), np.full((len(seen.slots), 1), 2))


def source(folder: Path, **options: object) -> PlaybackSource:
    game = make_build(folder, "Arena", notes=folder / "notes", **options)
    return PlaybackSource(folder, env=str(game), brains=["random"])


def test_a_brain_follows_its_agent_and_its_demonstration_is_of_it_alone(tmp_path: Path):
    playback = Playback(source(tmp_path, episode=5).open, speed=10)
    until(lambda: not playback.state.opening)
    game = playback.game
    takes = DemoTakes(0, ["Driver"], tally=game.tally)
    moves: list[Moves] = []

    def follow(moved: Moves) -> None:
        moves.append(moved)
        takes.move(moved.get(("Driver", takes.slot), takes.slot))

    game.watchers.append(takes)
    game.followers.append(follow)
    takes.start()
    playback.order(lambda game: game.brains.assign("Driver", 0, Two()))
    playback.restart()
    until(lambda: len(takes.kept) >= 4)
    takes.stop()
    assert any(moved.get(("Driver", 0)) == 2 for moved in moves)
    assert {take.slot for take in takes.kept} == {0, 2}
    count = len(takes.kept)
    (file,) = takes.save(game.env, tmp_path / "own.demo")
    playback.close(10)
    found = summarize(read_demo(file))
    assert (len(found.returns), found.pairs) == (count, 5 * count)
    assert all((pairs.discrete == 2).all() for pairs in read_demo(file).pairs())


def test_a_game_that_has_not_connected_ends_with_its_playback(tmp_path: Path):
    told: list[str] = []
    playback = Playback(source(tmp_path, die_at=0).open, on_error=told.append)
    until(lambda: list((tmp_path / "notes").glob("*.json")))
    (note,) = (tmp_path / "notes").glob("*.json")
    playback.close(10)
    assert playback.ended
    assert told == []
    until(lambda: not Path(f"/proc/{note.stem}").exists() if os.path.isdir("/proc") else True)


def test_why_a_game_ended_is_told_once_and_it_is_not_started_again(tmp_path: Path):
    told: list[str] = []
    playback = Playback(
        source(tmp_path, die_at=20, die_how="exit", words="no fuel").open, speed=10, on_error=told.append
    )
    until(lambda: playback.ended)
    assert told == [playback.state.error]
    assert "exited with code 3" in told[0]
    assert "no fuel" in told[0]
    assert len(list((tmp_path / "notes").glob("*.json"))) == 1
