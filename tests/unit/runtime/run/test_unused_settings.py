"""Settings of a behavior that never comes are named once, in any kind of environment."""

from typing import Any

import pytest
from small_runs import settings, write
from tiny_envs import Scripted
from unity_games import make_build

import palaestra
from palaestra.core.errors import ConfigError
from palaestra.runtime.settings import behavior_settings, load


def misspelt(name: str, steps: int = 200) -> dict[str, Any]:
    """`default_settings`, and beside them a block that is meant for a behavior."""
    block = settings(name, steps)["behaviors"][name]
    return {"default_settings": block, "behaviors": {name: {"max_steps": steps}}}


@pytest.mark.parametrize(
    ("env", "name", "typed"), [("Basic", "Basic", "Basik"), ("gymnasium:CartPole-v1", "CartPole-v1", "Cartpole-v1")]
)
def test_a_misspelt_block_is_named_with_its_line(env, name, typed, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    palaestra.train(write("x.yaml", misspelt(typed)), env=env, num_areas=4)
    [line] = [line for line in capsys.readouterr().out.splitlines() if f"'{typed}'" in line]
    assert line.startswith("[WARNING] x.yaml:")
    assert (
        f"'{typed}' has appeared in this environment, so its settings are not used; if they are meant for '{name}', "
        "which trains with default_settings: the name in the settings must be the environment's own name" in line
    )
    assert [line.count(each) for each in (f"'{typed}'", f"'{name}'")] == [1, 1]


def test_a_game_is_given_time_to_show_its_behaviors(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    palaestra.train(misspelt("Bal", 60), env=str(make_build(tmp_path, "Ball")))
    [line] = [line for line in capsys.readouterr().out.splitlines() if "no behavior 'Bal'" in line]
    assert "'Bal' has appeared so far, so its settings are not used; if they are meant for 'Ball', which trains" in line
    assert "must be the Behavior Name in the agents' Behavior Parameters" in line


def test_a_behavior_like_a_block_that_comes_late_is_named_at_the_end(tmp_path, capsys):
    env = Scripted({"Early": {}, "Later": {}}, appears={"Later": 5})
    block = settings("Early", 100)["behaviors"]["Early"]
    tree = {"default_settings": block, "behaviors": {"Early": block, "Latter": block}}
    palaestra.train(tree, env=env, results_dir=str(tmp_path))
    first, last = [line for line in capsys.readouterr().out.splitlines() if "behavior 'Latter'" in line]
    assert "so far" in first
    assert "in this session, so its settings are not used; if they are meant for 'Later', which trains" in last


def test_a_behavior_that_comes_late_is_not_named_at_the_end(tmp_path, capsys):
    env = Scripted({"Early": {}, "Late": {}}, appears={"Late": 5})
    tree = {"behaviors": {name: settings(name, 100)["behaviors"][name] for name in ("Early", "Late")}}
    palaestra.train(tree, env=env, results_dir=str(tmp_path))
    message = capsys.readouterr().out
    assert message.count("no behavior 'Late' has appeared so far") == 1
    assert "in this session" not in message


def test_settings_that_all_fit_are_not_named(tmp_path, capsys):
    palaestra.train(settings("Basic", 100), env="Basic", results_dir=str(tmp_path), num_areas=2)
    assert "has appeared" not in capsys.readouterr().out


def test_a_behavior_without_settings_is_told_of_the_block_that_may_be_meant():
    with pytest.raises(
        ConfigError,
        match=r"is it '3DBal' in the settings\? Both names must be equal \(in Unity: Behavior Name in the agents'",
    ):
        behavior_settings(load(settings("3DBal")).settings, "3DBall")


def test_many_blocks_of_other_environments_are_one_line(tmp_path, capsys):
    block = settings("Basic", 100)["behaviors"]["Basic"]
    tree = {"behaviors": {"Basic": block, **{f"{letter * 9}": block for letter in "QRSUVWXYZ"}}}
    palaestra.train(tree, env="Basic", results_dir=str(tmp_path), num_areas=2)
    message = capsys.readouterr().out
    assert message.count("appeared in this") == 1
    assert "9 behaviors of the settings have not appeared in this environment" in message
    assert "'QQQQQQQQQ', " in message
    assert "... (there are: 'Basic')" in message
