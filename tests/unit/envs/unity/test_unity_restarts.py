"""Games that crash are started again; nothing of their half episodes is used."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import torch
from pool_games import drawn_by
from unity_games import make_build
from unity_play import MessageLog, Play, RandomPolicy, Run, opened

from palaestra.core.errors import EnvError, GameGone
from palaestra.core.timestep import Action
from palaestra.envs.sampler_seeds import spacing


def kill(play: Play, copy: int) -> None:
    """Kills a copy's game with all it started."""
    process = play.env.copies[copy].process
    assert process is not None
    victims = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for victim in victims:
        os.kill(victim.pid, signal.SIGKILL)


@pytest.mark.slow
def test_a_run_outlives_kills(tmp_path: Path) -> None:
    log = MessageLog()
    with opened(log, executable=str(make_build(tmp_path, "Ball", episode=10, agents=2)), copies=3) as env:
        play = Play(env, Run(env, RandomPolicy, rollout=64))
        for number in range(3):
            play.for_seconds(0.7)
            before = len(log.warnings)
            kill(play, number % 2)
            play.until(lambda before=before: len(log.warnings) > before, 60)
            assert f"copy {number % 2} of the game: it" in log.warnings[-1]
            assert "killed by signal SIGKILL" in log.warnings[-1]
        wanted = play.count("Ball").episodes + 60
        play.until(
            lambda: play.count("Ball").episodes >= wanted and all(copy.delivered > 30 for copy in env.copies), 20
        )
        count = play.count("Ball")
    assert len(log.warnings) == 3
    assert (count.length, count.episodes % 2) == (10 * count.episodes, 0)


DRAWS = """
from palaestra import sdk

class Drawer(sdk.Agent):
    behavior = sdk.Behavior("Drawer", observations=1, continuous=1)
    max_step = 1

    def on_episode_begin(self):
        self.mass = self.academy.environment_parameters.get_with_default("mass", -1.0)

    def collect_observations(self, sensor):
        sensor.add(self.mass)

@sdk.game
def drawer(academy):
    academy.add(Drawer())

if __name__ == "__main__":
    drawer.play()
"""


@pytest.mark.slow
def test_a_restarted_game_draws_other_values_than_before_it_crashed(tmp_path: Path) -> None:
    """The same values would make it crash again where one of them did."""
    game = tmp_path / "drawer.py"
    game.write_text(DRAWS)
    with opened(executable=str(game), copies=2) as env:
        steps = {}
        masses = list[set[float]]()

        def play(done: Callable[[], bool]) -> None:
            nonlocal steps
            while not done():
                step = steps["Drawer"]
                for copy, mass in zip(
                    step.area[step.acting].tolist(), step.obs[0][step.acting, 0].tolist(), strict=True
                ):
                    masses[copy].add(mass)
                steps = env.step(
                    {
                        "Drawer": Action(
                            torch.zeros(len(step.reward), 1), torch.zeros(len(step.reward), 0, dtype=torch.int64)
                        )
                    }
                )

        def values() -> list[set[float]]:
            masses[:] = [set(), set()]
            play(lambda: all(len(some) >= 5 for some in masses))
            return [*masses]

        env.draw_parameter("mass", "uniform", [0, 1], [7, 8])
        steps = env.reset(0)
        assert [some <= drawn_by(seed) for some, seed in zip(values(), (7, 8), strict=True)] == [True, True]
        for restarts in (1, 2):
            process = env.copies[0].process
            assert process is not None
            process.kill()
            play(lambda restarts=restarts: env.copies.restarts(0) == restarts and env.copies[0].delivered > 0)
            assert values()[0] <= drawn_by((7 + spacing(2 * restarts)) & 0x7FFFFFFF)
        env.draw_parameter("mass", "uniform", [0, 1], [70, 80])
        values()  # a tick under way still has the values of before
        seed = (70 + spacing(4)) & 0x7FFFFFFF
        assert [some <= drawn_by(one) for some, one in zip(values(), (seed, 80), strict=True)] == [True, True]


@pytest.mark.slow
def test_a_run_of_crashes_alone_ends_with_the_games_last_words(tmp_path: Path) -> None:
    build = make_build(tmp_path, "Ball", die_at=5, die_how="exit", words="NullReferenceException: the wheel came off")
    with opened(executable=str(build), copies=1) as env:
        play = Play(env, Run(env, RandomPolicy))
        with pytest.raises(
            GameGone, match=r"(?s)failed 5 times in a row without progress.*exited with code 3.*the wheel came off"
        ):
            play.until(lambda: False, 60)


def test_damage_from_one_copy_leaves_the_other_unharmed(tmp_path: Path) -> None:
    """The first process of two speaks nonsense after a while, each that follows is well."""
    make_build(tmp_path, "Ball", name="well", episode=10, agents=2)
    make_build(tmp_path, "Ball", name="mad", episode=10, agents=2, die_at=100, die_how="corrupt")
    build = tmp_path / "Game.x86_64"
    build.write_text(
        f'#!/bin/sh\nmkdir "{tmp_path}/first" 2>/dev/null && exec "{tmp_path}/mad" "$@"\nexec "{tmp_path}/well" "$@"\n'
    )
    build.chmod(0o755)
    log = MessageLog()
    with opened(log, executable=str(build), copies=2) as env:
        play = Play(env, Run(env, RandomPolicy))
        play.until(lambda: bool(log.warnings), 30)
        play.until(lambda: all(copy.delivered > 200 for copy in env.copies), 30)
        count = play.count("Ball")
    assert len(log.warnings) == 1
    assert "are not a message of ML-Agents' protocol" in log.warnings[0]
    assert count.length == 10 * count.episodes


@pytest.mark.slow
def test_a_game_that_never_played_is_not_started_again(tmp_path: Path) -> None:
    build = make_build(tmp_path, "Ball", die_at=2, die_how="exit", die_code=9)
    with opened(executable=str(build)) as env, pytest.raises(EnvError, match=r"the game: .*exited with code 9"):
        env.reset(0)
