"""An environment played in a thread, commands to it, and what becomes of both."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_envs import behavior_settings

from palaestra.brains.base import Brain, Choice, Seen
from palaestra.brains.model import load_policy
from palaestra.brains.trained import ModelBrain
from palaestra.core.errors import EnvError
from palaestra.demos import read_demo
from palaestra.demos.summary import summarize
from palaestra.onnx_export.onnx import export
from palaestra.runtime.playback.agent_history import History
from palaestra.runtime.playback.demo_takes import DemoTakes
from palaestra.runtime.playback.inspection import Inspector
from palaestra.runtime.playback.playing import Opened, Playback
from palaestra.runtime.playback.scene_display import as_gif
from palaestra.runtime.playback.sources import PlaybackSource
from palaestra.trainers.ppo import PPO


class Constant(Brain):
    """Always takes the same choice."""

    def __init__(self, choice: int) -> None:
        self.choice = choice

    def decide(self, seen: Seen) -> Choice:
        count = len(seen.slots)
        return Choice(np.zeros((count, 0), np.float32), np.full((count, 1), self.choice))


@contextmanager
def playing(env: str, results: Path, **more: object) -> Iterator[Playback]:
    playback = Playback(PlaybackSource(results, env=env, brains=["random"]).open, paused=True, **more)  # type: ignore[arg-type]
    try:
        until(lambda: not playback.state.opening)
        yield playback
    finally:
        playback.close(10.0)
        assert playback.ended


def until(met: Callable[[], object], patience: float = 60.0) -> None:
    end = time.monotonic() + patience
    while not met():
        assert time.monotonic() < end, "did not come true in time"
        time.sleep(0.005)


def advance(playback: Playback, ticks: int = 1) -> None:
    for _ in range(ticks):
        now = playback.state.ticks
        playback.advance()
        until(lambda now=now: playback.state.ticks == now + 1)


def test_a_paused_playback_makes_one_tick_at_a_time(tmp_path: Path):
    with playing("Basic", tmp_path) as playback:
        assert playback.state.ticks == 0
        advance(playback, 3)
        time.sleep(0.2)
        assert playback.state.ticks == 3
        playback.resume()
        until(lambda: playback.state.ticks > 5)
        playback.pause()


def test_an_agent_has_a_brain_of_its_own_until_it_is_released(tmp_path: Path):
    with playing("Basic", tmp_path) as playback:
        game = playback.game
        playback.order(lambda game: game.brains.assign("Basic", 0, Constant(2)))
        for _ in range(4):
            advance(playback)
            assert game.actions["Basic"].discrete.tolist() == [[2]]
        assert game.brains.taken == {("Basic", 0)}
        playback.order(lambda game: game.brains.release("Basic", 0))
        playback.order(lambda game: game.set_brains(lambda behavior, team: Constant(1), anew=False))
        advance(playback)
        assert game.brains.taken == set()
        assert game.actions["Basic"].discrete.tolist() == [[1]]


def test_a_restart_with_a_seed_gives_the_same_first_observations(tmp_path: Path):
    with playing("3DBall", tmp_path) as playback:
        seen = []
        for seed in (7, 8, 7):
            before = playback.state.ticks
            playback.restart(seed)
            until(lambda before=before: playback.state.ticks == before + 1)
            seen.append(playback.game.steps["3DBall"].obs[0].clone())
            advance(playback, 2)
        assert torch.equal(seen[0], seen[2])
        assert not torch.equal(seen[0], seen[1])


def test_drawings_are_made_for_those_who_ask_and_show_the_newest_tick(tmp_path: Path):
    with playing("3DBall", tmp_path) as playback:
        advance(playback)
        until(lambda: playback.display.drawing() is not None)
        advance(playback)
        until(lambda: playback.display.ticks()[0] == playback.state.ticks)
        assert playback.display.picture() is None  # solids go before pictures
        assert as_gif(playback.take_pictures(0.2, 10), 10).startswith(b"GIF8")


def test_an_environment_that_cannot_open_has_one_line_of_error(tmp_path: Path):
    def fails() -> Opened:
        raise EnvError("no such game")

    def breaks() -> Opened:
        return 1 / 0  # type: ignore[return-value]

    for opener, message in ((fails, "no such game"), (breaks, "ZeroDivisionError")):
        playback = Playback(opener)
        until(lambda playback=playback: playback.ended)
        assert message in (playback.state.error or "")
        assert not playback.state.opening
        playback.advance()  # and whoever still clicks is not answered with an exception


def test_the_environment_is_closed_at_the_end_and_after_an_error(tmp_path: Path):
    for action in (
        lambda playback: playback.close(10.0),
        lambda playback: playback.order(lambda game: game.set_parameter("no such parameter", 1.0)),
    ):
        closed: list[bool] = []
        env, brain_of = PlaybackSource(tmp_path, env="Basic").open()
        close = env.close

        def closing(close: Callable[[], None] = close, closed: list[bool] = closed) -> None:
            closed.append(True)
            close()

        env.close = closing  # type: ignore[method-assign]
        playback = Playback(lambda env=env, brain_of=brain_of: (env, brain_of), paused=True)
        until(lambda playback=playback: not playback.state.opening)
        action(playback)
        playback.close(10.0)
        assert closed == [True]


def test_speed_is_kept_within_its_bounds(tmp_path: Path):
    with playing("Basic", tmp_path) as playback:
        for wanted, kept in ((0.01, 0.1), (2.0, 2.0), (1000.0, 10.0)):
            playback.set_speed(wanted)
            assert playback.state.speed == kept


def test_an_agent_is_looked_at_with_the_names_of_its_observations(tmp_path: Path):
    with playing("3DBall", tmp_path) as playback:
        advance(playback, 3)
        found = Inspector(playback).look("3DBall", 0)
        game = playback.game
        (spec,) = game.env.behaviors["3DBall"].obs
        observed = {name: seen.tolist() for name, seen in found.obs.items()}
        assert observed == {spec.name: game.steps["3DBall"].obs[0][0].tolist()}
        assert (found.length, found.value) == (3, None)
        assert Inspector(playback).look("3DBall", 99) is None
        assert Inspector(playback).look("Nobody", 0) is None


def test_what_a_policy_does_not_see_is_told_and_its_critic_values_the_whole(tmp_path: Path):
    with playing("GridWorld", tmp_path) as playback:
        spec = playback.game.env.behaviors["GridWorld"]
        given = behavior_settings(network={"critic_only": ["VectorSensor"]})
        network = PPO(spec, given, torch.device("cpu"), 0).network
        export(network, spec, tmp_path / "model.onnx")
        brain = ModelBrain(load_policy(tmp_path / "model.onnx"), "GridWorld", spec, deterministic=False)
        playback.order(lambda game: game.brains.replace(lambda *side: brain))
        advance(playback, 2)
        inspector = Inspector(playback)
        assert (inspector.look("GridWorld", 0).unseen, inspector.look("GridWorld", 0).value) == ({"VectorSensor"}, None)
        inspector.networks = {"GridWorld": network}
        found = inspector.look("GridWorld", 0)
        assert (found.unseen, found.value) == ({"VectorSensor"}, 0.0)
        assert sum(found.discrete[0]) == pytest.approx(1)


def test_recorded_episodes_are_whole_and_single_ones_can_be_dropped(tmp_path: Path):
    with playing("Basic", tmp_path) as playback:
        playback.order(lambda game: game.brains.assign("Basic", 0, Constant(2)))  # to the right, to the large goal
        takes = DemoTakes(0, tally=playback.game.tally)
        playback.game.watchers.append(takes)
        advance(playback, 2)
        takes.start()  # in the middle of an episode, which is left out
        while len(takes.kept) < 3:
            advance(playback)
        assert takes.drop_last()
        advance(playback)
        takes.stop()
        lengths = [len(take.ticks) for take in takes.kept]
        rewards = [take.reward for take in takes.kept]
        (file,) = takes.save(playback.game.env, tmp_path / "right.demo")
        assert takes.kept == []
        assert not takes.drop_last()
        found = summarize(read_demo(file))
        assert found.returns == pytest.approx(rewards)
        assert (len(found.returns), found.pairs) == (2, sum(lengths))


def test_options_that_were_typed_reach_the_environment(tmp_path: Path):
    env, _ = PlaybackSource(tmp_path, env="GridWorld", options={"width": 100}).open()
    assert env.behaviors["GridWorld"].obs[0].shape == (3, 64, 100)


def test_the_last_ticks_of_the_agent_that_is_looked_at_are_kept_and_can_be_looked_back_at(tmp_path: Path):
    with playing("Basic", tmp_path) as playback:
        history = History(playback)
        history.follow()
        advance(playback, 2)
        assert history.moments == ()
        playback.game.looked = ("Basic", 0)
        advance(playback, 4)
        moments = history.moments
        assert [one.tick for one in moments] == list(range(moments[0].tick, playback.state.ticks + 1))
        assert len(moments) >= 3
        last = moments[-1]
        assert last.obs[0].tolist() == playback.game.steps["Basic"].obs[0][0].tolist()
        assert last.discrete.tolist() == playback.game.actions["Basic"].discrete[0].tolist()
        assert last.reward == pytest.approx(float(playback.game.steps["Basic"].reward[0]))
        playback.display.look_back(moments[0].drawing)
        advance(playback, 1)
        assert playback.display.drawing() is moments[0].drawing
        playback.display.look_back(None)
        until(lambda: playback.display.drawing() is not moments[0].drawing)
        playback.game.looked = None
        advance(playback, 1)
        assert history.moments == ()
