"""Unity's own models play games of fitting agents with `palaestra run`, and our worlds of the same names."""

import json
from pathlib import Path

import numpy as np
import pytest
import their_games

import palaestra
from palaestra.cli.main import main
from palaestra.runtime.play.brain_assignment import BrainAssignment, read_parts
from palaestra.runtime.play.evaluation import play, results
from palaestra.runtime.play.players import Players

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
    endless = []
    memory = None
    for episode in log[:6]:
        for seen, _ in episode:
            answer = policy.act(seen, deterministic=True, memory=memory)
            memory = answer.memory
            endless.append(list(answer.discrete))
    chosen = [chosen for episode in log[:6] for _, chosen in episode]
    assert forgetful != chosen  # so the test above tells whether memory is kept
    assert endless != chosen  # ... and whether it is let go


@pytest.mark.parametrize(
    ("name", "episodes", "bar"),
    [("3DBall", 50, 95.0), ("3DBallHard", 50, 95.0), ("Basic", 20, 0.92), ("Hallway", 100, 0.7)],
)
def test_unitys_model_earns_in_our_world_what_unity_states(name: str, episodes: int, bar: float, capsys):
    brain = f"{name}=model:{MODELS / name}.onnx"
    assert main(["run", f"builtin:{name}", "--brain", brain, f"--episodes={episodes}", "--num-areas=25", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[name]["mean"] >= bar


def test_sorters_model_touches_up_to_twenty_tiles_in_order():
    env = palaestra.make("builtin:Sorter", areas=50)
    brains = BrainAssignment(read_parts([f"Sorter=model:{MODELS / 'Sorter.onnx'}"]), env)
    players = Players(env, brains.brain, lambda agents: 50)
    play(env, players, 1)
    found = results(players)["Sorter"]
    assert (found.finals > 0).mean() >= 0.9  # the last touch was right, so it was that of the last tile
    assert found.mean > 8  # of 10.5 tiles on average


def test_agents_of_other_observations_refuse_hallways_model_with_both_sides(capsys):
    assert ran("builtin:3DBall", "3DBall", "Hallway") == 1
    error = capsys.readouterr().err
    assert "was made for other agents than those of '3DBall'" in error
    assert "the model:  sees 105 and 3; does discrete 5\n" in error
    assert "the agents: sees 8; does 2 continuous" in error


@pytest.mark.parametrize(
    ("env", "behavior", "model", "bar"),
    [
        ("PushBlock", "PushBlock", "onnx/unity_examples/PushBlock.onnx", 4.275),
        ("PushBlock", "PushBlock", "nn/unity_examples/PushBlock.nn", 4.275),
        ("WallJump", "SmallWallJump", "onnx/unity_examples/SmallWallJump.onnx", 0.76),
    ],
)
def test_models_that_push_and_jump_earn_what_unity_states_less_five_percent(
    env: str, behavior: str, model: str, bar: float, capsys
):
    brains = ["--brain=heuristic", f"--brain={behavior}=model:{MODELS.parents[1] / model}"]
    assert main(["run", f"builtin:{env}", *brains, "--episodes=100", "--num-areas=50", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[behavior]["mean"] >= bar


def test_the_groups_of_the_cooperative_push_block_earn_what_unity_states_less_five_percent(capsys):
    brain = f"--brain=PushBlockCollab=model:{MODELS / 'PushBlockCollab.onnx'}"
    assert main(["run", "builtin:CooperativePushBlock", brain, "--episodes=150", "--num-areas=25", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)["PushBlockCollab"]
    assert result["groups"] == 50
    assert result["group_mean"] >= 10.45


def games(capsys, *brains: str, episodes: int) -> dict[str, int]:
    """Results of team 0 in SoccerTwos, each game counted for both of its players: won, drawn, lost."""
    command = ["run", "builtin:SoccerTwos", *(f"--brain={brain}" for brain in brains)]
    assert main([*command, f"--episodes={episodes}", "--num-areas=50", "--seed=1", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)["SoccerTwos?team=0"]
    return {name: result[name] for name in ("won", "drawn", "lost")}


def test_soccers_model_sees_both_sensors_as_one_and_decides_games_against_itself(capsys):
    result = games(capsys, f"SoccerTwos=model:{MODELS / 'SoccerTwos.onnx'}", episodes=200)
    assert result["drawn"] <= 0.5 * sum(result.values())
    assert min(result["won"], result["lost"]) > 0.3 * sum(result.values())


def test_soccers_model_beats_chance_in_95_of_100_games(capsys):
    result = games(capsys, f"SoccerTwos?team=0=model:{MODELS / 'SoccerTwos.onnx'}", "random", episodes=400)
    assert result["won"] >= 0.95 * sum(result.values())
