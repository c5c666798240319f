"""Unity's own models play games of fitting agents with `palaestra run`, and Hallway's our hall."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import their_games

import palaestra
from palaestra.cli.main import main

MODELS = Path(__file__).parent / "data" / "onnx" / "unity_examples"


def ran(env: str, behavior: str, model: str, *more: str) -> int:
    brain = f"{behavior}=model:{MODELS / model}.onnx"
    return main(["run", env, "--brain", brain, "--deterministic", "--num-areas=1", "--json", *more])


@pytest.fixture
def log():
    their_games.LOG.clear()
    return their_games.LOG


@pytest.mark.parametrize(
    ("game", "behavior", "model"),
    [("hall", "Hallway", "Hallway"), ("sorter", "Sorter", "Sorter"), ("pushers", "PushBlockCollab", "PushBlockCollab")],
)
def test_a_model_does_in_a_game_what_it_answers_when_asked(game: str, behavior: str, model: str, log, capsys):
    assert ran(f"python:their_games:{game}", behavior, model, "--episodes=6") == 0
    assert json.loads(capsys.readouterr().out)[behavior]["episodes"] == 6
    policy = palaestra.load_policy(MODELS / f"{model}.onnx")
    assert [len(episode) for episode in log[:6]] == [12, 7] * 3
    for episode in log[:6]:
        memory = None
        for seen, chosen in episode:
            answer = policy.act(seen, deterministic=True, memory=memory)
            memory = answer.memory
            assert np.array_equal(answer.discrete, chosen)


def test_hallways_model_remembers_within_an_episode_and_forgets_at_its_end(log):
    assert ran("python:their_games:hall", "Hallway", "Hallway", "--episodes=6") == 0
    policy = palaestra.load_policy(MODELS / "Hallway.onnx")
    forgetful = [list(policy.act(seen, deterministic=True).discrete) for episode in log[:6] for seen, _ in episode]
    endless, memory = [], None
    for episode in log[:6]:
        for seen, _ in episode:
            answer = policy.act(seen, deterministic=True, memory=memory)
            memory = answer.memory
            endless.append(list(answer.discrete))
    chosen = [chosen for episode in log[:6] for _, chosen in episode]
    assert forgetful != chosen  # so the test above tells whether memory is kept
    assert endless != chosen  # ... and whether it is let go


def test_hallways_model_finds_the_right_goal_in_our_hall(capsys):
    brain = f"Hallway=model:{MODELS / 'Hallway.onnx'}"
    assert main(["run", "HallwayUnity", "--brain", brain, "--episodes=40", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["Hallway"]["mean"] > 0.95  # by chance 0.45 at best


def test_a_hall_of_other_observations_refuses_hallways_model_with_both_sides(capsys):
    assert ran("builtin:Hallway", "Hallway", "Hallway") == 1
    error = capsys.readouterr().err
    assert "was made for other agents than those of 'Hallway'" in error
    assert "the model:  sees 105 and 3; does discrete 5\n" in error
    assert "the agents: sees 30; does discrete 4" in error


@pytest.mark.parametrize(
    ("env", "behavior", "model", "bar"),
    [
        ("PushBlock", "PushBlock", "onnx/unity_examples/PushBlock.onnx", 4.275),
        ("PushBlock", "PushBlock", "nn/unity_examples/PushBlock.nn", 4.275),
        ("WallJump", "SmallWallJump", "onnx/unity_examples/SmallWallJump.onnx", 0.76),
    ],
)
def test_models_that_push_and_jump_earn_what_unity_states_less_five_percent(env: str, behavior: str, model: str, bar: float, capsys):
    brains = ["--brain=heuristic", f"--brain={behavior}=model:{MODELS.parents[1] / model}"]
    assert main(["run", f"builtin:{env}", *brains, "--episodes=100", "--num-areas=50", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[behavior]["mean"] >= bar
