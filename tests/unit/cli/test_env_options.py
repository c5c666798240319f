"""--set of commands that open an environment: its options and parameters, and nothing else."""

import json
from pathlib import Path

import pytest

import palaestra
from palaestra.cli.main import main
from palaestra.core.errors import ConfigError, EnvError
from palaestra.envs.base import Env

pytestmark = pytest.mark.usefixtures("patient_games")

SETTINGS = {
    "default_settings": {
        "trainer_type": "ppo",
        "hyperparameters": {"batch_size": 16, "buffer_size": 64},
        "network_settings": {"hidden_units": 8, "num_layers": 1},
        "max_steps": 64,
    }
}


BRAIN = """
import numpy as np

def right(obs):
    return np.full((len(obs[0]), 1), 2)
"""


def test_an_option_reaches_the_environment_that_is_played(tmp_path, terminal, monkeypatch):
    (tmp_path / "option_brains.py").write_text(BRAIN)
    monkeypatch.syspath_prepend(str(tmp_path))
    lake = ["run", "gymnasium:FrozenLake-v1", "--brain", "python:option_brains:right", "--episodes=20", "--json"]
    lengths: list[float] = []
    for more in ([], ["--set", "env_settings.env_options.is_slippery=false"]):
        lengths.append(json.loads(terminal(*lake, *more))["FrozenLake-v1"]["length"])
    assert lengths[0] < lengths[1] == 100  # only who slips leaves the first row, where all is ice


def test_a_run_is_evaluated_with_its_own_options_and_with_those_that_are_typed(tmp_path, terminal):
    own = {"env_settings": {"env_options": {"desc": ["SFFF"], "is_slippery": False}}}
    palaestra.train(
        {**SETTINGS, **own},
        env="gymnasium:FrozenLake-v1",
        num_areas=4,
        run_id="lake",
        results_dir=str(tmp_path),
        quiet=True,
    )
    evaluate = ["evaluate", "lake", f"--results-dir={tmp_path}", "--episodes=8", "--json", "--num-areas=4"]
    assert json.loads(terminal(*evaluate))["FrozenLake-v1"]["mean"] == 0  # no goal
    assert json.loads(terminal(*evaluate, "--set", "env_settings.env_options.desc=[SGGG]"))["FrozenLake-v1"]["mean"] > 0


FALL = {"sampler_type": "uniform", "sampler_parameters": {"min_value": 90, "max_value": 100}}


def test_a_run_is_evaluated_at_its_own_parameters_and_at_those_that_are_typed(tmp_path, terminal):
    lessons = [
        {
            "name": "slow",
            "completion_criteria": {"measure": "progress", "behavior": "3DBall", "threshold": 0.9},
            "value": 4,
        },
        {"name": "fast", "value": 100},
    ]
    settings = {
        "behaviors": {"3DBall": {"max_steps": 200}},
        "environment_parameters": {"gravity": {"curriculum": lessons}},
    }
    palaestra.train(settings, env="3DBall", run_id="ball", results_dir=str(tmp_path), quiet=True)
    evaluate = ["evaluate", "ball", f"--results-dir={tmp_path}", "--episodes=12", "--json"]

    def length(*more: str) -> float:
        return json.loads(terminal(*evaluate, *(part for one in more for part in ("--set", one))))["3DBall"]["length"]

    first = length()  # the run is in its first lesson
    fast = length("environment_parameters.gravity=100")
    assert first == length("environment_parameters.gravity=4") > 1.5 * fast
    assert length(f"environment_parameters.gravity={json.dumps(FALL)}") < 1.5 * fast
    assert length("environment_parameters.gravity=100", "environment_parameters.scale=5") != fast

    def made(areas: int = 12) -> Env:
        return palaestra.make("3DBall", areas=areas)

    asked = {"episodes": 12, "results_dir": tmp_path, "quiet": True}
    for env in (None, "3DBall", made):
        found = palaestra.evaluate("ball", env=env, environment_parameters={"gravity": 100}, **asked)
        assert found.lengths.mean() == fast
    with pytest.raises(EnvError, match="3DBall has no parameter 'gravty'; did you mean 'gravity'"):
        palaestra.evaluate("ball", environment_parameters={"gravty": 1}, **asked)
    with pytest.raises(ConfigError, match=r"environment_parameters\.gravity: expected a number"):
        palaestra.evaluate("ball", environment_parameters={"gravity": "low"}, **asked)


@pytest.mark.parametrize(
    ("command", "typed", "message"),
    [
        (
            ["run", "Match3", "--brain=random"],
            "env_settings.env_options.largest_bords=1",
            "did you mean 'largest_boards'?",
        ),
        (
            ["run", "Match3", "--brain=random"],
            "largest_boards=true",
            "only options and parameters of the environment are set here",
        ),
        (["run", "3DBall", "--brain=random"], "environment_parameters.gravty=3", "did you mean 'gravity'?"),
        (["run", "3DBall", "--brain=random"], "environment_parameters.gravity=3", "expected a number within 4..105"),
        (
            ["evaluate", "none"],
            "env_settings.env_options.environment_parameters.gravity=3",
            "only options and parameters",
        ),
        (["envs", "3DBall"], "environment_parameters.gravity=30", "only options of the environment are set here"),
        (
            ["evaluate", "none"],
            "behaviors.Match3.max_steps=3",
            "only options and parameters of the environment are set here",
        ),
        (["run", "Match3", "--brain=random"], "env_settings.env_options=3", "env_settings.env_options: expected a"),
        (["run", "Match3", "--brain=random"], "env_settings.env_options.areas=3", "is a setting of its own"),
        (
            ["run", "gymnasium:CartPole-v1", "--brain=random"],
            "env_settings.env_options.areas=3",
            "is a setting of its own",
        ),
        (["envs", "Match3"], "env_settings.env_options.greedy=3", "option 'greedy' is 3; expected true or false"),
        (["envs"], "env_settings.env_options.greedy=false", "--set is for one environment"),
        (["envs", "Match3", "--unity"], "env_settings.env_options.greedy=false", "--set is for one environment"),
        (["view"], "env_settings.env_options.greedy=false", "--set is for one run or environment"),
        (
            ["doctor", "Match3"],
            "env_settings.num_areas=3",
            "only options and parameters of the environment are set here",
        ),
        (
            ["record", "--demo", "--env=Match3", "--brain=random"],
            "env_settings.env_options.greedy=3",
            "option 'greedy' is 3",
        ),
    ],
)
def test_what_is_no_option_is_refused(command: list[str], typed: str, message: str, terminal):
    assert message in terminal.fails(*command, "--set", typed)


def test_an_option_reaches_recordings(tmp_path: Path, terminal):
    demo = ["record", "--demo", "--env=gymnasium:FrozenLake-v1", "--brain=random", "--episodes=1", "--areas=1"]
    assert main([*demo, f"--demo-out={tmp_path / 'lake.demo'}", "--set", "env_settings.env_options.desc=[SG]"]) == 0
    (shown,) = json.loads(terminal("demo", tmp_path / "lake.demo", "--json"))
    assert shown["observations"][0]["shape"] == [2]  # one number for each field


def test_brains_play_and_are_recorded_at_given_parameters(tmp_path):
    lengths = [
        palaestra.run(
            env, "random", episodes=12, environment_parameters={"gravity": gravity}, quiet=True
        ).lengths.mean()
        for env in ("3DBall", lambda areas=12: palaestra.make("3DBall", areas=areas))
        for gravity in (4, 100)
    ]
    assert lengths[:2] == lengths[2:]
    assert lengths[0] > 1.5 * lengths[1]
    run = {"run_id": "ball", "results_dir": str(tmp_path), "quiet": True}
    result = palaestra.train(env=lambda areas=4: palaestra.make("3DBall", areas=areas), max_steps=100, **run)
    film = {"seconds": 0.2, "results_dir": tmp_path, "areas": 1, "force": True}
    pictures = [
        palaestra.record(result, tmp_path / "a.gif", environment_parameters={"scale": scale}, **film).file.read_bytes()
        for scale in (1, 1, 5)
    ]
    assert pictures[0] == pictures[1] != pictures[2]
