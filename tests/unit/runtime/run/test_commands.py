"""A run says how its agents can be watched only where something can draw them."""

import importlib.util
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from small_runs import settings

import palaestra
from palaestra.core.errors import EnvError
from palaestra.runtime.environments.make import make_env
from palaestra.runtime.run.commands import watch_command


class Invisible(gymnasium.Env):
    """Draws nothing, as its metadata say."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return np.zeros(2, np.float32), 0.0, True, False, {}

    def render(self) -> None:
        return None


class Visible(Invisible):
    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"]}


@pytest.fixture(autouse=True)
def registered():
    for made in (Invisible, Visible):
        gymnasium.register(f"{made.__name__}-v0", entry_point=made, disable_env_checker=True)
    yield
    for made in (Invisible, Visible):
        gymnasium.registry.pop(f"{made.__name__}-v0")


def command(name: str, *, no_graphics: bool = False) -> str | None:
    env = make_env(name, areas=1)
    env.reset(0)
    try:
        return watch_command(name, env, "RECORD", "PLAY", no_graphics=no_graphics)
    finally:
        env.close()


def test_a_built_in_environment_is_recorded():
    assert command("builtin:3DBall") == command("Basic") == "RECORD"


def test_an_environment_of_ones_own_that_draws_nothing_is_not_offered_to_be_watched():
    assert command("python:rumble_env:symmetric") is None


def test_a_gymnasium_environment_is_recorded_where_its_metadata_say_that_it_draws():
    assert command("gymnasium:Visible-v0") == "RECORD"
    assert command("gymnasium:Invisible-v0") is None


def test_what_draws_with_pygame_is_offered_where_it_is_installed(monkeypatch):
    monkeypatch.setattr("palaestra.runtime.run.commands.find_spec", lambda name: None)
    assert command("gymnasium:CartPole-v1") is command("gymnasium:FrozenLake-v1") is None
    monkeypatch.setattr("palaestra.runtime.run.commands.find_spec", lambda name: importlib.util.find_spec("json"))
    assert command("gymnasium:CartPole-v1") == "RECORD"


def test_a_unity_build_is_watched_in_its_window_and_a_game_in_python_as_a_process_not_at_all(tmp_path):
    env = make_env("Basic", areas=1)
    assert watch_command("Game.x86_64", env, "RECORD", "PLAY") == "PLAY --time-scale=1"
    hidden = watch_command("Game.x86_64", env, "RECORD", "PLAY", no_graphics=True)
    assert hidden == "PLAY --time-scale=1 --set engine_settings.no_graphics=false"
    game = tmp_path / "game.py"
    game.write_text("")
    assert watch_command(str(game), env, "RECORD", "PLAY") is None


def test_a_gymnasium_environment_without_pictures_says_so_when_it_is_drawn():
    with pytest.raises(EnvError, match="cannot be drawn: that needs the render mode rgb_array, and it has none"):
        make_env("gymnasium:Invisible-v0", areas=1, options={"render": True})


def test_the_last_lines_of_a_run_offer_what_can_be_done(tmp_path, capsys):
    def closing(env: str, behavior: str) -> str:
        palaestra.train(config=settings(behavior), env=env, results_dir=str(tmp_path), run_id=behavior)
        return capsys.readouterr().out

    assert "record" not in closing("gymnasium:Invisible-v0", "Invisible-v0")
