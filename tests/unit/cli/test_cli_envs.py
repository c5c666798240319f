import argparse
import re
from pathlib import Path

import pytest
from rich.console import Console
from tiny_envs import Scripted

from palaestra.cli import envs
from palaestra.core.errors import EnvError
from palaestra.core.plugins import registry
from palaestra.envs.builtin.agreement import Learned, agreements
from palaestra.envs.traits import summary_of
from palaestra.envs.wrapper import EnvWrapper

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(ROOT)


def run(*arguments: str) -> None:
    parser = argparse.ArgumentParser()
    envs.add_arguments(parser)
    envs.main(parser.parse_args(arguments))


def test_the_list_has_a_line_for_each_built_in(capsys: pytest.CaptureFixture[str]):
    run()
    lines = capsys.readouterr().out.splitlines()
    ball = next(line for line in lines if line.startswith("3DBall "))
    assert ball.split()[-4:] == ["2", "continuous", "12", "100"]
    assert any(line.startswith("Basic ") and "discrete 3" in line for line in lines)


@pytest.mark.parametrize("columns", [80, 120, 180])
def test_a_summary_is_whole_in_as_many_lines_as_it_needs(columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    run()
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    table = lines[: lines.index("")]
    what, after = table[0].index("what"), table[0].find("actions")
    wide = columns >= envs.WIDE
    assert max(map(len, lines)) <= columns
    assert table[0].split() == ["name", "what", *(["actions", "areas", "benchmark"] if wide else [])]
    assert [line.split()[0] for line in table[1:] if line[0] != " "] == registry("envs").names()
    if wide:
        walker = next(line for line in table if line.startswith("Walker "))
        assert walker.split()[-4:] == ["39", "continuous", "10", "2500"]
    texts = [" ".join(line[what : after if wide else None].split()) for line in table[1:]]
    summary = summary_of(registry("envs").get("CartPole"))
    assert summary in " ".join(texts)


def test_a_built_in_shows_what_it_sees_does_and_earns_and_how_to_train_it(capsys: pytest.CaptureFixture[str]):
    run("3DBall")
    out = capsys.readouterr().out
    facts = ("vector 8", "2 continuous", "gravity: 9.81 (4 to 105)", "+0.1 a decision", "benchmark   100")
    for part in (*facts, "palaestra learn ", "--env=3DBall"):
        assert part in out, out


def test_a_built_in_shows_the_options_that_it_takes(capsys: pytest.CaptureFixture[str]):
    for name in ("GridWorld", "builtin:GridWorld"):
        run(name)
        lines = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert lines[lines.index(["options", "height:", "64"]) + 1] == ["width:", "84"]
    run("Basic")
    assert "options" not in capsys.readouterr().out


def test_a_gymnasium_environment_is_shown_with_its_settings_file(capsys: pytest.CaptureFixture[str]):
    run("gymnasium:CartPole-v1")
    out = capsys.readouterr().out
    assert "475" in out
    assert "palaestra learn configs/ppo/CartPole-v1.yaml --env=gymnasium:CartPole-v1 --run-id=first" in out


@pytest.mark.parametrize(
    ("env", "first", "others"),
    [
        ("CooperativePushBlock", "poca/PushBlockCollab", ["ppo/PushBlockCollab"]),
        ("WallJump", "ppo/WallJump", ["ppo/WallJump_curriculum"]),
        ("SoccerTwos", "poca/SoccerTwos", []),
        ("PushBlock", "ppo/PushBlock", ["sac/PushBlock"]),
        ("gymnasium:Pendulum-v1", "sac/Pendulum-v1", []),
    ],
)
def test_the_settings_of_the_trainer_that_suits_come_first(env, first, others, capsys):
    run(env)
    out = capsys.readouterr().out
    assert f"palaestra learn configs/{first}.yaml --env={env}" in out
    assert all(f"configs/{other}.yaml" in out.split("other settings: ")[1] for other in others)


@pytest.mark.parametrize(
    ("name", "usual"), [("./catch.py", "with ML-Agents' defaults"), ("python:catch:catch", "with settings that fit it")]
)
def test_a_game_is_said_to_train_with_the_defaults(name: str, usual: str, capsys: pytest.CaptureFixture[str]):
    env = EnvWrapper(Scripted({"Catcher": {}}))
    env.reset(0)
    envs._show(Console(width=200), name, env)
    assert f"({usual}; a file of your own has a block under 'behaviors:' for Catcher)" in capsys.readouterr().out


def test_an_unknown_name_is_an_error_with_its_nearest():
    with pytest.raises(EnvError, match="did you mean '3DBall'"):
        run("3DBal")


def test_an_environment_tells_how_far_it_is_unitys(capsys: pytest.CaptureFixture[str]):
    run("PushBlock", "--unity")
    said = capsys.readouterr().out
    assert "the same" in said
    assert "differs" in said
    assert re.search(r"PushBlock\.onnx: 4\.\d+ ± 0\.\d+ .*; Unity states 4\.5", said)


def test_what_unitys_settings_learn_is_told_with_decisions_and_seeds(capsys: pytest.CaptureFixture[str]):
    run("WallJump", "--unity")
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "ppo/WallJump.yaml: 0.93 (mean of 400 episodes after the training) in SmallWallJump after 1.38 of 5 million "
        "decisions (one seed)" in said
    )
    assert "(one seed); Unity states 0.8" in said
    run("SoccerTwos", "--unity")
    assert "poca/SoccerTwos.yaml: 1194 (rating, 1,200 at first) after 0.8 of 50 million decisions" in " ".join(
        capsys.readouterr().out.split()
    )
    run("Match3", "--unity")
    assert "after 0.7 of 5 million decisions (one seed; boards of 9 x 8; by 1.1 million" in " ".join(
        capsys.readouterr().out.split()
    )
    run("Hallway", "--unity")
    assert "0.943 after 10 million decisions (one seed)" in " ".join(capsys.readouterr().out.split())


def test_a_model_that_falls_short_of_unitys_figure_is_told_without_inventing_an_error(capsys):
    run("Worm", "--unity")
    assert "Worm.onnx: 443 (reward of an episode); Unity states 800" in " ".join(capsys.readouterr().out.split())
    assert [name for name, agreement in agreements().items() if agreement.falls_short] == [
        "Crawler",
        "Visual3DBall",
        "Walker",
        "Worm",
    ]


def test_a_training_is_solved_not_solved_or_not_finished():
    said = [
        Learned("a.yaml", decisions, 5.0, reward, 100.0).status
        for decisions, reward in ((1.0, 96.0), (5.0, 94.0), (1.0, 94.0))
    ]
    assert said == ["solved", "not solved", "not finished"]
    assert Learned("a.yaml", 5.0, 5.0, 1.0, None).status == ""


def test_the_list_with_unity_has_a_line_for_each_model_that_was_played(capsys: pytest.CaptureFixture[str]):
    run("--unity")
    said = capsys.readouterr().out
    assert re.search(r"^3DBall +3DBall\.onnx +\d", said, re.MULTILINE)
    assert re.search(r"Without a model .*Pyramids", said)


@pytest.mark.parametrize("name", ["CartPole", "gymnasium:CartPole-v1"])
def test_an_environment_that_unity_has_not_says_which_it_has(name: str):
    with pytest.raises(EnvError, match="no counterpart among Unity's examples; these have one: 3DBall"):
        run(name, "--unity")
