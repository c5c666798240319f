import sys
from pathlib import Path

import pytest
from duel_env import Duel

from palaestra.core.errors import ConfigError, PolicyError, RunError
from palaestra.runtime.play.brain_assignment import BrainAssignment, BrainSpec, read_part, read_parts
from palaestra.runtime.play.evaluation import play, results
from palaestra.runtime.play.players import Players

MODELS = Path(__file__).parents[3] / "golden" / "data" / "onnx"


def played(*texts, areas=3, episodes=6, env=None):
    env = env or Duel(areas)
    players = Players(env, BrainAssignment(read_parts(texts), env).brain, lambda agents: episodes)
    play(env, players, 0)
    return results(players), env


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("random", BrainSpec("random")),
        ("model:a=b.onnx", BrainSpec("model", "a=b.onnx")),
        ("Ball=heuristic", BrainSpec("heuristic", "", "Ball")),
        ("Ball?team=1=model:x/Ball.onnx,n.yaml", BrainSpec("model", "x/Ball.onnx,n.yaml", "Ball", 1)),
        ("My Ball=python:mine:f", BrainSpec("python", "mine:f", "My Ball")),
        ("random=random", BrainSpec("random", "", "random")),
    ],
)
def test_what_is_typed_is_understood(text: str, part: BrainSpec):
    assert read_part(text) == part
    assert part.typed == text


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (
            ["Ball=modle:x"],
            r"--brain Ball=modle:x: there is no brain 'modle'; did you mean 'model'\? \(there are: heuristic, model, ",
        ),
        (["Ball=x/Ball.onnx"], r"no brain 'x/Ball.onnx'; did you mean 'model:x/Ball.onnx'\?"),
        (["heuristics"], r"no brain 'heuristics'; did you mean 'heuristic'"),
        (["Ball?team=one=random"], r"team 'one' is no number; expected Ball\?team=1=random"),
        (["Ball=random", "Ball=heuristic"], r"two brains to 'Ball': random and heuristic"),
        (["random", "heuristic"], r"two brains to all other behaviors"),
    ],
)
def test_what_cannot_be_meant_is_an_error(texts: list[str], message: str):
    with pytest.raises(ConfigError, match=message):
        read_parts(texts)


def test_a_team_is_played_by_what_is_named_for_it_else_for_its_behavior_else_for_all():
    cast = BrainAssignment(read_parts(["random", "Duel=heuristic", "Duel?team=1=python:duel_env:top"]), Duel())
    whom = [cast.part("Duel", 1), cast.part("Duel", 0), cast.part("Duel", 7), cast.part("Other", 1)]
    assert [part and part.brain for part in whom] == ["python:duel_env:top", "heuristic", "heuristic", "random"]
    assert cast.brain("Duel", 0) is cast.brain("Duel", 7)
    assert cast.brain("Duel", 0) is not cast.brain("Duel", 1)


def test_each_team_does_what_its_own_brain_says():
    found, env = played("Duel?team=0=python:duel_env:without_mask", "Duel?team=1=python:duel_env:top")
    assert all(numbers.tolist() == [0.25, 1.0] * 3 for numbers in env.given)
    assert found["Duel?team=0"].returns.tolist() == [-1.0] * 6
    assert found["Duel?team=1"].outcomes == (6, 0, 0)
    assert found["Duel?team=0"].outcomes == (0, 0, 6)


def test_teams_with_one_brain_for_both_are_counted_apart():
    found, _ = played("heuristic")
    assert {name: one.outcomes for name, one in found.items()} == {"Duel?team=0": (0, 6, 0), "Duel?team=1": (0, 6, 0)}


def test_two_brains_of_chance_draw_differently():
    _, env = played("Duel?team=0=random", "Duel?team=1=random")
    numbers = env.given[0].view(-1, 2)
    assert not (numbers[:, 0] == numbers[:, 1]).any()


def test_a_class_is_told_of_episodes_that_begin():
    _, env = played("python:duel_env:Climber", episodes=9)
    assert len(env.given) == 3
    assert all(numbers.tolist() == [0.25] * 6 for numbers in env.given)


def test_a_function_that_takes_a_role_makes_the_brain():
    _, env = played("python:duel_env:made")
    assert set(env.given[0].tolist()) == {0.125}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("too_high", r"behavior 'Duel', brain python:duel_env:too_high: continuous action 0 of slot 0 is 1.5"),
        ("too_wide", r"continuous actions have shape \(6, 2\); expected \(6, 1\)"),
        ("broken", r"raised an error: IndexError: .*duel_env.py, line \d+"),
        ("forgetful", r"returned None"),
        ("of_three", r"python:duel_env:of_three takes \(obs, mask, more\); expected \(obs, mask\) or \(obs\)"),
        ("tpo", r"module 'duel_env' \(.*duel_env.py\) has no 'tpo'; did you mean 'top'\?"),
        ("NoBrain", r"class NoBrain has no method 'decide\(self, seen\)'"),
        ("a_number", r"is an instance of int; expected a function"),
    ],
)
def test_code_that_cannot_play_says_why(name: str, message: str):
    with pytest.raises(PolicyError, match=message):
        played(f"python:duel_env:{name}")


def test_a_module_that_is_not_there_is_named():
    with pytest.raises(PolicyError, match="python:duel_enf:top: there is no module 'duel_enf'"):
        played("python:duel_enf:top")
    with pytest.raises(PolicyError, match="'python:duel_env' is not complete; expected python:module:function"):
        played("python:duel_env")


def test_a_users_module_is_found_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "brain_here.py").write_text("def low(obs):\n    return -obs[0][:, :1] - 0.5\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    _, env = played("python:brain_here:low")
    assert set(env.given[0].tolist()) == {-0.5}


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], "behavior 'Duel' has no brain; give it one, such as --brain 'Duel=model:FILE.onnx', or"),
        (["duel=random"], r"behavior 'Duel' has no brain \(was 'duel' meant for it\?\)"),
        (["Duel?team=0=random"], r"team 1 of behavior 'Duel' has no brain; give it one, such as --brain"),
    ],
)
def test_a_side_without_a_brain_is_named(texts: list[str], message: str):
    with pytest.raises(PolicyError, match=message):
        played(*texts)


def test_what_played_nobody_is_known():
    env = Duel()
    parts = read_parts(["random", "Duel=heuristic", "Duell=random", "Duel?team=4=random"])
    cast = BrainAssignment(parts, env)
    play(env, Players(env, cast.brain, lambda agents: 1), 0)
    assert [part.typed for part in cast.idle()] == ["random", "Duell=random", "Duel?team=4=random"]
    assert [part.typed for part in cast.strangers()] == ["Duell=random"]


def test_a_run_that_is_not_there_or_has_no_such_model_is_named(tmp_path: Path):
    env = Duel()
    with pytest.raises(RunError, match="there is no run 'first'"):
        BrainAssignment(read_parts(["model:first"]), env, results=tmp_path).brain("Duel", 0)
    with pytest.raises(PolicyError, match=r"a model needs a file or a run, such as model:results/first/Duel.onnx"):
        BrainAssignment(read_parts(["model"]), env).brain("Duel", 0)
    with pytest.raises(PolicyError, match=r"gone\.onnx does not exist"):
        BrainAssignment(read_parts(["model:gone.onnx"]), env).brain("Duel", 0)
    with pytest.raises(PolicyError, match="made for other agents than those of 'Duel'"):
        BrainAssignment(read_parts([f"model:{MODELS / 'unity_examples' / '3DBallHard.onnx'}"]), env).brain("Duel", 0)
