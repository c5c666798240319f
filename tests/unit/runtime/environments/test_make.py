import sys
from pathlib import Path

import pytest

from palaestra.core.errors import EnvError
from palaestra.envs.gymnasium import GymnasiumEnv
from palaestra.envs.unity.env import UnityEnv
from palaestra.runtime.environments.make import make_env

GAME = """
from palaestra.envs.gymnasium import GymnasiumEnv
from palaestra.core.errors import EnvError

def make(areas=3, level=1):
    env = GymnasiumEnv("CartPole-v1", areas)
    env.level = level
    return env

def without_areas():
    return make()

def everything(**options):
    env = make()
    env.options = options
    return env

def needs_level(level):
    return make()

def own_number(areas):
    return make(areas or 7)

def wrong():
    return object()

def broken():
    return {}["key"]

def refused():
    raise EnvError("no more seats")

number = 3
"""


@pytest.fixture
def game(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module in the current directory, another in each test."""
    name = f"game_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(GAME)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return name


def test_no_name_asks_for_one():
    with pytest.raises(EnvError, match="--env"):
        make_env(None)


def test_a_built_in_is_made_by_its_name_with_its_own_number_of_areas_or_another():
    env = make_env("Basic", areas=2)
    assert (env.num_areas, list(env.behaviors)) == (2, ["Basic"])
    assert make_env("builtin:3DBall").num_areas == 12


def test_an_executable_of_the_name_wins_over_the_built_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    build = tmp_path / "Basic.x86_64"
    build.touch(mode=0o755)
    game = make_env("Basic")
    assert isinstance(game, UnityEnv)
    assert game.options.executable == "Basic"
    assert list(make_env("builtin:Basic", areas=1).behaviors) == ["Basic"]


def test_a_plain_file_or_folder_of_the_name_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Basic").mkdir()
    (tmp_path / "Basic.exe").touch(mode=0o644)
    assert list(make_env("Basic", areas=1).behaviors) == ["Basic"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("3DBal", "did you mean '3DBall'"),
        ("CartPole-v1", "did you mean 'gymnasium:CartPole-v1'"),
        ("game:make", "did you mean 'python:game:make'"),
        ("gym:CartPole-v1", "did you mean 'gymnasium:CartPole-v1'"),
        ("built-in:PushBlock", "did you mean 'builtin:PushBlock'"),
        ("nothing like it", "built in: 3DBall"),
    ],
)
def test_an_unknown_name_is_told_what_may_be_meant(name: str, hint: str):
    with pytest.raises(EnvError, match=hint):
        make_env(name)


def test_a_gymnasium_id_is_made_with_its_options():
    env = make_env("gymnasium:FrozenLake-v1", areas=2, options={"map_name": "8x8"})
    assert isinstance(env, GymnasiumEnv)
    assert env.behaviors["FrozenLake-v1"].obs[0].shape == (64,)


def test_a_factory_of_the_current_directory_gets_what_its_signature_takes(game: str):
    assert make_env(f"python:{game}:make").num_areas == 3
    assert make_env(f"python:{game}:make", areas=5, device="cuda", options={"level": 2}).level == 2
    assert make_env(f"python:{game}:without_areas").num_areas == 3
    assert make_env(f"python:{game}:own_number").num_areas == 7
    given = make_env(f"python:{game}:everything", areas=3, options={"x": 1}).options
    assert given == {"areas": 3, "device": "cpu", "x": 1}


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("no_such_module:make", "there is no module 'no_such_module', neither in"),
        ("{game}_:make", "nor installed; did you mean '{game}'"),
        ("{game}.py:make", "nor installed; did you mean '{game}'"),
        ("{game}", "expected python:module:Class"),
        ("{game}:maek", "has no 'maek'; did you mean 'make'"),
        ("{game}:Zzz", r"module 'game_.*' \(game_.*.py\) has no 'Zzz' \(it has: .*make"),
        ("{game}:number", "'number' is an instance of int; expected a function or class"),
        ("{game}:wrong", "returned an instance of object, which has neither `reset` nor `step`"),
        ("{game}:broken", r"could not be made: KeyError: 'key' \(.*game_.*py, line 28\)"),
        ("{game}:refused", "^no more seats$"),
        ("{game}:needs_level", "missing a required argument: 'level'"),
    ],
)
def test_a_factory_that_does_not_do_is_told_why(game: str, place: str, message: str):
    with pytest.raises(EnvError, match=message.replace("{game}", game)):
        make_env("python:" + place.format(game=game))


def test_an_option_that_a_factory_does_not_take_is_an_error(game: str):
    with pytest.raises(EnvError, match="takes no option 'levl'; did you mean 'level'"):
        make_env(f"python:{game}:make", options={"levl": 2})


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("Match3", {"largest_boards": "no"}, "Match3, option 'largest_boards' is 'no'; expected true or false"),
        ("builtin:Match3Visual", {"greedy": 3}, "'greedy' is 3; expected true or false"),
        ("VisualFoodCollector", {"height": "tall"}, "VisualFoodCollector, option 'height' is 'tall'; expected a"),
        ("GridWorld", {"width": 84.5}, "'width' is 84.5; expected a whole number"),
        ("GridWorld", {"width": True}, "'width' is True; expected a whole number"),
    ],
)
def test_an_option_of_a_built_in_environment_of_another_type_is_an_error(name: str, options: dict, message: str):
    with pytest.raises(EnvError, match=message):
        make_env(name, options=options)


def test_areas_that_a_factory_does_not_make_are_an_error(game: str):
    with pytest.raises(EnvError, match="num_areas is 8, but the environment's is 3"):
        make_env(f"python:{game}:without_areas", areas=8)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def make(:\n", r"SyntaxError: .*bad_\d\.py, line 1"),
        ("x = 1\ny = x / 0\n", r"ZeroDivisionError: division by zero \(.*bad_\d\.py, line 2\)"),
        ("import no_such_package\n", r"no_such_package, .*bad_\d\.py, line 1\): pip install no_such_package"),
    ],
)
def test_a_module_that_cannot_be_imported_is_told_where(tmp_path, monkeypatch, text, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    name = f"bad_{len(text) % 10}"
    (tmp_path / f"{name}.py").write_text(text)
    with pytest.raises(EnvError, match=message):
        make_env(f"python:{name}:make")
