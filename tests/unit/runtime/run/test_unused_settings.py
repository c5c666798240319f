"""Settings of a behavior that never comes are named, at the start and at the end, in any kind of environment."""

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
    first, last = [line for line in capsys.readouterr().out.splitlines() if f"no behavior '{typed}'" in line]
    assert first.startswith("[WARNING] x.yaml:")
    assert (
        f"'{typed}' has appeared in this environment, so its settings are not used, and '{name}' trains with "
        "default_settings" in first
    )
    assert f"Then write '{name}' in the settings: it must be the environment's own name (there are: '{name}')" in first
    assert "has appeared in this session" in last


def test_a_game_is_given_time_to_show_its_behaviors(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    palaestra.train(misspelt("Bal", 60), env=str(make_build(tmp_path, "Ball")))
    first, last = [line for line in capsys.readouterr().out.splitlines() if "no behavior 'Bal'" in line]
    assert "'Bal' has appeared so far, so its settings are not used, and 'Ball' trains with default_settings" in first
    assert "it must be the Behavior Name in the agents' Behavior Parameters" in first
    assert "in this session" in last


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
        match=r"is it '3DBal' in the settings\? .* Behavior Name in the agents' Behavior Parameters",
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
