import json
import re
import struct
from pathlib import Path

import pytest
from unity_games import make_build

import palaestra
from palaestra.cli.main import main
from palaestra.runtime.play.brain_play import PlaybackClock

pytestmark = pytest.mark.usefixtures("patient_games")

HARD = Path(__file__).parents[2] / "golden" / "data" / "onnx" / "unity_examples" / "3DBallHard.onnx"


def run(*arguments: object) -> int:
    return main(["run", *map(str, arguments)])


def fails(capsys, message: str, *arguments: object) -> None:
    assert run(*arguments) == 1
    error = capsys.readouterr().err
    assert re.search(message, error), error


def test_a_table_says_how_each_brain_did(capsys):
    assert run("Basic", "--brain", "heuristic", "--episodes=20") == 0
    head, row, rate = capsys.readouterr().out.splitlines()
    assert head.split()[:3] + head.split()[-3:] == ["behavior", "brain", "episodes", "minimum", "maximum", "decisions"]
    assert "mean reward ± error" in head
    assert row.split() == ["Basic", "heuristic", "20", "0.930", "±", "0.000", "0.930", "0.930", "7.0"]
    assert re.fullmatch(r"140 decisions in (?!0\.0 )[\d.]+ s \([\d,]+ per second\)", rate)


def test_several_brains_play_one_environment_and_wins_are_told(capsys):
    brains = ["--brain", "Duel?team=1=python:duel_env:top", "--brain", "heuristic"]
    assert run("python:duel_env:make", *brains, "--episodes=9", "--num-areas=2") == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[0][-3:] == ["won", "drawn", "lost"]
    assert rows[1][:3] + rows[1][-3:] == ["Duel?team=0", "heuristic", "9", "0", "0", "9"]
    assert rows[2][:3] + rows[2][-3:] == ["Duel?team=1", "python:duel_env:top", "9", "9", "0", "0"]


def test_json_has_the_same(capsys):
    assert run("gymnasium:CartPole-v1", "--brain", "random", "--episodes=5", "--json", "--seed=3") == 0
    first = capsys.readouterr().out
    assert run("gymnasium:CartPole-v1", "--brain", "random", "--episodes=5", "--json", "--seed=3") == 0
    assert capsys.readouterr().out == first
    result = json.loads(first)["CartPole-v1"]
    assert result["brain"] == "random"
    assert result["episodes"] == 5
    assert result["min"] <= result["mean"] == result["length"] <= result["max"]


def test_unitys_own_model_of_3dballhard_balances_ours(capsys):
    assert run("3DBallHard", "--brain", f"3DBallHard=model:{HARD}", "--deterministic", "--episodes=12", "--json") == 0
    assert json.loads(capsys.readouterr().out)["3DBallHard"]["mean"] > 99


def test_the_newest_model_of_a_run_plays(tmp_path: Path, capsys):
    settings = {
        "behaviors": {
            "Basic": {"trainer_type": "ppo", "max_steps": 64, "network_settings": {"hidden_units": 8, "num_layers": 1}}
        }
    }
    palaestra.train(settings, env="Basic", run_id="first", results_dir=str(tmp_path), num_areas=4, seed=1, quiet=True)
    assert run("Basic", "--brain", "model:first", f"--results-dir={tmp_path}", "--episodes=3", "--json") == 0
    assert json.loads(capsys.readouterr().out)["Basic"]["brain"] == "model:first"
    fails(
        capsys,
        r"no model of behavior '3DBall' \(it has: Basic\)",
        "3DBall",
        "--brain",
        "model:first",
        f"--results-dir={tmp_path}",
    )
    fails(capsys, r"no run 'frist' .*did you mean", "Basic", "--brain", "model:frist", f"--results-dir={tmp_path}")


def test_a_unity_game_plays_at_the_time_scale_that_it_is_told(tmp_path: Path, capsys):
    build = make_build(tmp_path, "Ball", notes=tmp_path / "notes")
    arguments = ["--brain", "Ball=random", "--brain", "Bull=random", "--episodes=4", "--time-scale=1.5", "--json"]
    assert run(build, *arguments) == 0
    out, error = capsys.readouterr()
    assert json.loads(out)["Ball"]["episodes"] == 4
    assert "--brain Bull=random was not used: the environment has the behaviors Ball; did you mean 'Ball'?" in error
    (end,) = (tmp_path / "notes").glob("*.end.json")
    assert struct.pack("<if", 2, 1.5).hex() in json.loads(end.read_text())["side_channel"]  # 2: Unity's time scale


def test_an_error_leaves_the_episodes_so_far(capsys):
    assert run("python:duel_env:make", "--brain", "python:duel_env:Tired", "--episodes=1000000", "--json") == 1
    out, error = capsys.readouterr()
    assert json.loads(out)["Duel?team=0"]["episodes"] == 27
    assert re.search(
        r"brain python:duel_env:Tired raised an error: RuntimeError: tired \(.*duel_env.py, line \d+\)", error
    )


def test_a_unity_game_keeps_its_heuristics_to_itself(tmp_path: Path, capsys):
    fails(
        capsys,
        "'Ball': a Unity game does not share its heuristics",
        make_build(tmp_path, "Ball"),
        "--brain",
        "heuristic",
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["3DBall"], "no brain is named: add one, such as --brain heuristic"),
        (["3DBal", "--brain", "random"], "did you mean '3DBall'"),
        (["3DBall", "--brain", "randm"], "there is no brain 'randm'; did you mean 'random'"),
        (["3DBall", "--brain", "random", "--brain", "3DBal=heuristic"], "--brain 3DBal: the environment has the"),
        (["3DBall", "--brain", "random", "--episodes=0"], "--episodes is 0; expected at least 1"),
        (["3DBall", "--brain", "random", "--time-scale=0"], "--time-scale is 0; expected more than 0"),
        (["3DBall", "--brain", "random", "--num-envs=2"], "--num-envs is only for Unity games, and 3DBall is not one"),
        (["python:duel_env:make", "--brain", "random", "--time-scale=1"], "how long a tick of python:duel_env:make"),
        (["gymnasium:CartPole-v1", "--brain", "heuristic"], "'CartPole-v1': the environment has no heuristic.*; use"),
        (["./Soccer.x86_64", "--brain", "random"], "found no Linux build './Soccer.x86_64'|no .* build"),
    ],
)
def test_what_cannot_be_played_says_why(capsys, arguments: list[str], message: str):
    fails(capsys, message, *arguments)


def test_a_brain_that_played_nobody_is_told(capsys):
    assert run("Basic", "--brain", "heuristic", "--brain", "Basic?team=1=random", "--episodes=2") == 0
    assert "--brain Basic?team=1=random was not used: 'Basic' has team 0 only" in capsys.readouterr().err


@pytest.mark.parametrize("command", [("run", "Basic", "--brain=random"), ("evaluate", "first"), ("record", "first")])
@pytest.mark.parametrize("seed", ["-1", "1.5", str(2**63)])
def test_a_seed_that_is_none_is_refused(terminal, command: tuple[str, ...], seed: str):
    assert f"'{seed}' is not a seed; expected a whole" in terminal.fails(*command, f"--seed={seed}", status=2)


@pytest.mark.slow
def test_ctrl_c_shows_the_episodes_so_far(capsys):
    assert run("python:duel_env:make", "--brain", "python:duel_env:Interrupted", "--episodes=1000000", "--json") == 130
    out, error = capsys.readouterr()
    assert json.loads(out)["Duel?team=1"] | {"brain": ""} == {
        "episodes": 27,
        "mean": 0.0,
        "error": 0.0,
        "std": 0.0,
        "min": 0.0,
        "max": 0.0,
        "length": 1.0,
        "won": 0,
        "drawn": 27,
        "lost": 0,
        "brain": "",
    }
    assert "interrupted; only the episodes that had ended are counted" in error


def test_ticks_are_as_far_apart_as_asked_and_lost_time_is_not_made_up_for():
    now = [10.0]
    slept = list[float]()

    def sleep(seconds):
        slept.append(round(seconds, 6))
        now[0] += seconds

    pace = PlaybackClock(lambda: now[0], sleep)
    for seconds, work in ((0.5, 0.1), (0.5, 0.2), (0.5, 2.0), (0.5, 0.0), (0.25, 0.1), (0.5, 0)):
        pace.wait(seconds)
        now[0] += work
    assert slept == [0.4, 0.3, 0.5, 0.15]


def test_the_page_of_a_player_opens_no_browser_where_none_is_wanted(tmp_path: Path, monkeypatch):
    opened = []
    monkeypatch.setattr("palaestra.cli.view.open_page", lambda _site, **how: opened.append(how) or 0)
    monkeypatch.chdir(tmp_path)
    assert run("Basic", "--brain=player", "--no-browser") == 0
    assert opened == [{"path": "/play", "browser": False}]
