from pathlib import Path

import pytest
import yaml
from small_runs import settings

from palaestra.cli.commands import make_parser
from palaestra.cli.tune import overrides


def test_flags_are_keys_of_the_search_and_of_the_environment():
    words = [
        "game.yaml",
        "--trials=3",
        "--seed=4",
        "--objective=reward",
        "--env=3DBall",
        "--time-scale=5",
        "--max-steps=1e5",
    ]
    assert overrides(make_parser("tune").parse_args(["tune", *words])) == {
        "search": {"trials": "3", "seed": "4", "objectives": ["reward"]},
        "env_settings": {"env_path": "3DBall"},
        "engine_settings": {"time_scale": 5.0},
        "behaviors": {"*": {"max_steps": 100_000}},
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--trials=0"], "--trials: search.trials: expected a number greater than 0"),
        (["--bar=high"], "--bar: search.bar: expected a number, got 'high'"),
        (["--method=grid"], "expected one of tpe, random"),
        (["--objective=decisions"], "search.bar: is missing"),
        (["--search=pp"], "did you mean 'ppo'"),
        (["--study=../away"], "--study: '../away' cannot name a folder"),
        (["--resume"], "there is no study 'tune'"),
    ],
)
def test_a_search_that_cannot_begin_says_why_and_leaves_nothing(words, message, tmp_path, monkeypatch, terminal):
    monkeypatch.chdir(tmp_path)
    Path("game.yaml").write_text(yaml.safe_dump(settings("CartPole")))
    error = terminal.fails("tune", "game.yaml", "--env=CartPole", *words)
    assert message in error
    assert "Traceback" not in error
    assert not Path("results").exists()


@pytest.mark.parametrize(
    ("behavior", "hint"),
    [("CartPole", "the built-in environment of that name is --env=CartPole"), ("Ball", "such as --env=")],
)
def test_a_search_without_an_environment_does_not_wait_for_the_editor(behavior, hint, tmp_path, monkeypatch, terminal):
    monkeypatch.chdir(tmp_path)
    Path("game.yaml").write_text(yaml.safe_dump(settings(behavior)))
    assert f"no environment is named: add --env; {hint}" in terminal.fails("tune game.yaml --search=ppo")
    assert not Path("results").exists()
